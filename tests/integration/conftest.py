"""Labs that are brought down whatever a test does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

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
