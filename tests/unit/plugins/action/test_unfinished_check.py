from __future__ import annotations

from typing import Any

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.playbook.play_context import PlayContext
from ansible.playbook.task import Task
from ansible.plugins.connection.local import Connection
from ansible.template import Templar
from ansible_collections.roundsman.cluster.plugins.action import unfinished_check


def step(primary: dict[str, Any], other: dict[str, Any]) -> str:
    """The step that the action returns for what two nodes answered."""
    task, loader, context = Task(), DataLoader(), PlayContext()
    nodes = {"primary": {"name": "node1", "guests": primary}, "other": {"name": "node2", "guests": other}}
    task.args = {"instance": "web1", "hypervisor": "kvm", **nodes}
    module = unfinished_check.ActionModule(task, Connection(context), context, loader, Templar(loader), None)
    return str(module.run(task_vars={})["step"])


@pytest.mark.parametrize(
    ("migrations", "expected"), [({}, "stays"), (None, "stays"), ({"web2": {}}, "stays"), ({"web1": {}}, "refuse")]
)
def test_an_instance_whose_migration_goes_on_does_not_count_as_where_it_was(migrations: Any, expected: str) -> None:
    assert step({"states": {"web1": "running"}, "migrations": migrations}, {}) == expected
