"""The simulated node that tests of DRBD work on."""

from __future__ import annotations

from tests.unit.plugins.module_utils.storage.conftest import machine

__all__ = ["machine"]
