from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from . import nodes

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def node(tmp_path: Path) -> nodes.Node:
    return nodes.Node(tmp_path / "node")
