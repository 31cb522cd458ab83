"""What runs of opcodes do in a lab: their tasks with arguments, the programs that these call, and what is recorded.

A file has the life of an instance of one disk template with one hypervisor, and one has opcodes at nodes and playbooks
that people run. Skipped tasks, and those that only lead to others, are left out; commands stand below their task.
"""

from __future__ import annotations

import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .adapters import opcode_lab

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

LIVES = {
    "drbd-kvm-moved": "migrate failover replace replace repair-disks remove",
    "drbd-kvm-used": "verify-disks shutdown activate-disks deactivate-disks recreate reinstall startup",
    "drbd-fake": "migrate failover shutdown startup remove",
    "plain-kvm": "shutdown recreate startup remove",
    "sharedfile-kvm": "migrate failover remove",
    "file-kvm": "shutdown startup remove",
}
"""What is done to an instance after it was made, by its name: disk template and hypervisor."""
RUNS = (
    ("repair.yml", "-e", "instance_name=drbd-fake"),
    ("evacuate.yml", "-e", "node=node2", "--check"),
    ("evacuate.yml", "-e", "node=node2"),
    ("power.yml", "-e", "power=off", "-e", "nodes=node2", "--check"),
    ("power.yml", "-e", "power=off", "-e", "nodes=node2"),
    ("epo.yml", "-e", "epo_all=true"),
)
SIZES = {"file": (1024,), "sharedfile": (1024,), "plain": (1024, 1028), "drbd": (1024, 1028)}
"""MiB of the disks of an instance; files of one node take their room."""
Step = tuple[str, str, Any]
PLAYBOOK = """
- name: Install an operating system
  hosts: roundsman_primary
  gather_facts: false
  tasks:
    - name: Say where
      ansible.builtin.debug: {msg: "{{ instance.name }} on {{ inventory_hostname }}"}
"""


def record() -> Iterator[tuple[str, str]]:
    """Texts of this trace by the names of their files."""
    with tempfile.TemporaryDirectory() as folder, opcode_lab.lab(Path(folder)) as lab:
        playbook = Path(folder) / "os.yml"
        playbook.write_text(PLAYBOOK)
        yield "nodes.txt", _text(_steps(lab, "node5", at_nodes()))
        yield from lives(lab, playbook)
    with tempfile.TemporaryDirectory() as folder, opcode_lab.lab(Path(folder)) as lab:
        yield "playbooks.txt", _text(list(playbooks(lab)))


def lives(lab: opcode_lab.Lab, os_playbook: Path, names: Iterable[str] = LIVES) -> Iterator[tuple[str, str]]:
    """The lives of instances, side by side; what takes minors of DRBD is made before, in its order."""
    steps = {name: life(name, os_playbook=str(os_playbook)) for name in names}
    lines = {name: _steps(lab, name, steps[name][:1]) for name in steps if name.startswith("drbd")}
    with ThreadPoolExecutor(len(steps)) as pool:
        rest = {name: pool.submit(_steps, lab, name, steps[name][name in lines :]) for name in steps}
    for name, found in rest.items():
        yield f"{name}.txt", _text([*lines.get(name, []), *found.result()])


def life(name: str, *, os_playbook: str) -> list[Step]:
    """The requests by which an instance is made and used."""
    template, hypervisor, *_ = name.split("-")
    path = f"/2/instances/{name}"
    made = {
        "name": name,
        "disk_template": template,
        "disks": [{"size": size} for size in SIZES[template]],
        "nics": [{"mac": f"52:54:00:00:00:{list(LIVES).index(name):02}", "link": "br0"}],
        "beparams": {"memory": 256, "vcpus": 2},
        "hvparams": {"boot": "disk", "migration_bandwidth": "100"} if hypervisor == "kvm" else {},
        "hypervisor": hypervisor,
        "pnode": "node2",
        **({"snode": "node3"} if template == "drbd" else {}),
    }
    replacing = {"mode": "replace_new_secondary", "remote_node": "node4"}
    known: dict[str, Step] = {
        "migrate": ("PUT", f"{path}/migrate", {"target_node": "node3"}),
        "failover": ("PUT", f"{path}/failover", {"target_node": "node2"}),
        "replace": ("POST", f"{path}/replace-disks", replacing),
        "remove": ("DELETE", path, None),
        "recreate": ("POST", f"{path}/recreate-disks", {}),
        "reinstall": ("POST", f"{path}/reinstall", {"os_playbook": os_playbook, "start": False}),
    }
    steps = [known.get(verb, ("PUT", f"{path}/{verb}", {})) for verb in LIVES[name].split()]
    return [("POST", "/2/instances", made), *steps]


def at_nodes() -> list[Step]:
    """The requests about a node without instances."""
    power = "/2/nodes/node5/power"
    return [
        *(("PUT", power, {"command": command}) for command in ("status", "off", "on", "cycle")),
        ("PUT", "/2/nodes/node5/health", None),
        ("PUT", power, {"command": "off", "force": True}),
    ]


def playbooks(lab: opcode_lab.Lab) -> Iterator[str]:
    """The tasks of the playbooks that people run, and what these do about an instance on node2 and node3."""
    _, path, made = life("drbd-fake", os_playbook="")[0]
    lab.job("POST", path, made, about="drbd-fake")
    for name in ("evacuate", "power", "repair", "epo", "diagnose"):
        yield from (f"== {name}.yml --list-tasks", *lab.listed(f"{name}.yml"), "")
    for name, *arguments in RUNS:
        yield from (f"== {name} {' '.join(arguments)}", *lab.play(name, *arguments), "")


def _steps(lab: opcode_lab.Lab, name: str, steps: list[Step]) -> list[str]:
    found = []
    for method, path, body in steps:
        found += [f"== {method} {path}", *lab.job(method, path, body, about=name, others=LIVES.keys() - {name}), ""]
    return found


def _text(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
