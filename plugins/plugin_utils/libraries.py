"""The Python libraries of `requirements.txt`. Plugins load without them, and say so when they are used and need them.

Ansible ends with a traceback where an action cannot be imported, and nothing in the play can handle that.
"""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ..module_utils.domain.values import errors

if TYPE_CHECKING:
    from collections.abc import Iterator

NAMES = ("httpx", "numpy", "orjson", "pydantic")
_REQUIREMENTS = Path(__file__).resolve().parents[2] / "requirements.txt"


@contextlib.contextmanager
def optional() -> Iterator[None]:
    """Import what may need the libraries; without them the names stay undefined, and `require` has to come first."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name not in NAMES:
            raise


def require() -> None:
    """Check that the controller's Python has the libraries.

    Raises:
        Refused: some are missing; the text says how to install them.
    """
    missing = [name for name in NAMES if importlib.util.find_spec(name) is None]
    if missing:
        raise errors.Refused(
            f"the controller's Python has no {', '.join(missing)}: "
            f"run `{sys.executable} -m pip install --requirement {_REQUIREMENTS}`"
        )
