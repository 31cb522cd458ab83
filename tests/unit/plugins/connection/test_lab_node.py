from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import pytest
from ansible.errors import AnsibleConnectionFailure
from ansible.playbook.play_context import PlayContext
from ansible_collections.roundsman.cluster.plugins.connection import lab_node

from tests.unit.daemon import twins

if TYPE_CHECKING:
    from pathlib import Path

    from ansible_collections.roundsman.cluster.daemon.lab import world

ROOT = 'printf %s "$ROUNDSMAN_ROOT"'


@pytest.fixture
def node(tmp_path: Path) -> world.LabNode:
    return twins.lab(tmp_path / "it's a lab", nodes=1, instances=0).node("node1")


def connection(node: world.LabNode) -> Any:
    one = lab_node.Connection(PlayContext(), io.StringIO())
    # Options come from variables only when Ansible's loader has found the plugin, as it does in a play.
    one._options = {"lab_root": str(node.root)}
    return one


def test_a_command_runs_with_the_root_of_its_node(node: world.LabNode) -> None:
    assert connection(node).exec_command(ROOT) == (0, str(node.root).encode(), b"")


@pytest.mark.parametrize("how", ["power", "link"])
def test_a_node_without_power_or_link_is_unreachable(node: world.LabNode, how: str) -> None:
    one = connection(node)
    one.exec_command(ROOT)
    if how == "power":
        node.set_power(False)
    else:
        node.cut(is_cut=True)
    with pytest.raises(AnsibleConnectionFailure, match="node1 does not answer"):
        one.exec_command(ROOT)
    with pytest.raises(AnsibleConnectionFailure, match="node1 does not answer"):
        connection(node)._connect()
