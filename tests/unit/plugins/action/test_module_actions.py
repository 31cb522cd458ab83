"""The actions that only hand on what their module answers."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.plugins.plugin_utils import module_answers

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
