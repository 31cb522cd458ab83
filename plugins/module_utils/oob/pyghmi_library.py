"""The library pyghmi, which is loaded when it is needed: a node whose BMC is reached otherwise need not have it."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from ..domain.power import power
from ..domain.values import errors

IPMI = "pyghmi.ipmi.command"
REDFISH = "pyghmi.redfish.command"


def load(module: str) -> Any:
    """Load one of its modules; in the parent of many children, so that none of them has to.

    Raises:
        errors.PowerFailed: this Python has no pyghmi.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise errors.PowerFailed(
            power.Reason.DRIVER.value,
            f"Redfish and the health of BMCs need the library pyghmi: run `{sys.executable} -m pip install pyghmi`",
        ) from error


def http_failure() -> Any:
    """What Python's HTTP raises below it: HTTPException, of a module that takes long to load."""
    return importlib.import_module("http.client").HTTPException


def exceptions() -> Any:
    """What it raises: PyghmiException, and UnrecognizedCertificate, which is none."""
    return importlib.import_module("pyghmi.exceptions")
