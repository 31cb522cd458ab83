"""What holds for all tests."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis

if TYPE_CHECKING:
    import pytest

MEMORY, PLENTY = Path("/dev/shm"), 4 << 30

USUAL = hypothesis.settings()
# How long an example takes is the machine's matter: two processes test at a time, and others work beside them.
hypothesis.settings.register_profile(
    "patient",
    USUAL,
    deadline=None,
    suppress_health_check=[*USUAL.suppress_health_check, hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("patient")


def pytest_configure(config: pytest.Config) -> None:
    """Let the default suite have its temporary folders in memory, where there is plenty and programs may run."""
    if config.option.markexpr == "not slow" and _is_fit(MEMORY):
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


def _is_fit(folder: Path) -> bool:
    return (
        os.access(folder, os.W_OK)
        and shutil.disk_usage(folder).free >= PLENTY
        and not os.statvfs(folder).f_flag & os.ST_NOEXEC
    )
