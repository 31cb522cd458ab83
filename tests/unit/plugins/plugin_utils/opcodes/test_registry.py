from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils.opcodes import contract, instance_moves, registry

CHECKOUT = Path(__file__).parents[5]
PLAYBOOKS, ROLES = CHECKOUT / "playbooks/opcodes", CHECKOUT / "roles"


def test_an_opcode_is_made_of_its_parameters() -> None:
    made = registry.make("migrate", {"instance": "i", "source": "a", "target": "b"})
    assert made == instance_moves.Migrate(instance="i", source="a", target="b")


@pytest.mark.parametrize(
    ("kind", "params", "text"),
    [
        ("explode", {}, "there is no opcode 'explode': use one of "),
        ("", {}, "there is no opcode ''"),
        ("migrate", {"instance": "i", "source": "a", "target": "b", "fast": True}, "no parameter 'fast'"),
        ("migrate", {"instance": "i"}, "opcode migrate: source: Field required"),
        ("migrate", {"instance": 5, "source": "a", "target": "b"}, "opcode migrate: instance: "),
        ("node_role", {"node": "n", "drained": "perhaps"}, "opcode node_role: drained: "),
        ("power", {"node": "n", "kind": "x"}, "no parameter 'kind'"),
    ],
)
def test_unknown_kinds_and_parameters_are_refused(kind: str, params: dict[str, Any], text: str) -> None:
    with pytest.raises(errors.InvalidInput) as refused:
        registry.make(kind, params)
    assert text in str(refused.value)


def test_every_opcode_that_touches_nodes_has_its_play() -> None:
    kinds = registry._KINDS.items()
    plays: dict[str, Any] = {kind: made for kind, made in kinds if made.execution is contract.Execution.PLAY}
    assert plays
    files = {kind: f"{made.role}/tasks/{kind}.yml" for kind, made in plays.items() if made.role}
    assert [file for file in files.values() if not (ROLES / file).exists()] == []
    own = {f"{kind}.yml" for kind in plays.keys() - files.keys()}
    assert own | {"step.yml"} == {file.name for file in PLAYBOOKS.glob("*.yml")}
    assert [kind for kind, opcode in kinds if kind not in plays and hasattr(opcode, "hosts")] == []
    assert registry.make("node_role", {"node": "n"}).execution is contract.Execution.CHANGE


def test_only_a_method_makes_an_opcode_one_that_checks_facts() -> None:
    """A power command has a field `check`, and Python looks at the name only."""
    one = registry.make("power", {"node": "n", "command": "off"})
    assert not isinstance(one, contract.CheckedKind)
    assert isinstance(registry.make("replace_disks", {"instance": "i", "old": "a", "new": "b"}), contract.CheckedKind)
