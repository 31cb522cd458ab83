"""What holds for all tests."""

from __future__ import annotations

import gc
import hashlib
import logging
import os
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

MEMORY, PLENTY = Path("/dev/shm"), 4 << 30

USUAL = hypothesis.settings()
# How long an example takes is the machine's matter: several processes test at a time, and others work beside them.
hypothesis.settings.register_profile(
    "patient",
    USUAL,
    deadline=None,
    suppress_health_check=[*USUAL.suppress_health_check, hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("patient")


@pytest.fixture(autouse=True)
def _logging_is_put_back() -> Iterator[None]:
    """A program whose `main` a test calls logs to what is the test's, and to nothing after it."""
    loggers = [logging.getLogger(), logging.getLogger("roundsman.audit")]
    known = [(logger, logger.handlers[:], logger.level) for logger in loggers]
    yield
    for logger, before, level in known:
        for handler in set(logger.handlers) - set(before):
            logger.removeHandler(handler)
            handler.close()
        logger.setLevel(level)


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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With ROUNDSMAN_ORDER the files come in the order of this word: where time ends early, it ends elsewhere."""
    if word := os.environ.get("ROUNDSMAN_ORDER"):
        items.sort(key=lambda item: hashlib.sha256(f"{word} {item.path.name}".encode()).digest())


def pytest_collection_finish() -> None:
    """What was collected lives as long as the process: nothing in it is looked for as garbage while tests run."""
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """After ROUNDSMAN_UNTIL (seconds since the epoch) no test begins; what was left out is told at the end."""
    if time.time() > float(os.environ.get("ROUNDSMAN_UNTIL", "inf")):
        pytest.skip("no time was left for it")
