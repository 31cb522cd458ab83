"""A lab whose tasks and programs are noted: the one place where the trace `opcode_runs` calls the product.

It is a lab of the integration tests (`tests/integration/labs.py`) that is asked over its socket. Ansible runs with the
callback `golden_tasks`, and the modules of nodes with the Python of `node_site`, whose programs are twins that note how
they were called; with hypervisor `kvm` these are virsh, DRBD and LVM, and with `fake` there are no programs.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

from ansible_collections.roundsman.cluster.daemon.lab import building
from ansible_collections.roundsman.cluster.plugins.plugin_utils import ansible_runs, sealed_json

from tests.integration import labs, states

from .opcode_rules import differing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters

HERE = Path(__file__).parent
NODES = 5
LIMIT = 1200.0
"""Seconds that a job gets; it takes three on an idle machine."""
KEPT_OUT = frozenset({"include_tasks", "include_role", "import_role", "set_fact", "meta", "assert", "add_host"})
"""Actions that only lead from task to task."""
NAMES = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
CHANGING = (
    (re.compile(r"\b[0-9A-Fa-f]{16}\b"), "GENERATION"),
    (re.compile(r'"secret": "[^"]+"'), '"secret": "SECRET"'),
    (re.compile(r'"(seconds|attempts|progress|cpu_seconds|look|seen_off|silent)": [\d.]+'), r'"\1": NUMBER'),
    (re.compile(r'(?:(?<=opcode=)|(?<="opcode": ")|(?<="))\d+/\d+\b'), "JOB"),
    (re.compile(r'"synced": (true|false)'), '"synced": SOON'),
    (re.compile(r"\bcode [0-9a-f]{6}\b"), "code CODE"),
    (re.compile(r"\b1[6-9]\d{8}(\.\d+)?\b"), "TIME"),
    (re.compile(r"(?<![\d.])\d+\.\d{2,}(?![\d.])"), "NUMBER"),
    (re.compile(r"\.roundsman-[^ \"]*|tmp[a-z0-9_]{8}"), "TEMPORARY"),
    (re.compile(r"\d\d\d\d-\d\d-\d\d \d\d:\d\d:\d\d"), "TIME"),
)
"""What differs from run to run, and what stands for it."""
OF_ANSIBLE = frozenset({"failed", "failed_when_result", "diff"})
"""What Ansible adds to the result of a task that is an argument of another."""
SHORT, LONG = 30, 120
"""Characters of a value that is shown each time, and of a value that has a line of its own."""
BARE = re.compile(r"(?!(?:true|false|null|[\d.]+)$)[\w./:@%+,-]+")
ELEMENTS = re.compile(r"><(?=(?:os|features|cpu|clock|devices|disk|interface|serial|channel|graphics|rng)\b)")
"""Where the description of a domain gets a new line."""


@contextlib.contextmanager
def lab(folder: Path) -> Iterator[Lab]:
    """A lab that is up, of five nodes without instances."""
    log, python = folder / "golden.log", folder / "node-python"
    log.touch()
    path = f"{HERE / 'node_site'}${{PYTHONPATH:+:$PYTHONPATH}}"
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{path}"\nexport PYTHONPATH\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    environment = {
        "ANSIBLE_CALLBACK_PLUGINS": str(HERE / "callbacks"),
        "ANSIBLE_CALLBACKS_ENABLED": "golden_tasks",
        "ANSIBLE_GOLDEN_LOG": str(log),
    }

    def edit(cluster: clusters.Cluster) -> clusters.Cluster:
        here, shared = str(folder / "files"), str(folder / "shared")
        known = dataclasses.replace(cluster.cluster, file_storage_dir=here, shared_file_storage_dir=shared)
        return dataclasses.replace(cluster, cluster=known)

    # Playbooks that people run have the environment of this process, jobs that of the daemon.
    with mock.patch.dict(os.environ, environment):
        yield from _up(folder, log, python, edit)


def _up(folder: Path, log: Path, python: Path, edit: Callable[[clusters.Cluster], clusters.Cluster]) -> Iterator[Lab]:
    running = labs.up(folder / "lab", nodes=NODES, instances=0, edit=edit)
    try:
        for number in range(1, NODES + 1):
            node = running.lab.node(f"node{number}")
            known = json.loads((running.where.host_vars / f"{node.name}.json").read_text())
            known["ansible_python_interpreter"] = str(python)
            building.write_host_variables(running.where, node.name, known)
        yield Lab(running, folder, log)
    finally:
        labs.down(running)


class Lab:
    """Asks the lab for jobs, and says line by line what was run."""

    def __init__(self, running: labs.Running, folder: Path, log: Path) -> None:
        self.running = running
        self._folder, self._log = folder, log
        self._names: dict[str, str] = {}

    def job(self, method: str, path: str, body: Any, *, about: str, others: Iterable[str] = ()) -> list[str]:
        """What is run until the job has ended that a request submits, and what changes on record of what it is about.

        What `others` are about, which are asked for at the same time, is left out.
        """
        before = self._document(about)
        answer = self.running.ask(method, path, body)
        if answer.status_code >= 300:
            return [self._plain(f"refused: {answer.status_code} {answer.text}")]
        told = answer.json()
        number = told["id"] if isinstance(told, dict) else told
        ended = self.running.until(lambda one: _ended(one, number), f"job {number} ends", seconds=LIMIT)
        after = self._document(about)
        lines = []
        for index, one in enumerate(ended["opcodes"]):
            lines += self._ran(f"/{number}/{index}", frozenset(others))
            lines.append(f"{one['kind']}: {one['status']} {one['text']}".rstrip())
            found = _without(one.get("result"), frozenset(others))
            lines += [f"result: {json.dumps(found, sort_keys=True)}"] if found is not None else []
        lines += [f"record: {path}: {old} -> {new}" for path, old, new in differing("", before, after)]
        return [self._plain(line) for line in lines]

    def play(self, name: str, *arguments: str) -> list[str]:
        """What a playbook runs that a person calls."""
        before = self._document()
        read = len(self._entries())
        done = self.running.play(name, *arguments)
        entries = [_without(entry, frozenset()) for entry in self._entries()[read:]]
        lines = [*_lines(entries, self._plain), f"exit status {done.returncode}"]
        lines += [f"record: {path}: {old} -> {new}" for path, old, new in differing("", before, self._document())]
        return [self._plain(line) for line in lines]

    def listed(self, name: str, *arguments: str) -> list[str]:
        """The tasks of a playbook, as `--list-tasks` has them."""
        done = self.running.play(name, *arguments, "--list-tasks")
        return [self._plain(line) for line in done.stdout.splitlines() if line.strip()]

    def _ran(self, run: str, others: frozenset[str]) -> list[str]:
        """The tasks of a run, each with the commands that its node ran meanwhile."""
        found = (entry for entry in self._entries() if entry["run"].endswith(run))
        return _lines([_without(entry, others) for entry in found], self._plain)

    def _entries(self) -> list[dict[str, Any]]:
        # Names first: what is in the order of UUIDs is in another one each time.
        return [json.loads(self._named(line)) for line in self._log.read_text().splitlines()]

    def _document(self, about: str = "") -> dict[str, Any]:
        """The configuration, or what it has of the instance or node of a name."""
        found: dict[str, Any] = json.loads(sealed_json.opened(self.running.ask("GET", "/2/config").content))
        for kind in ("nodes", "instances", "nodegroups"):
            self._names |= {uuid: one["name"] for uuid, one in found[kind].items()}
        for node in found["nodes"].values():
            # Who has answered last is noted at any time.
            del node["alive_at"], node["powered_on_at"]
        self._names[found["cluster"]["uuid"]] = "cluster"
        if not about:
            return found
        left = [one for one in found["maintenance"]["left_behind"] if one["instance"]["name"] == about]
        instances, nodes = ({one["name"]: one for one in found[kind].values()} for kind in ("instances", "nodes"))
        return {"instance": instances.get(about), "node": nodes.get(about), "left_behind": left}

    def _named(self, line: str) -> str:
        return NAMES.sub(lambda found: self._names.get(found[0], "UUID"), line)

    def _plain(self, line: str) -> str:
        line = line.replace(str(self._folder), "FOLDER").replace(str(ansible_runs.PLAYBOOKS.parent), "COLLECTION")
        line = self._named(line)
        for pattern, word in CHANGING:
            line = pattern.sub(word, line)
        return line


def _ended(one: labs.Running, job: int) -> dict[str, Any] | None:
    found: dict[str, Any] = one.get(f"/2/jobs/{job}")
    return found if found["status"] in states.FINAL else None


def _without(value: Any, others: frozenset[str]) -> Any:
    """A value without what is in it of other instances."""
    if isinstance(value, dict):
        left = {name: _without(item, others) for name, item in value.items() if name not in others}
        return {name: item for name, item in left.items() if not ("failed" in left and name in OF_ANSIBLE)}
    if isinstance(value, list):
        return [_without(item, others) for item in value if not _is_of(item, others)]
    return value


def _is_of(item: Any, others: frozenset[str]) -> bool:
    name = str(item.get("resource", item.get("name")) if isinstance(item, dict) else item)
    return name in others or name.rpartition("-disk")[0] in others


def _lines(entries: list[dict[str, Any]], plain: Callable[[str], str]) -> list[str]:
    commands: dict[str, list[str]] = {}
    tasks: list[tuple[dict[str, Any], list[str]]] = []
    for entry in entries:
        if "command" in entry:
            commands.setdefault(entry["node"], []).extend(_command(entry))
        elif entry["action"].rpartition(".")[2] not in KEPT_OUT:
            noted = without_repeats(commands.pop(entry["host"], []))
            if noted:
                # The commands say the same.
                entry["result"].pop("steps", None)
            tasks.append((entry, [f"{'' if command[0] == '<' else '$ '}{command}" for command in noted]))
    return list(_in_order(tasks, plain))


def _command(entry: dict[str, str]) -> list[str]:
    return [entry["command"], *(f"< {line}" for line in ELEMENTS.sub(">\n<", entry["given"]).splitlines())]


def _task(entry: dict[str, Any], shown: dict[tuple[str, str], str], plain: Callable[[str], str]) -> list[str]:
    """The lines of a task; a long argument that the last task of this module had too is `(same)`."""
    mode = " (check mode)" if entry["check"] else ""
    action = entry["action"].removeprefix("roundsman.cluster.").removeprefix("ansible.builtin.")
    words: list[str] = [entry["host"], f"{action}{mode}"]
    own: list[str] = []
    # What an argument spec asks for is in the role, and tested there.
    arguments = {} if action == "validate_argument_spec" else entry["arguments"]
    for name, value in sorted(arguments.items()):
        if value is None or name.startswith("_ansible"):
            continue
        text = plain(_value(value))
        is_same = len(text) > SHORT and shown.get((action, name)) == text
        shown[action, name] = text
        (own if len(text) > LONG and not is_same else words).append(f"{name}={'(same)' if is_same else text}")
    return [" ".join(words), *(f"    {line}" for line in [*own, *_result(entry)])]


def _result(entry: dict[str, Any]) -> list[str]:
    found = dict(entry["result"])
    words = ["changed"] if found.pop("changed", False) else []
    words = [*words, *(f"{name}={_value(value)}" for name, value in sorted(found.items()))]
    status = [] if entry["status"] == "ok" else [entry["status"]]
    return [f"=> {' '.join([*status, *words])}"] if status or words else []


def _value(value: Any) -> str:
    if isinstance(value, str) and BARE.fullmatch(value):
        return value
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def _in_order(tasks: list[tuple[dict[str, Any], list[str]]], plain: Callable[[str], str]) -> Iterator[str]:
    """The lines of tasks; those of one task that nodes did side by side are in the order of the nodes' names."""
    shown: dict[tuple[str, str], str] = {}
    for name, together in itertools.groupby(tasks, key=lambda one: one[0]["task"]):
        same = list(together)
        if not any(entry["is_delegated"] for entry, _ in same):
            same.sort(key=lambda one: str(one[0]["host"]))
        yield f"  [{name}]"
        for entry, commands in same:
            yield from (
                f"  {line}" for line in [*_task(entry, shown, plain), *(f"    {command}" for command in commands)]
            )


def without_repeats(commands: list[str]) -> list[str]:
    """Commands without the looks that somebody repeated while waiting, of which there may be any number."""
    kept: list[str] = []
    for command in commands:
        if "domjobinfo" in command and kept and " migrate " in kept[-1]:
            continue
        kept.append(command)
        for length in range(1, 5):
            if kept[-length:] == kept[-2 * length : -length]:
                del kept[-length:]
                break
    return kept
