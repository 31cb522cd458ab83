"""Programs that nobody here wrote and that tests compare with: where CI runs they must be there."""

from __future__ import annotations

import os
import shutil

import pytest

SYSTEM = "/usr/local/sbin:/usr/sbin:/sbin"
"""Where Debian puts programs for administrators; the search path of other users lacks it."""


def found(name: str) -> str | None:
    """Give the path of a program, None without it."""
    return shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:{SYSTEM}")


def program(name: str, *, package: str) -> str:
    """Give the path of a program of a Debian package; without it the test is skipped, and fails where CI=true."""
    path = found(name)
    if path is not None:
        return path
    text = f"{name} IS NOT COMPARED WITH: apt-get install {package}"
    if os.environ.get("CI") == "true":
        pytest.fail(text)
    pytest.skip(text)
