"""The actions that only hand on what their module answers."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from ansible.plugins.action import ActionBase
from ansible_collections.roundsman.cluster.plugins.module_utils import leader_record
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent.epochs import Epoch, Order
from ansible_collections.roundsman.cluster.plugins.plugin_utils import controller_epoch, durable_files, module_answers

from .running import PACKAGE, Modules

if TYPE_CHECKING:
    from .running import Controller

FILES = Path(__file__).resolve().parents[4].joinpath("plugins/action").glob("*.py")
NAMES = sorted(
    path.stem
    for path in FILES
    if importlib.import_module(f"{PACKAGE}.{path.stem}").ActionModule is module_answers.ModuleAction
)
VALUES: dict[str, Any] = {"bool": True, "int": 1, "float": 1.5, "str": "x", "dict": {"a": 1}, "list": []}
HOSTILE = {
    "ansible_facts": {"roundsman_root": "/evil"},
    "ansible_stats": {"data": {}},
    "add_host": {"host_name": "x"},
    "_ansible_notify": ["x"],
    "warnings": ["x"],
    "invocation": {"module_args": {}},
}


@pytest.mark.parametrize("name", NAMES)
def test_an_action_hands_on_the_documented_keys_of_its_module_and_nothing_else(
    controller: Controller, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    fields = {key: VALUES[kind.partition("[")[0]] for key, kind in module_answers.FIELDS[name].items()}
    answer = {**HOSTILE, **fields, "changed": True}
    modules = Modules(monkeypatch, lambda _: answer)
    for is_check in (False, True):
        assert controller.run(name, is_check=is_check, anything="x") == {**fields, "changed": True}
        assert modules.calls[-1] == {"module": f"roundsman.cluster.{name}", "anything": "x"}
        assert modules.is_check is is_check
    key, value = next(iter(fields.items()))
    answer[key] = "x" if value == VALUES["dict"] or value == [] else {"x": 1}
    assert f"the answer of the module is not as documented: {key} must be" in controller.refusal(name)


ORDER = Order(Epoch(4, "four"), "5f0c5d2e-6a0e-4d86-8f0e-0f9d1e3f7a11", 7)


def environment(controller: Controller, monkeypatch: pytest.MonkeyPatch, **variables: str) -> list[Any]:
    """The environment of a module that runs over a local connection."""
    seen: list[Any] = []

    def execute(action: Any, *_: Any, **__: Any) -> dict[str, Any]:
        seen.append(action._task.environment)
        return {"changed": False}

    monkeypatch.setattr(ActionBase, "_execute_module", execute)
    assert not controller.run("instance_state", variables=variables, name="x").get("failed")
    return list(seen[0] or [])


def test_a_step_on_the_node_that_carries_the_controller_names_its_epoch_too(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert environment(controller, monkeypatch) == []
    controller_epoch.write(controller.where, ORDER)

    assert environment(controller, monkeypatch) == [{leader_record.VARIABLE: str(ORDER)}]


def test_a_step_names_the_boot_of_the_node_on_which_it_runs(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    boot = "0c1d2e3f-0000-4000-8000-000000000001"
    controller_epoch.write(controller.where, ORDER, boots={"a": boot})

    (named,) = environment(controller, monkeypatch, roundsman_node_uuid="a")
    (other,) = environment(controller, monkeypatch, roundsman_node_uuid="b")

    assert named == {leader_record.VARIABLE: f"{ORDER}:{boot}"}
    assert other == {leader_record.VARIABLE: str(ORDER)}


def test_what_runs_on_the_controller_needs_no_epoch_that_can_be_read(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    durable_files.replace(controller.where.epoch, b"torn")

    assert environment(controller, monkeypatch) == []
