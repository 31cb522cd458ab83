from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.module_utils.oob import credentials

if TYPE_CHECKING:
    from pathlib import Path

ENTRY = {"address": "192.0.2.1", "port": 624, "username": "admin", "password": "s3cret"}


def write(path: Path, content: str, *, mode: int = 0o600) -> str:
    path.write_text(content)
    path.chmod(mode)
    return str(path)


def test_the_entries_of_all_nodes_are_read(tmp_path: Path) -> None:
    path = write(tmp_path / "bmc.json", json.dumps({"node1": ENTRY, "node2": ENTRY}))
    assert credentials.read(path) == {"node1": ENTRY, "node2": ENTRY}


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o610])
def test_a_file_that_is_open_to_others_is_refused(tmp_path: Path, mode: int) -> None:
    path = write(tmp_path / "bmc.json", json.dumps({"node1": ENTRY}), mode=mode)
    with pytest.raises(errors.InvalidInput, match="open to group or others"):
        credentials.read(path)


@pytest.mark.parametrize("content", ["s3cret", '["s3cret"]', '"s3cret"', '{"node1": "s3cret"'])
def test_a_file_that_is_no_document_is_refused_without_showing_it(tmp_path: Path, content: str) -> None:
    with pytest.raises(errors.InvalidInput) as caught:
        credentials.read(write(tmp_path / "bmc.json", content))
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    "entry",
    [
        "s3cret",
        {"address": 7, "password": "s3cret"},
        {"address": "192.0.2.1", "pasword": "s3cret"},
        {"address": "192.0.2.1", "port": True, "password": "s3cret"},
        {"address": "192.0.2.1", "port": 70000, "password": "s3cret"},
    ],
)
def test_an_entry_that_does_not_serve_is_refused_with_its_node_and_without_showing_it(entry: object) -> None:
    with pytest.raises(errors.InvalidInput, match="node1: ") as caught:
        credentials.make_target("node1", entry)
    assert "s3cret" not in str(caught.value)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidInput, match="cannot be read"):
        credentials.read(str(tmp_path / "bmc.json"))
