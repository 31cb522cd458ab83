"""Each opcode gives its role what the role's argument specs ask for, and nothing else."""

from __future__ import annotations

import functools
import json
from typing import Any

import pytest
import yaml
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.roundsman.cluster.plugins.module_utils.domain import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import document
from ansible_collections.roundsman.cluster.plugins.plugin_utils.opcodes import contract, registry

from tests.golden import opcodes

from . import role_tasks

OWN = {
    "power": [("node", "power_hold"), ("node", "power_ask"), ("node", "power_look"), ("node", "power")],
    "diagnose": [("node", "diagnose")],
    "instance_create": [("instance", "create"), ("instance", "created")],
    "reinstall": [("instance", "reinstall"), ("instance", "reinstalled")],
    "replace_disks": [("instance", "replace_disks"), ("instance", "replaced")],
    "cluster_verify": [
        ("cluster", name) for name in ("verify", "verify_differences", "verify_hold", "verify_look", "verify_running")
    ],
}
"""The steps of the opcodes that have a playbook of their own."""


@functools.cache
def _specs(role: str) -> dict[str, Any]:
    text = (role_tasks.ROLES / role / "meta" / "argument_specs.yml").read_text()
    found: dict[str, Any] = yaml.safe_load(text)["argument_specs"]
    return found


def _plays() -> list[tuple[str, dict[str, Any]]]:
    every = [*opcodes.instance_opcodes(), *opcodes.node_opcodes()]
    return [(kind, params) for kind, params in every if _is_play(kind, params)]


def _is_play(kind: str, params: dict[str, Any]) -> bool:
    try:
        return registry.make(kind, params).execution is contract.Execution.PLAY
    except errors.RoundsmanError:
        return False


def test_what_an_opcode_gives_its_steps_is_what_their_specs_ask_for() -> None:
    cluster, seen = document.load(json.dumps(opcodes.document()).encode()), set()
    for kind, params in _plays():
        made: Any = registry.make(kind, params)
        try:
            step = made.variables(cluster)
        except errors.Refused:
            continue
        for role, tasks in [(made.role, kind)] if made.role else OWN[kind]:
            spec = _specs(role)[tasks].get("options", {})
            if spec:
                assert ArgumentSpecValidator(spec).validate({"step": step}).error_messages == [], (role, tasks)
            seen.add(kind)
    assert {"migrate", "failover", "replace_disks", "instance_create", "power", "cluster_verify"} <= seen


@pytest.mark.parametrize("role", ["cluster", "instance", "node", "repair"])
def test_a_step_without_what_it_is_about_is_refused(role: str) -> None:
    asked = {name: spec["options"] for name, spec in _specs(role).items() if "options" in spec}
    assert asked
    for spec in asked.values():
        assert ArgumentSpecValidator(spec).validate({"step": {}}).error_messages
        assert ArgumentSpecValidator(spec).validate({}).error_messages


@pytest.mark.parametrize("role", ["instance", "node", "repair"])
def test_each_step_of_an_opcode_has_its_tasks(role: str) -> None:
    for name in _specs(role):
        assert (role_tasks.ROLES / role / "tasks" / f"{name}.yml").exists()
