"""The options, attributes and results in the documentation of a module, compared with what its action does."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.playbook.play_context import PlayContext
from ansible.playbook.task import Task
from ansible.plugins.action import ActionBase
from ansible.plugins.connection.local import Connection
from ansible.template import Templar
from ansible_collections.roundsman.cluster.plugins.doc_fragments import attributes
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import tree
from ansible_collections.roundsman.cluster.plugins.plugin_utils import module_answers, run_group
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import recording
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import store

from tests.unit import small_cluster

if TYPE_CHECKING:
    from collections.abc import Mapping

PLUGINS = Path(__file__).resolve().parents[4] / "plugins"
PLUGINS_PACKAGE = "ansible_collections.roundsman.cluster.plugins"
PACKAGE = f"{PLUGINS_PACKAGE}.action"
NAMES = sorted(path.stem for path in (PLUGINS / "action").glob("*.py"))
HANDED_ON = {"instance_disks", "instances_state", "leader"}
"""Their actions add something and hand the rest to their modules, which check it."""
OPTION = {"type": "str", "required": False, "default": None, "choices": None, "elements": None}
ALWAYS = {"changed", "failed", "msg"}
INSTANCE = {"name": "inst1", "uuid": "i1", "disk_template": "drbd", "disks": [{"name": "r0"}]}
SIDE: dict[str, Any] = {"version": 9, "sides": []}
RUNS: Mapping[str, Mapping[str, Any]] = {
    "cluster_verify": {"targets": [], "paths": [], "looks": {}, "credentials_file": "/none"},
    "drbd_verdicts": {
        "instance": INSTANCE,
        "primary": SIDE,
        "secondary": SIDE,
        "nodes": {"primary": "node2", "secondary": "node3"},
    },
    "epo": {"all": True},
    "epo_power": {"command": "on", "batches": [], "credentials_file": "/none"},
    "epo_returned": {"nodes": {}},
    "evacuate_node": {"node": "node10"},
    "failover_check": {
        "instance": {**INSTANCE, "hypervisor": "kvm"},
        "source": {"name": "node2"},
        "target": {"name": "node3", "disks": {}, "guests": {}},
        "replicated": False,
    },
    "hold": {"nodes": {"n1": "shared"}},
    "power_command": {"command": "status", "targets": [], "credentials_file": "/none"},
    "power_hold": {"command": "status", "names": ["node3"]},
    "record": {"change": "node_powered", "node": "n3", "powered": False},
    "repair_instance": {"name": "inst1"},
    "replica_check": {"instance": INSTANCE, "primary": {"name": "node2"}, "old": {"name": "node3"}},
    "second_copies": {"looks": {}, "records": {}},
    "unfinished_check": {
        "instance": "inst1",
        "hypervisor": "kvm",
        "primary": {"name": "node2"},
        "other": {"name": "node3"},
    },
}
"""What actions that run on the controller alone are given, so that they have something to return."""


def documentation(name: str, part: str = "DOCUMENTATION") -> dict[str, Any]:
    text = (PLUGINS / f"modules/{name}.py").read_text()
    [found] = re.findall(rf'^{part} = r"""\n(.*?)"""', text, flags=re.DOTALL | re.MULTILINE)
    read: dict[str, Any] = yaml.safe_load(found) or {}
    return read


def options(entry: Mapping[str, Any]) -> dict[str, Any]:
    """What an argument spec and a documentation both say of an option."""
    return {key: value for key, value in entry.items() if key in OPTION}


def documented(name: str) -> dict[str, dict[str, Any]]:
    """The options in the documentation of a module, and in the fragments that it names."""
    told = documentation(name)
    found = dict(told.get("options", {}))
    for fragment in told["extends_documentation_fragment"]:
        _, _, where, *parts = fragment.split(".")
        module = importlib.import_module(f"{PLUGINS_PACKAGE}.doc_fragments.{where}")
        text = getattr(module.ModuleDocFragment, parts[0].upper() if parts else "DOCUMENTATION")
        found |= yaml.safe_load(text).get("options", {})
    return {option: {**OPTION, **options(entry)} for option, entry in found.items()}


def action(name: str, options: Mapping[str, Any]) -> Any:
    task = Task()
    task.action, task.args, task.check_mode = f"roundsman.cluster.{name}", dict(options), True
    loader, context = DataLoader(), PlayContext()
    plugin = importlib.import_module(f"{PACKAGE}.{name}").ActionModule
    return plugin(task, Connection(context), context, loader, Templar(loader), None)


class Accepted(Exception):
    """Ends the run of an action where its options are known."""


def accepted(name: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[str, Any]]:
    """The options that an action checks its arguments with."""

    def told(_action: object, argument_spec: dict[str, dict[str, Any]]) -> None:
        raise Accepted(argument_spec)

    monkeypatch.setattr(ActionBase, "validate_argument_spec", told)
    with pytest.raises(Accepted) as found:
        action(name, {}).run(task_vars={"inventory_hostname": "node1", "ansible_play_hosts_all": ["node1"]})
    spec: dict[str, dict[str, Any]] = found.value.args[0]
    return spec


def with_actions_of_their_own() -> list[str]:
    """The names of the actions that check options, and not their module alone."""
    plugins = {name: importlib.import_module(f"{PACKAGE}.{name}").ActionModule for name in NAMES}
    return [
        name
        for name, plugin in plugins.items()
        if plugin is not module_answers.ModuleAction and name not in {"record", *HANDED_ON}
    ]


def on_nodes() -> list[str]:
    """The names of the modules that run on nodes and check their options there."""
    paths = sorted((PLUGINS / "modules").glob("*.py"))
    return [
        path.stem for path in paths if "def main()" in path.read_text() and path.stem not in with_actions_of_their_own()
    ]


@pytest.mark.parametrize("name", with_actions_of_their_own())
def test_a_module_documents_the_options_that_its_action_accepts(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = accepted(name, monkeypatch)

    assert documented(name) == {option: {**OPTION, **entry} for option, entry in spec.items()}
    assert set(spec) == action(name, {})._VALID_ARGS


@pytest.mark.parametrize("name", on_nodes())
def test_a_module_documents_the_options_that_it_accepts_on_a_node(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def told(*, argument_spec: dict[str, dict[str, Any]], **_: object) -> None:
        raise Accepted(argument_spec)

    module = importlib.import_module(f"{PLUGINS_PACKAGE}.modules.{name}")
    monkeypatch.setattr(module, "AnsibleModule", told)
    with pytest.raises(Accepted) as found:
        module.main()

    assert documented(name) == {option: {**OPTION, **options(entry)} for option, entry in found.value.args[0].items()}


def test_record_documents_every_change_and_all_their_fields() -> None:
    options = documentation("record")["options"]
    fields = {field.name for kind in recording.RECORDABLE.values() for field in dataclasses.fields(kind)}

    assert set(options) == {"change", "changes", *fields}
    assert options["change"]["choices"] == sorted(recording.RECORDABLE)


@pytest.mark.parametrize("name", NAMES)
def test_no_key_of_a_documentation_is_read_as_a_truth_value(name: str) -> None:
    def keys(value: Any) -> list[Any]:
        return [key for pair in value.items() for key in (pair[0], *keys(pair[1]))] if isinstance(value, dict) else []

    every = [*keys(documentation(name)), *keys(documentation(name, "RETURN"))]
    assert [key for key in every if not isinstance(key, str)] == []


@pytest.mark.parametrize("name", NAMES)
def test_a_module_says_what_it_supports(name: str) -> None:
    module = (PLUGINS / f"modules/{name}.py").read_text()
    told = documentation(name)
    does_it = "NODE" if "def main()" in module else "CONTROLLER"
    known: dict[str, dict[str, Any]] = {}
    for part in ("DOCUMENTATION", does_it):
        known |= yaml.safe_load(getattr(attributes.ModuleDocFragment, part))["attributes"]
    known |= {attribute: {**known[attribute], **entry} for attribute, entry in told["attributes"].items()}

    fragments = {part for part in told["extends_documentation_fragment"] if "attributes" in part}
    assert fragments == {"roundsman.cluster.attributes", f"roundsman.cluster.attributes.{does_it.lower()}"}
    assert set(known) == {"action", "check_mode", "diff_mode", "platform"}
    assert {attribute for attribute, entry in known.items() if "support" not in entry} == set()
    if does_it == "NODE":
        shows = "diff=" in module or '"diff":' in module
        assert known["diff_mode"]["support"] == ("full" if shows else "none")
        assert ("supports_check_mode=True" in module) is (known["check_mode"]["support"] == "full")


def test_every_action_that_runs_on_the_controller_alone_is_run_here() -> None:
    alone = {
        name
        for name in NAMES
        if not inspect.getattr_static(importlib.import_module(f"{PACKAGE}.{name}").ActionModule, "_requires_connection")
    }
    assert alone - {"node_answers"} == set(RUNS)


@pytest.mark.parametrize("name", sorted(RUNS))
def test_an_action_returns_what_its_module_documents(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(run_group.RUN_VARIABLE, raising=False)
    where = tree.Tree(tmp_path)
    where.lib.mkdir(parents=True)
    where.run.mkdir(parents=True)
    cluster = small_cluster.make()
    store.write(where.config, cluster)
    returned = documentation(name, "RETURN")

    variables = {"roundsman_root": str(tmp_path), "hostvars": {node.name: {} for node in cluster.nodes.values()}}
    result = action(name, RUNS[name]).run(task_vars=variables)

    assert not result.get("failed"), result
    assert {key: type(value).__name__ for key, value in result.items() if key not in ALWAYS} == {
        key: entry["type"] for key, entry in returned.items() if key not in ALWAYS
    }
