"""Labs and test beds that are brought down whatever a test does."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any

import pytest

from tests.testbed import beds, building, cache

from . import labs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Callable[..., labs.Running]]:
    """Makes labs for one test; every one is brought down after it."""
    made: list[labs.Running] = []

    def make(**options: Any) -> labs.Running:
        made.append(labs.up(tmp_path / f"lab{len(made)}", **options))
        return made[-1]

    yield make
    for one in made:
        labs.down(one)


@pytest.fixture(scope="session")
def containers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[beds.Bed]:
    """Three hosts of libvirt as containers; tests that use them are slow, and leave them empty."""
    with _up(tmp_path_factory, building.up_containers) as bed:
        yield bed


@pytest.fixture(scope="session")
def guests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[beds.Bed]:
    """Two guests with DRBD; tests that use them are slow, and leave them empty."""
    with _up(tmp_path_factory, building.up_guests, kept=cache.default()) as bed:
        yield bed


@contextlib.contextmanager
def _up(factory: pytest.TempPathFactory, start: Callable[..., None], **options: Any) -> Iterator[beds.Bed]:
    """A bed; a machine that cannot make one skips the test, and fails it where CI=true."""
    bed = beds.Bed(factory.mktemp("bed"))
    try:
        start(bed, tell=print, **options)
    except beds.Missing as error:
        if os.environ.get("CI") == "true":
            pytest.fail(str(error))
        pytest.skip(str(error))
    try:
        yield bed
    finally:
        building.down(bed)
