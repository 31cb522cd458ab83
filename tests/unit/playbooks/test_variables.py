"""Each playbook takes its variables from `vars` of an import_playbook, the inventory and the command line alike.

The playbooks run as they are, with actions that only write down what they are given.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
RECORDER = """
import json, os
from ansible.plugins.action import ActionBase
from ansible.utils.vars import combine_vars

class ActionModule(ActionBase):
    def run(self, tmp=None, task_vars=None):
        super().run(tmp, task_vars)
        name = self._task.action.rpartition(".")[2]
        call = {
            "action": name,
            "arguments": self._task.args,
            "host": task_vars["inventory_hostname"],
            "delegated": self._task.delegate_to,
            "seconds": self._task.timeout,
        }
        with open(os.environ["RECORDED"], "a") as stream:
            stream.write(json.dumps(call) + "\\n")
        answers = json.loads(os.environ["ANSWERS"])
        return {"changed": False, **answers.get(name, {})}
"""
ACTIONS = (
    *("evacuate_node", "instance_info", "power_hold", "power_command", "node_look", "repair_instance", "drbd_info"),
    *("diagnose", "epo", "epo_power", "epo_returned", "instances_state", "host_inventory_info", "hold", "record"),
)
LOOK = {"hypervisors": ["fake"], "expected": {}, "known": {}, "nodes": [], "off": [], "unasked": []}
STOPPING = {"here": ["localhost"], "preview": [], "batches": [], "stopping": ["one"], "instances": {"one": []}}
STOPPING |= {"timeouts": {"quick": {"one": 9}, "whole": {"one": 9}}, "last": ""}
RETURNING = {"here": ["localhost"], "preview": [], "batches": [], "nodes": []}
RETURNED = {"since": 0, "here": [], "waiting": [], "starts": {"one": []}, "stands": "", "missed": []}
RETURNED |= {"timeouts": {"starts": {"one": 7}, "replicas": {}}}


@dataclass(frozen=True)
class Case:
    """A playbook, what its variables are set to, the names of before, and what which action is given."""

    name: str
    given: dict[str, Any]
    expected: dict[str, dict[str, Any]]
    before: dict[str, str] = field(default_factory=dict)
    answers: dict[str, Any] = field(default_factory=dict)


EVACUATE = Case(
    "evacuate",
    {
        "evacuate_node": "one",
        "evacuate_failover": True,
        "evacuate_ignore_consistency": True,
        "evacuate_max_loss": 360,
        "evacuate_time_limit": 7,
    },
    {"evacuate_node": {"node": "one", "failover": True, "ignore_consistency": True, "max_loss": 360, "time_limit": 7}},
    before={
        "evacuate_node": "node",
        "evacuate_failover": "failover",
        "evacuate_ignore_consistency": "ignore_consistency",
    },
    answers={
        "evacuate_node": {"msg": [], "look": LOOK, "steps": [], "refusals": []},
        "instance_info": {"states": {}},
    },
)
CASES = (
    EVACUATE,
    Case(
        "power",
        {"power_command": "off", "power_nodes": ["one"], "power_force": True, "power_delay": 7},
        {"power_hold": {"command": "off", "names": ["one"], "force": True, "delay": 7}},
        before={
            "power_command": "power",
            "power_nodes": "nodes",
            "power_force": "force",
            "power_delay": "delay",
        },
        answers={"power_hold": {"failed": True}},
    ),
    Case(
        "repair",
        {"repair_instance": "web1", "repair_discard": "one"},
        {"repair_instance": {"name": "web1", "discard": "one"}},
        before={"repair_instance": "instance_name"},
        answers={"repair_instance": {"failed": True}},
    ),
    Case("diagnose", {"diagnose_command": "look"}, {"diagnose": {"command": "look"}}),
    Case(
        "adopt",
        {"adopt_hosts": "one", "adopt_folder": "/tmp/adopted", "adopt_file_dir": "/srv"},
        {"host_inventory_info": {"folder": "/tmp/adopted", "file_dir": "/srv"}},
    ),
    Case(
        "epo",
        {
            "epo_names": ["one"], "epo_groups": True, "epo_all": True, "epo_confirm": "C0DE", "epo_force": True,
            "epo_lock_timeout": 7, "epo_shutdown_timeout": 8, "epo_ignore_failures": True, "epo_deadline": 9,
            "epo_credentials_file": "/b.json",
        },
        {
            "epo": {
                "on": False, "names": ["one"], "groups": True, "all": True, "confirm": "C0DE", "force": True,
                "time_limit": 7, "shutdown_timeout": 8,
            },
            "instances_state": {"time_limit": 8},
            "epo_power": {"ignore_failures": True, "deadline": 9, "credentials_file": "/b.json"},
        },
        answers={"epo": STOPPING, "epo_power": {"kept": {}, "missed": []}},
    ),
    Case(
        "epo",
        {
            "epo_on": True, "epo_names": ["one"], "epo_groups": True, "epo_all": True, "epo_confirm": "C0DE",
            "epo_force": True, "epo_batch": 3, "epo_lock_timeout": 7, "epo_power_delay": 4, "epo_deadline": 9,
            "epo_credentials_file": "/b.json", "epo_ignore_failures": True, "epo_startup_timeout": 11,
        },
        {
            "epo": {
                "on": True, "names": ["one"], "groups": True, "all": True, "confirm": "C0DE", "force": True,
                "batch": 3, "time_limit": 7,
            },
            "epo_power": {"delay": 4, "deadline": 9, "credentials_file": "/b.json"},
            "instances_state": {"seconds": 11},
            "epo_returned": {"ignore_failures": True},
        },
        answers={"epo": RETURNING, "epo_power": {"missed": []}, "epo_returned": RETURNED},
    ),
)  # fmt: skip
NAMES = [case.name if "epo_on" not in case.given else "epo on" for case in CASES]
SOURCES = ("vars", "inventory", "command line")


@pytest.fixture(scope="module", name="collection")
def fixture_collection(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The playbooks and roles of the collection, with actions that only write down what they are given."""
    folder = tmp_path_factory.mktemp("collections") / "ansible_collections/roundsman/cluster"
    (folder / "plugins/action").mkdir(parents=True)
    for name in ("playbooks", "roles", "meta", "galaxy.yml"):
        (folder / name).symlink_to(ROOT / name)
    for name in ("modules", "lookup", "module_utils", "plugin_utils", "doc_fragments"):
        (folder / "plugins" / name).symlink_to(ROOT / "plugins" / name)
    (folder / "plugins/recorder.py").write_text(RECORDER)
    for name in ACTIONS:
        (folder / f"plugins/action/{name}.py").symlink_to(folder / "plugins/recorder.py")
    return folder.parents[2]


def run(
    collection: Path, folder: Path, case: Case, *, source: str, given: dict[str, Any]
) -> tuple[list[dict[str, Any]], str]:
    """The calls of actions with variables from this source, and what Ansible printed."""
    inventory = {"ansible_connection": "local", **(given if source == "inventory" else {})}
    (folder / "group_vars").mkdir()
    (folder / "group_vars/all.yml").write_text(json.dumps(inventory))
    (folder / "hosts").write_text("[roundsman_nodes]\none\ntwo\n[reachable]\none\n")
    imported = {"name": "Import it", "ansible.builtin.import_playbook": f"roundsman.cluster.{case.name}"}
    (folder / "main.yml").write_text(yaml.safe_dump([imported | ({"vars": given} if source == "vars" else {})]))
    recorded = folder / "recorded"
    recorded.touch()
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("ANSIBLE_", "ROUNDSMAN_"))}
    environment |= {"RECORDED": str(recorded), "ANSWERS": json.dumps(case.answers), "ANSIBLE_NOCOLOR": "1"}
    environment |= {"ANSIBLE_HOME": str(folder / "home"), "ANSIBLE_COLLECTIONS_PATH": str(collection)}
    command = [str(Path(sys.executable).with_name("ansible-playbook")), "-i", "hosts", "main.yml"]
    command += ["-e", json.dumps(given)] if source == "command line" else []
    ended = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
    return [json.loads(line) for line in recorded.read_text().splitlines()], ended.stdout + ended.stderr


def check(case: Case, calls: list[dict[str, Any]], printed: str) -> None:
    """Each expected argument is what some call of the action was given."""
    for action, expected in case.expected.items():
        found = [{**call["arguments"], "seconds": call["seconds"]} for call in calls if call["action"] == action]
        for name, value in expected.items():
            assert value in [arguments.get(name) for arguments in found], f"{action}, {name}: {found}\n{printed}"


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_each_variable_steers_wherever_it_is_set(collection: Path, tmp_path: Path, case: Case, source: str) -> None:
    calls, printed = run(collection, tmp_path, case, source=source, given=case.given)
    check(case, calls, printed)
    if case.name == "adopt":
        assert {call["host"] for call in calls} == {"one"}


@pytest.mark.parametrize("case", [case for case in CASES if case.before], ids=lambda case: case.name)
def test_the_names_of_before_still_work(collection: Path, tmp_path: Path, case: Case) -> None:
    given = {case.before.get(name, name): value for name, value in case.given.items()}
    calls, printed = run(collection, tmp_path, case, source="command line", given=given)
    check(case, calls, printed)


def test_what_a_node_returns_replaces_none_of_them(collection: Path, tmp_path: Path) -> None:
    facts = {"evacuate_node": "two", "evacuate_failover": False, "evacuate_given": {"node": "two"}, "node": "two"}
    facts |= {"evacuate_max_loss": 86400}
    answers = {name: {**answer, "ansible_facts": facts} for name, answer in EVACUATE.answers.items()}
    case = Case("evacuate", EVACUATE.given, EVACUATE.expected, answers=answers)
    calls, printed = run(collection, tmp_path, case, source="inventory", given=case.given)
    check(case, calls, printed)
    assert [call["delegated"] for call in calls if call["action"] == "instance_info"] == ["one"], printed


def test_every_variable_of_a_playbook_is_tried() -> None:
    """What a playbook or its role reads with its own prefix is in `CASES`, or is set by the playbook itself."""
    own = {"evacuate_given", "epo_off", "epo_on_power", "epo_left", "epo_wave", "epo_answer", "epo_step"}
    own |= {
        "epo_replicas",
        "epo_returned",
        "epo_power",
        "epo_shown",
        "epo_wait",
        "power_held",
        "power_hold",
        "power_look",
    }
    own |= {"adopt_autostart", "adopt_autostarting", "power_off", "repair_held", "repair_disks"}
    for name in {case.name for case in CASES} - {"diagnose"}:
        paths = [
            ROOT / f"playbooks/{name}.yml",
            *(sorted((ROOT / "playbooks/emergency").glob("*.yml")) if name == "epo" else []),
        ]
        tried = {variable for case in CASES if case.name == name for variable in case.given}
        read = {word for path in paths for word in _words(path.read_text()) if word.startswith(f"{name}_")}
        assert sorted(read - tried - own) == [], name
    options = yaml.safe_load((ROOT / "roles/evacuate/meta/argument_specs.yml").read_text())["argument_specs"]["main"]
    assert set(options["options"]) == set(EVACUATE.given)


def test_no_variable_of_a_role_that_a_playbook_applies_is_stronger_than_the_inventory() -> None:
    """`node_agent.yml` has no variables of its own: those of its role are documented, and `vars/main.yml` sets none."""
    role = ROOT / "roles/node_agent"
    options = yaml.safe_load((role / "meta/argument_specs.yml").read_text())["argument_specs"]["main"]["options"]
    assert not set(options) & set(yaml.safe_load((role / "vars/main.yml").read_text()))
    assert set(yaml.safe_load((role / "defaults/main.yml").read_text())) <= set(options)


def _words(text: str) -> set[str]:
    code = [line.partition(" #")[0] for line in text.splitlines() if not line.lstrip().startswith("#")]
    return {word for line in code for word in "".join(c if c.isalnum() or c == "_" else " " for c in line).split()}
