"""The credentials file: how to reach each node's BMC, as JSON on the host that talks to the BMCs."""

from __future__ import annotations

import json
import os
import stat
from typing import Any, Dict, Mapping

from ..domain.power import power
from ..domain.values import errors

FIELDS: Mapping[str, type] = {
    "driver": str,
    "address": str,
    "port": int,
    "username": str,
    "password": str,
    "certificate": str,
}
DEFAULT_DRIVER = "ipmi"
FOR_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def read(path: str) -> Dict[str, Any]:
    """Read the entries by node from a file that only its owner can open; no error shows what the file says.

    Raises:
        errors.InvalidInput: the file is open to others, not readable, or not a JSON object.
    """
    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123 -- the checks need the open file
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise errors.InvalidInput(f"{path} is not a regular file")
            if status.st_mode & FOR_OTHERS:
                mode = stat.S_IMODE(status.st_mode)
                raise errors.InvalidInput(
                    f"{path} holds passwords and is open to group or others (mode {mode:04o}): chmod 0600"
                )
            document = json.load(file)
    except OSError as error:
        raise errors.InvalidInput(f"{path} cannot be read: {error.strerror}") from error
    except json.JSONDecodeError as error:
        raise errors.InvalidInput(f"{path} is not JSON: {error.msg} in line {error.lineno}") from None
    except UnicodeDecodeError:
        raise errors.InvalidInput(f"{path} is not UTF-8") from None
    if not isinstance(document, dict):
        raise errors.InvalidInput(f"{path} is not a JSON object of nodes")
    return document


def make_target(name: str, entry: object) -> power.Target:
    """Make a target of a mapping with the keys driver, address, port, username, password and certificate.

    Raises:
        errors.InvalidInput: a key is unknown, or a value has the wrong type.
    """
    if not isinstance(entry, dict):
        raise errors.InvalidInput(f"{name}: its entry is not an object")
    values: Dict[str, Any] = {key: value for key, value in entry.items() if value is not None}
    for key, value in values.items():
        if key not in FIELDS:
            raise errors.InvalidInput(f"{name}: unknown key {key!r}")
        if not isinstance(value, FIELDS[key]) or isinstance(value, bool):
            raise errors.InvalidInput(f"{name}: {key} is not of type {FIELDS[key].__name__}")
    return power.Target(**{"name": name, "driver": DEFAULT_DRIVER, "address": "", **values})
