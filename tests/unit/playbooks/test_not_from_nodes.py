"""What a node returns replaces no variable that the plays of this collection read."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible import constants
from ansible.plugins import loader
from ansible.vars import clean

ROOT = Path(__file__).resolve().parents[3]
PLAYBOOKS = [path for path in sorted((ROOT / "playbooks").rglob("*.yml")) if "collections" not in path.parts]
SETTLED = ROOT / "playbooks/vars/not_from_nodes.yml"
PLAYS = [path for path in PLAYBOOKS if path != SETTLED]
ROLES = sorted((ROOT / "roles").glob("*"))
ON_THE_NODE = {
    # options that a shell, sudo or su of the node reads: whoever returns such a fact only changes what happens there
    *("ansible_admin_users", "ansible_async_dir", "ansible_common_remote_group", "ansible_system_tmpdirs"),
    *("ansible_shell_allow_world_readable_temp", "ansible_sudo_chdir"),
    *(f"ansible_{name}_{option}" for name in ("su", "sudo", "runas") for option in ("exe", "flags", "pass", "user")),
    *("ansible_su_prompt_l10n", "ansible_interpreter_python_fallback", "ansible_python_module_rlimit_nofile"),
    *("ansible_no_target_syslog", "ansible_target_log_info", "ansible_win_async_startup_timeout"),
    # how strictly, and with which key of its own, the controller speaks with this very node
    *(
        "ansible_host_key_checking",
        "ansible_ssh_host_key_checking",
        "ansible_sftp_batch_mode",
        "ansible_sshpass_prompt",
    ),
    *("ansible_private_key", "ansible_private_key_passphrase"),
    # no play of ours gathers facts
    "ansible_facts_modules",
    # of the program that prints
    "ansible_deprecation_warnings",
}
UNCONCERNED = {
    # set as play variables, or read before any module of a node has answered
    *("roundsman_root", "roundsman_opcode", "ansible_python_interpreter"),
    # of the node itself: what a node says of its own hypervisor and its own report it could say as well by lying
    *("roundsman_hypervisor", "diagnose_command"),
}


def plays(path: Path) -> list[dict[str, Any]]:
    return [one for one in yaml.safe_load(path.read_text()) if "hosts" in one]


@pytest.mark.parametrize("path", PLAYS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_play_reads_the_variables_that_are_stronger_than_facts(path: Path) -> None:
    for one in plays(path):
        files = [(path.parent / file).resolve() for file in one.get("vars_files", [])]
        assert SETTLED in files, one["name"]
        assert one["gather_facts"] is False, one["name"]


def test_the_root_and_the_temporary_folder_are_among_them() -> None:
    assert {"roundsman_root", "ansible_remote_tmp"} <= set(yaml.safe_load(SETTLED.read_text()))


def test_every_option_of_ansible_that_a_fact_can_set_is_settled_or_concerns_the_node_alone() -> None:
    options: set[str] = set()
    for kind in ("shell", "connection", "become"):
        for plugin in getattr(loader, f"{kind}_loader").all(class_only=True):
            for option in constants.config.get_configuration_definitions(kind, plugin._load_name).values():
                options |= {entry["name"] for entry in option.get("vars") or []}
    for option in constants.config.get_configuration_definitions().values():
        options |= {entry["name"] for entry in option.get("vars") or []}
    reachable = {name for name in clean.clean_facts(dict.fromkeys(options, "x")) if name.startswith("ansible_")}
    # Paramiko's own options are removed by a name that its file has not got in every release.
    reachable = {name for name in reachable if not name.startswith("ansible_paramiko_")} | {
        "ansible_paramiko_proxy_command"
    }
    assert "ansible_remote_tmp" in reachable
    assert sorted(reachable - ON_THE_NODE - set(yaml.safe_load(SETTLED.read_text()))) == []


def tasks(content: Any) -> list[dict[str, Any]]:
    if isinstance(content, list):
        return [task for one in content for task in tasks(one)]
    if not isinstance(content, dict):
        return []
    inner = [task for key in ("block", "rescue", "always") for task in tasks(content.get(key))]
    return [content, *inner]


def of_role(role: Path) -> list[dict[str, Any]]:
    return [task for path in sorted(role.glob("tasks/*.yml")) for task in tasks(yaml.safe_load(path.read_text()))]


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_no_step_reads_a_variable_with_a_default_that_a_fact_could_set(role: Path) -> None:
    steps = of_role(role)
    known = {task["register"] for task in steps if "register" in task}
    known |= {task["loop_control"]["loop_var"] for task in steps if "loop_var" in task.get("loop_control", {})}
    # What a step always sets is stronger than what a node returns.
    known |= {name for task in steps if "when" not in task for name in task.get("ansible.builtin.set_fact", {})}
    known |= {"item", "one", "first", "ansible_failed_result"}
    text = "".join(path.read_text() for path in [*role.glob("tasks/*.yml"), *role.glob("vars/*.yml")])
    read = {found.partition(".")[0] for found in re.findall(r"([A-Za-z_][\w.]*) *\| *default\(", text)}
    assert sorted(read - known - UNCONCERNED) == []


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_every_include_of_a_members_disks_sets_all_that_is_read_there(role: Path) -> None:
    for task in of_role(role):
        included = task.get("ansible.builtin.include_tasks", {})
        name = included.get("file") if isinstance(included, dict) else included
        if name == "disks_of_member.yml":
            given = {*task["vars"], task.get("loop_control", {}).get("loop_var")}
            # start.yml is included with its member.
            given |= {"instance_member"} if task["name"] == "Promote the disks on the node" else set()
            expected = {"instance_member", "instance_disks_state", "instance_disks_may_fail", "instance_peer_number"}
            assert expected <= given, task["name"]
