"""A node whose Python answers what it likes: nothing of it is executed, read from another place, or kept in memory."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.daemon.lab import processes
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent import signing
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import tree
from ansible_collections.roundsman.cluster.plugins.plugin_utils import ansible_runs

from . import states

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from . import labs

PAIRS = (("node2", "node3"), ("node1", "node2"))
MIB = 1024 * 1024
ANSWERS = """#!{python} -I
import pathlib, sys
said = sys.stdin.buffer.read() + b"".join(pathlib.Path(one).read_bytes() for one in sys.argv[1:2])
with open({heard!r}, "ab") as heard:
    heard.write(said)
sys.stdout.write(pathlib.Path({answer!r}).read_text())
"""
FLOODS = """#!{python} -I
import sys
sys.stdin.isatty() or sys.stdin.buffer.read()
sys.stdout.write('{{"running": true, "state": "')
for _ in range(300):
    sys.stdout.write("A" * 1000000)
sys.stdout.write('"}}')
"""
MEASURED = """
import resource, subprocess, sys
status = subprocess.run(sys.argv[1:]).returncode
print("largest process:", resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)
sys.exit(status)
"""
INSTANCE: dict[str, Any] = {
    "instance": "i1",
    "uuid": "11111111-1111-1111-1111-111111111111",
    "hypervisor": "kvm",
    "disk_template": "drbd",
    "disks": [{"size": 100, "minor": 0}],
    "state": "info",
}


@dataclasses.dataclass(frozen=True)
class Node:
    """What stands for the Python of a hostile node; `heard` is all that was sent there."""

    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / "python"

    @property
    def heard(self) -> bytes:
        path = self.folder / "heard"
        return path.read_bytes() if path.exists() else b""

    @property
    def marks(self) -> list[str]:
        """Files that only a command of the node's answer makes."""
        return sorted(path.name for path in self.folder.glob("executed*"))

    def write(self, script: str, **values: str) -> None:
        self.folder.mkdir(exist_ok=True)
        self.python.write_text(script.format(python=sys.executable, **values))
        self.python.chmod(0o755)

    def answer(self, **content: Any) -> None:
        """Answer every module with this content, and facts that have the controller run or read something."""
        command = f"$(touch {self.folder}/executed-by-a-shell)"
        facts = {
            "roundsman_root": str(self.folder / "root"),
            "ansible_remote_tmp": f"{self.folder}/tmp{command}",
            "ansible_system_tmpdirs": [f"{self.folder}/tmp{command}"],
            "ansible_sftp_executable": str(self.python),
            "instance_disks_may_fail": True,
            "instance_peer_number": 7,
            "step": {"source_stated_off": True},
            "template": f"{{{{ lookup('pipe', 'touch {self.folder}/executed-by-a-template') }}}}",
        }
        stats = {"data": {"roundsman_text": "of the node", "roundsman_value": "of the node"}, "per_host": False}
        whole = {"changed": False, **content, "ansible_facts": facts, "ansible_stats": stats}
        (self.folder / "answer.json").write_text(json.dumps(whole))


def hostile(folder: Path, **content: Any) -> Node:
    """A node's Python that answers this content."""
    node = Node(folder)
    node.write(ANSWERS, heard=str(folder / "heard"), answer=str(folder / "answer.json"))
    node.answer(**content)
    (folder / "root/etc/roundsman").mkdir(parents=True)
    (folder / "root/etc/roundsman/bmc.json").write_text("{}")
    return node


def play(
    folder: Path,
    tasks: list[dict[str, Any]],
    hosts: Mapping[str, Any],
    *,
    hosts_pattern: str = "localhost",
    environment: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """A play as those of the collection are, on localhost, with no configuration file."""
    whole = [
        {
            "name": "A play",
            "hosts": hosts_pattern,
            "gather_facts": False,
            "vars_files": [str(ansible_runs.PLAYBOOKS / "vars/not_from_nodes.yml")],
            "tasks": tasks,
        }
    ]
    (folder / "play.yml").write_text(json.dumps(whole))
    here = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    inventory = {"all": {"hosts": {"localhost": here, **hosts}, "vars": {"roundsman_root": str(folder / "controller")}}}
    (folder / "hosts.json").write_text(json.dumps(inventory))
    program = str(Path(sys.executable).with_name("ansible-playbook"))
    clean = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
    return subprocess.run(
        [sys.executable, "-c", MEASURED, program, "-i", "hosts.json", "play.yml"],
        cwd=folder,
        env={
            **clean,
            "ANSIBLE_COLLECTIONS_PATH": str(ansible_runs.COLLECTIONS),
            "ANSIBLE_HOME": str(folder / "home"),
            **(environment or {}),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )


def local(python: Path) -> dict[str, Any]:
    return {"ansible_connection": "local", "ansible_python_interpreter": str(python)}


def test_facts_of_a_hostile_node_reach_no_shell_and_no_other_root_in_a_play_by_hand(
    lab: Callable[..., labs.Running], tmp_path: Path
) -> None:
    evil = hostile(tmp_path / "evil", running=True, states={}, failed=False)
    one = lab(nodes=3, pairs=PAIRS)
    one.run_modules_with(evil.python, node="node2")
    processes.stop(one.lab, "daemon")

    done = one.play("evacuate.yml", "-e", "node=node2", "-e", "failover=true", "-e", "ignore_consistency=true")

    assert evil.heard
    assert evil.marks == []
    # It did not stop its instance, and it answers: it keeps its power, and nothing starts elsewhere.
    assert done.returncode != 0
    assert "it is alive: it runs programs" in done.stdout, done.stdout
    assert one.cluster().instance("instance1").primary_node == one.cluster().node("node2").uuid


def test_facts_of_a_hostile_node_reach_no_other_root_under_the_daemon(
    lab: Callable[..., labs.Running], tmp_path: Path
) -> None:
    evil = hostile(tmp_path / "evil", running=True, state="running", failed=False)
    one = lab(nodes=3, pairs=PAIRS)
    one.run_modules_with(evil.python, node="node2")

    done = states.command(one, "instance", "failover", "instance1", "--ignore-consistency", "--yes")

    assert evil.heard
    assert evil.marks == []
    assert done.returncode != 0
    assert "it is alive: it runs programs" in done.stdout + done.stderr, done.stdout + done.stderr
    assert "of the node" not in json.dumps(one.get("/1/jobs"))


@pytest.mark.parametrize("is_daemon", [False, True], ids=["by hand", "by the daemon"])
def test_after_a_hostile_built_in_module_the_good_node_gets_the_right_secret_and_no_shell_runs_it(
    tmp_path: Path, *, is_daemon: bool
) -> None:
    evil, good = hostile(tmp_path / "evil"), hostile(tmp_path / "good")
    (good.folder / "answer.json").write_text('{"changed": false, "devices": []}')
    where = tree.Tree(tmp_path / "controller")
    where.hmac_key.parent.mkdir(parents=True)
    where.hmac_key.write_bytes(b"0123456789abcdef0123456789abcdef01234567\n")
    ends = {"here": {"name": "node1", "address": "192.0.2.1"}, "peer": {"name": "node2", "address": "192.0.2.2"}}
    disks = {"roundsman.cluster.instance_disks": {**INSTANCE, **ends}}
    tasks: list[dict[str, Any]] = [
        {**disks, "name": "Ours on the bad node", "delegate_to": "evil"},
        {
            "name": "A built-in one on the bad node",
            "ansible.builtin.command": {"argv": ["true"]},
            "delegate_to": "evil",
        },
        {
            "name": "Another",
            "ansible.builtin.stat": {"path": "/"},
            "delegate_to": "evil",
            "failed_when": False,
        },
        {**disks, "name": "Ours on the good node", "delegate_to": "good"},
        {
            "name": "A file of the controller",
            "ansible.builtin.copy": {"content": "x", "dest": str(tmp_path / "copied")},
        },
        {
            "name": "What the controller knows",
            "ansible.builtin.debug": {"msg": "root {{ roundsman_root }}"},
        },
    ]

    given = ansible_runs.environment(where) if is_daemon else {}
    done = play(tmp_path, tasks, {"evil": local(evil.python), "good": local(good.python)}, environment=given)

    assert done.returncode == 0, done.stdout + done.stderr
    assert evil.heard
    assert (evil.marks, good.marks) == ([], [])
    assert f"root {where.root}" in done.stdout
    assert (tmp_path / "copied").read_text() == "x"
    secret = signing.pair_secret(where.hmac_key.read_bytes(), INSTANCE["uuid"], ("node2", "node1"))
    assert secret.encode() in good.heard
    assert b"instance_peer_number" not in good.heard


def test_a_hostile_node_gets_no_file_of_the_controller_and_no_key_of_another_node(tmp_path: Path) -> None:
    evil = hostile(tmp_path / "evil", stat={"exists": False}, rc=0, path="/x", dest="/x")
    secret = tmp_path / "only-of-the-controller"
    secret.write_text("only the controller may read this\n")
    facts = json.loads((evil.folder / "answer.json").read_text())
    other = "99999999-9999-9999-9999-999999999999"
    mine = "22222222-2222-2222-2222-222222222222"
    facts["ansible_facts"] |= {
        "node_agent_repair_commands": [str(secret)],
        "node_agent_diagnose_commands": [str(secret)],
        "node_agent_uuid": other,
    }
    (evil.folder / "answer.json").write_text(json.dumps(facts))
    key = tmp_path / "hmac.key"
    key.write_bytes(b"0123456789abcdef0123456789abcdef01234567\n")
    remote = tmp_path / "remote"
    host = {
        **local(evil.python),
        "roundsman_node_uuid": mine,
        "node_agent_cluster_key": str(key),
        "node_agent_bind": ["127.0.0.1"],
        "node_agent_packages": [],
    }
    role = {"name": "Install the agent", "ansible.builtin.include_role": {"name": "roundsman.cluster.node_agent"}}

    # What is sent to the node stays in its temporary folder.
    environment = {"ANSIBLE_REMOTE_TMP": str(remote), "ANSIBLE_KEEP_REMOTE_FILES": "1"}
    done = play(tmp_path, [role], {"evil": host}, hosts_pattern="evil", environment=environment)

    sent = b"".join(path.read_bytes() for path in remote.rglob("*") if path.is_file())
    assert signing.node_key(key.read_bytes(), mine) in sent, done.stdout + done.stderr
    assert signing.node_key(key.read_bytes(), other) not in sent
    assert secret.read_bytes() not in sent
    assert key.read_bytes().strip() not in sent
    assert evil.marks == []


def test_a_play_goes_on_after_whatever_a_node_answers(tmp_path: Path) -> None:
    evil = Node(tmp_path / "evil")
    nested = "[" * 100_000 + "]" * 100_000
    tagged = {"__ansible_type": "TrustedAsTemplate"}
    command = f"touch {evil.folder}/executed"
    template = f"{{{{ lookup('pipe', '{command}') }}}}"
    whole: list[Any] = [
        {"states": {"x": {"__ansible_type": "_AnsibleTaggedStr", "value": template, "tags": [tagged]}}},
        {"states": {"x": template}, "msg": template, "diff": {"prepared": template}},
        {"states": {"x": f"#jinja2:variable_start_string:'<<'\n<< lookup('pipe', '{command}') >>"}},
        {"ansible_facts": {"evil": template, "ansible_connection": "ssh", "inventory_hostname": "x"}},
        {"ansible_facts": 5, "stdout": 5, "stderr": [], "warnings": 5, "deprecations": {"x": 1}, "exception": {}},
        {"add_host": {"host_name": "more", "groups": ["all"], "host_vars": {"x": template}}, "changed": True},
        {"add_group": "more", "parent_groups": ["all"], "_ansible_notify": ["x"], "_ansible_item_label": template},
        {"results": 5, "running": [], "failed": "no", "unreachable": True, "skipped": template},
        {"include": "/etc/passwd", "include_args": {}, "ansible_job_id": "../../x", "finished": 0, "started": 1},
        {"states": {"x": {"__ansible_vault": "$ANSIBLE_VAULT;1.1;AES256\n00"}}, "running": ["\ud800"]},
        {"running": "x", "states": [], "rc": 10**400, "progress": float("nan")},
    ]
    answers = [*map(json.dumps, whole), "", "null", "[]", "{", "{}{}", f'{{"states": {nested}}}', "\x00" * 1000]
    evil.folder.mkdir()
    for number, answer in enumerate(answers):
        (evil.folder / f"{number}.json").write_text(answer)
    evil.write(
        "#!{python} -I\n"
        "import pathlib, sys\n"
        "sys.stdin.buffer.read()\n"
        "folder = pathlib.Path({folder!r})\n"
        "left = sorted(folder.glob('*.json'))\n"
        "sys.stdout.write(left[0].read_text())\n"
        "left[0].unlink()\n",
        folder=str(evil.folder),
    )
    look = {
        "name": "Look at the bad node",
        "roundsman.cluster.instance_info": {"hypervisor": "kvm"},
        "delegate_to": "evil",
        "loop": [*range(len(answers))],
        "register": "looks",
        "failed_when": False,
    }
    known = "{{ looks }} {{ evil | default('none') }} {{ groups.all | length }} {{ inventory_hostname }}"
    shown = {"name": "Show what is known", "ansible.builtin.debug": {"msg": known}}
    said = {"name": "Say it as a result", "ansible.builtin.set_stats": {"data": {"text": "{{ looks }}"}}}

    host = {**local(evil.python), "ansible_pipelining": True}
    done = play(tmp_path, [look, shown, said], {"evil": host}, environment={"ANSIBLE_SHOW_CUSTOM_STATS": "1"})

    assert done.returncode == 0, done.stdout + done.stderr
    assert list(evil.folder.glob("*.json")) == []
    assert evil.marks == []
    assert " none 2 localhost" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.parametrize("connection", ["lab_node", "ssh"])
def test_three_hundred_megabytes_from_a_node_fail_its_step_and_not_the_controller(
    tmp_path: Path, connection: str
) -> None:
    evil = Node(tmp_path / "evil")
    evil.write(FLOODS)
    (tmp_path / "node/wire").mkdir(parents=True)
    host = {**local(evil.python), "ansible_pipelining": True}
    if connection == "ssh":
        # What ssh would be: whatever it is asked for, it writes what the node writes.
        host |= {"ansible_connection": "ssh", "ansible_ssh_executable": str(evil.python)}
    else:
        host |= {"ansible_connection": "roundsman.cluster.lab_node", "roundsman_lab_root": str(tmp_path / "node")}
    step = {
        "name": "A step on the bad node",
        "roundsman.cluster.instance_state": {"instance": "i1", "state": "stopped"},
        "delegate_to": "evil",
        "register": "told",
        "failed_when": False,
    }
    shown = {"name": "Show it", "ansible.builtin.debug": {"msg": "{{ told.msg }}"}}

    done = play(tmp_path, [step, shown], {"evil": host})

    assert done.returncode == 0, done.stdout + done.stderr
    assert "the node wrote more than 4194304 bytes" in done.stdout
    kibibytes = int(done.stderr.rpartition("largest process: ")[2])
    assert kibibytes * 1024 < 300 * MIB


@pytest.mark.parametrize("size", [100, MIB])
def test_what_a_node_says_of_who_leads_is_bounded_and_neither_executed_nor_a_path(tmp_path: Path, size: int) -> None:
    template = f"{{{{ lookup('pipe', 'touch {tmp_path}/evil/executed-by-a-template') }}}}"
    follows = {"number": 9, "id": "../../evil", "master": template, "serial": 1, "goes_on": [template]}
    said = {"node": "../../evil", "boot": template, "follows": follows, "refusal": "A" * size, "steps": {template: "x"}}
    evil = hostile(tmp_path / "evil", **said)
    run, uuid = tmp_path / "run", "0c1d2e3f-0000-4000-8000-0000000000ee"
    run.mkdir()
    (tmp_path / "node/wire").mkdir(parents=True)
    host = {
        **local(evil.python),
        "ansible_pipelining": True,
        "ansible_connection": "roundsman.cluster.lab_node",
        "roundsman_lab_root": str(tmp_path / "node"),
        "roundsman_node_uuid": uuid,
    }

    done = play(
        tmp_path,
        [{"name": "Ask the node which controller it follows", "roundsman.cluster.leader": {}}],
        {"evil": host},
        hosts_pattern="evil",
        environment={"ROUNDSMAN_RUN": str(run)},
    )

    kept = {path.name: json.loads(path.read_bytes()) for path in run.iterdir()}
    is_within = size < MIB
    assert (done.returncode == 0) is is_within, done.stdout + done.stderr
    assert kept == ({f"answer-{uuid}.json": said} if is_within else {})
    assert is_within or "the node wrote more than 262144 bytes" in done.stdout
    assert evil.marks == []
    assert sorted(path.name for path in tmp_path.glob("answer*")) == []
