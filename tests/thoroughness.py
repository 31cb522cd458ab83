"""Properties of plans: tried on some clusters by the default suite, and on thousands by `make slowtest`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

FACTOR = int(os.environ.get("ROUNDSMAN_EXAMPLES", "1"))


def tried(count: int) -> Callable[[Any], Any]:
    """Of a property: how many clusters it is tried on; so many times more where ROUNDSMAN_EXAMPLES says so."""
    found = hypothesis.settings(max_examples=count * FACTOR, deadline=None)
    return lambda test: pytest.mark.thorough(found(test))
