from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain import errors
from ansible_collections.roundsman.cluster.plugins.module_utils.oob import credentials

if TYPE_CHECKING:
    from pathlib import Path

ENTRY = {"address": "192.0.2.1", "port": 624, "username": "admin", "password": "s3cret"}


def write(path: Path, content: str, *, mode: int = 0o600) -> str:
    path.write_text(content)
    path.chmod(mode)
    return str(path)


def test_targets_come_in_the_order_of_the_nodes(tmp_path: Path) -> None:
    path = write(tmp_path / "bmc.json", json.dumps({"node1": ENTRY, "node2": ENTRY, "node3": ENTRY}))
    targets = credentials.load(path, nodes=["node3", "node1"])
    assert [(target.name, target.driver, target.port) for target in targets] == [
        ("node3", "ipmi", 624),
        ("node1", "ipmi", 624),
    ]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o610])
def test_a_file_that_is_open_to_others_is_refused(tmp_path: Path, mode: int) -> None:
    path = write(tmp_path / "bmc.json", json.dumps({"node1": ENTRY}), mode=mode)
    with pytest.raises(errors.InvalidInput, match="open to group or others"):
        credentials.load(path, nodes=["node1"])


@pytest.mark.parametrize(
    "content",
    [
        "s3cret",
        '["s3cret"]',
        '{"node1": "s3cret"}',
        '{"node1": {"address": 7, "password": "s3cret"}}',
        '{"node1": {"address": "192.0.2.1", "pasword": "s3cret"}}',
        '{"node1": {"address": "192.0.2.1", "port": true, "password": "s3cret"}}',
        '{"node2": {"address": "192.0.2.1", "password": "s3cret"}}',
    ],
)
def test_a_wrong_document_is_refused_without_showing_it(tmp_path: Path, content: str) -> None:
    with pytest.raises(errors.InvalidInput) as caught:
        credentials.load(write(tmp_path / "bmc.json", content), nodes=["node1"])
    assert "s3cret" not in str(caught.value)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidInput, match="cannot be read"):
        credentials.load(str(tmp_path / "bmc.json"), nodes=["node1"])
