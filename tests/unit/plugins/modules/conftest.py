from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.unit.plugins.modules.called import Node

if TYPE_CHECKING:
    import pathlib


@pytest.fixture
def node(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Node:
    return Node(tmp_path / "node2", monkeypatch, capsys)


@pytest.fixture
def other(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Node:
    return Node(tmp_path / "node3", monkeypatch, capsys)
