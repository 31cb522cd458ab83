"""Each opcode gives its role what the role's argument specs ask for, and nothing else."""

from __future__ import annotations

import functools
import json
import re
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import document
from ansible_collections.roundsman.cluster.plugins.plugin_utils.opcodes import contract, registry

from tests.golden import opcodes

from . import role_tasks

if TYPE_CHECKING:
    from collections.abc import Iterator

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
WORD = r'"\w+"'


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


def test_a_step_that_a_role_writes_down_itself_has_all_that_its_spec_asks_for() -> None:
    included = [task for path in role_tasks.ROLES.glob("*/tasks/*.yml") for task in yaml.safe_load(path.read_text())]
    written = [task for task in included if isinstance(task.get("vars", {}).get("step"), dict)]
    assert written
    for task in written:
        include = task["ansible.builtin.include_role"]
        options = _specs(include["name"].rpartition(".")[2])[include["tasks_from"]]["options"]["step"]["options"]
        required = {name for name, option in options.items() if option.get("required")}
        assert required <= task["vars"]["step"].keys(), include["tasks_from"]


@pytest.mark.parametrize("role", ["instance", "node", "repair"])
def test_each_step_of_an_opcode_has_its_tasks(role: str) -> None:
    for name in _specs(role):
        assert (role_tasks.ROLES / role / "tasks" / f"{name}.yml").exists()


@pytest.mark.parametrize("role", ["cluster", "instance", "node", "repair"])
def test_all_that_the_tasks_of_a_step_read_of_it_is_in_its_spec(role: str) -> None:
    """What a task file reads that several steps include is asked of each of them, or set where it is included."""
    specs = {name: spec["options"]["step"]["options"] for name, spec in _specs(role).items() if "options" in spec}
    missing = {name: found for name, known in specs.items() if (found := _read(role, name) - known.keys())}
    assert specs
    assert missing == {}


@functools.cache
def _variables(role: str) -> dict[str, str]:
    path = role_tasks.ROLES / role / "vars/main.yml"
    return {name: str(value) for name, value in yaml.safe_load(path.read_text()).items()} if path.exists() else {}


def _read(role: str, step: str) -> set[str]:
    """The keys of `step` that the tasks of a step read, by themselves and in what they include."""
    found, todo, done = set[str](), [(step, frozenset[str]())], set[tuple[str, frozenset[str]]]()
    while todo:
        name, given = todo.pop()
        if (name, given) in done:
            continue
        done.add((name, given))
        for task in _tasks(yaml.safe_load((role_tasks.ROLES / role / "tasks" / f"{name}.yml").read_text())):
            own = given | frozenset(task["vars"]) | {task.get("loop_control", {}).get("loop_var", "item")}
            found |= _keys(role, _expressions(task), own)
            included = task.get("ansible.builtin.include_tasks")
            file = included["file"] if isinstance(included, dict) else included
            if file:
                todo.append((file.removesuffix(".yml"), own))
    return found


def _tasks(tasks: list[dict[str, Any]], above: frozenset[str] = frozenset()) -> Iterator[dict[str, Any]]:
    for task in tasks:
        blocks = [task[part] for part in ("block", "rescue", "always") if part in task]
        for block in blocks:
            yield from _tasks(block, above | frozenset(task.get("vars", {})))
        if not blocks:
            yield {**task, "vars": {**dict.fromkeys(above), **task.get("vars", {})}}


def _expressions(task: dict[str, Any]) -> str:
    """A task without its name, its keys and the words that are no expressions, as the names of changes are."""
    task = {name: value for name, value in task.items() if name != "name"}
    conditions = [task.get(name) for name in ("when", "until", "failed_when", "changed_when")]
    return f"{re.sub(WORD, '', json.dumps(task))} {json.dumps(conditions).replace(chr(34), ' ')}"


def _keys(role: str, text: str, given: frozenset[str]) -> set[str]:
    """The keys of `step` in a text and in the variables of the role that it names, but for those that are given."""
    variables, found, todo, done = _variables(role), set[str](), [text], set(given)
    while todo:
        one = todo.pop()
        found |= set(re.findall(r"\bstep\.(\w+)", one))
        names = set(re.findall(r"\w+", one)) & variables.keys() - done
        done |= names
        todo += [variables[name] for name in names]
    return found


OTHER_ELSEWHERE = {"instance", "instance_left_at", "instance_members", "node"}
"""What is another one in some tasks than the step is given, or what the role is about."""


@pytest.mark.parametrize("role", ["cluster", "instance", "node", "repair"])
def test_nothing_that_a_step_is_given_has_a_second_name(role: str) -> None:
    aliases = {name for name, text in _variables(role).items() if re.fullmatch(r"\{\{ step\.\w+ \}\}", text)}
    assert aliases - OTHER_ELSEWHERE == set()
