from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils.opcodes import contract, instance_moves, registry
from ansible_collections.roundsman.cluster.plugins.plugin_utils.rounds import wording

CHECKOUT = Path(__file__).parents[5]
PLAYBOOKS, ROLES = CHECKOUT / "playbooks/opcodes", CHECKOUT / "roles"
KINDS = registry._KINDS
WORDS = {*wording.PATTERNS, *wording.OWN_WORDS, *wording.SETTING, *wording.BY_PARAMETERS}
_NOTHING_REMOVED = contract.ChangeOpcode.is_removed


def _parameters(kind: str) -> list[str]:
    return [field.name for field in registry._fields(kind)]


def _argument_specs(role: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROLES / role / "meta/argument_specs.yml").read_text())["argument_specs"]
    return found


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


def test_an_opcode_without_what_no_default_can_say_is_not_made() -> None:
    @dataclasses.dataclass(frozen=True)
    class Bare(contract.PlayOpcode):
        kind: ClassVar[str] = "bare"

    with pytest.raises(TypeError, match=r"abstract methods? .*hosts.*time_limit.*variables.*wants"):
        Bare()  # type: ignore[abstract]


def test_each_kind_is_whole() -> None:
    """No kind is without words, takes over another one's, or has a parameter by the name of a property."""
    assert [kind for kind, opcode in KINDS.items() if opcode.kind != kind] == []
    assert len(KINDS) == len(registry._CLASSES)
    assert sorted(KINDS) == sorted(WORDS)
    bases = (contract.PlayOpcode, contract.ChangeOpcode, contract.SubmitOpcode, contract.DelayOpcode)
    own = {name for base in bases for name in dir(base)}
    assert [(kind, name) for kind in KINDS for name in _parameters(kind) if name in own] == []


def test_what_removes_says_when_nothing_of_it_is_there() -> None:
    says = {kind for kind, made in KINDS.items() if getattr(made, "is_removed", None) not in {None, _NOTHING_REMOVED}}
    assert says == {kind for kind, made in KINDS.items() if getattr(made, "removes", False)} != set()


def test_the_steps_of_each_opcode_have_their_argument_specs() -> None:
    plays = [made for made in KINDS.values() if made.execution is contract.Execution.PLAY and made.role]
    assert [made.kind for made in plays if made.kind not in _argument_specs(made.role)] == []


@pytest.mark.parametrize(
    ("kind", "name"), [("migrate", "OP_INSTANCE_MIGRATE"), ("tags_set", "OP_TAGS_SET"), ("gone", "OP_GONE")]
)
def test_the_name_in_the_api_of_ganeti_is_that_of_the_class_or_of_the_kind(kind: str, name: str) -> None:
    assert registry.op_id(kind) == name
