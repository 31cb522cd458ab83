"""What the role does, as root, in folders of the daemons' users, who may put links at every path there at any time."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import jinja2
import pytest
import yaml

from tests.unit import other_users, others_folders
from tests.unit.roles import role_tasks

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ROLE = role_tasks.ROLES / "controller"
OF_DAEMONS = ("/var/lib/roundsman", "/var/log/roundsman", "/run/roundsman")
"""What the paths begin with that belong to the daemons' users, or are below such folders."""
AS_THEM = ["setsid", "--wait", "runuser", "-u"]
TMPFILES = shutil.which("systemd-tmpfiles")
needs_tmpfiles = pytest.mark.skipif(
    os.geteuid() != 0 or TMPFILES is None, reason="only root makes files of other users, and with systemd-tmpfiles"
)
KNOWN: dict[str, Any] = {
    **yaml.safe_load((ROLE / "defaults/main.yml").read_text()),
    "inventory_hostname": "controller",
    "controller_rapi": {"stat": {"exists": False}},
}


def tasks() -> list[role_tasks.Task]:
    return [
        task for path in sorted((ROLE / "tasks").glob("*.yml")) for task in role_tasks.tasks("controller", path.stem)
    ]


def texts(value: Any) -> list[str]:
    """All strings in a structure."""
    if isinstance(value, dict):
        return [text for each in value.values() for text in texts(each)]
    if isinstance(value, list):
        return [text for each in value for text in texts(each)]
    return [str(value)]


def arguments(task: role_tasks.Task) -> Iterator[tuple[str, Any]]:
    """The module of a task and what it gets, for each item of its loop."""
    module = next(key for key in task if key.startswith("ansible."))
    for item in role_tasks.value("controller", task.get("loop", [None]), KNOWN):
        yield module, role_tasks.value("controller", task[module], {**KNOWN, **task.get("vars", {}), "item": item})


def leaves_daemons_alone(module: str, given: Any) -> bool:
    """Whether a module has nothing to do with paths of the daemons, or follows no link at them."""
    if not any(text.startswith(OF_DAEMONS) for text in texts(given)):
        return True
    if module == "ansible.builtin.user":
        # The home is only a word in /etc/passwd.
        return given["create_home"] is False and "move_home" not in given
    argv = given.get("argv", []) if module == "ansible.builtin.command" else []
    if module == "ansible.builtin.script" and given["cmd"].startswith("give_lock.py "):
        return True
    return module == "ansible.builtin.stat" or argv[:4] == AS_THEM or argv[:2] == ["chown", "--no-dereference"]


@functools.cache
def lines() -> list[list[str]]:
    """The lines of the role's file for systemd-tmpfiles, in words."""
    template = (ROLE / "templates/tmpfiles.conf.j2").read_text()
    known = yaml.safe_load((ROLE / "vars/main.yml").read_text())
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, trim_blocks=True)
    text = environment.from_string(template).render({**known, "ansible_managed": "managed"})
    return [line.split() for line in text.splitlines() if line and not line.startswith("#")]


def test_no_module_of_ansible_touches_a_path_in_a_folder_of_the_daemons() -> None:
    touching = {task["name"] for task in tasks() for given in arguments(task) if not leaves_daemons_alone(*given)}
    assert touching == set()


def test_no_task_becomes_a_user_who_could_exchange_its_temporary_files() -> None:
    assert [task["name"] for task in tasks() if "become_user" in task] == []


class Machine:
    """A root folder with the accounts of the role, of which the lesser ones own folders."""

    def __init__(self, place: Path) -> None:
        self.root = place / "root"
        (self.root / "etc").mkdir(parents=True)
        (self.root / "var/lib").mkdir(parents=True)
        self.victims = others_folders.make_victims(self.root / "victims")
        names = {name for line in lines() for name in line[3:5]} - {"root"}
        self.ids = {name: others_folders.LESSER + number for number, name in enumerate(sorted(names))} | {"root": 0}
        passwd = (f"{name}:x:{uid}:{uid}::/:/bin/false\n" for name, uid in self.ids.items())
        (self.root / "etc/passwd").write_text("".join(passwd))
        (self.root / "etc/group").write_text("".join(f"{name}:x:{gid}:\n" for name, gid in self.ids.items()))
        (self.root / "etc/tmpfiles.conf").write_text("".join(" ".join(line) + "\n" for line in lines()))

    def start(self, unit: str) -> subprocess.CompletedProcess[str]:
        """Run what a unit runs before its program, as root."""
        [line] = [
            line
            for line in (ROLE / f"templates/{unit}.service.j2").read_text().splitlines()
            if line.startswith("ExecStartPre=")
        ]
        program, *words = line.removeprefix("ExecStartPre=-+").split()
        assert (program, words.pop()) == ("/usr/bin/systemd-tmpfiles", "/etc/tmpfiles.d/roundsman.conf")
        argv = [str(TMPFILES), f"--root={self.root}", *words, str(self.root / "etc/tmpfiles.conf")]
        return subprocess.run(argv, capture_output=True, text=True, check=False)

    def make(self) -> subprocess.CompletedProcess[str]:
        """Run what the role runs."""
        argv = [str(TMPFILES), f"--root={self.root}", "--create", str(self.root / "etc/tmpfiles.conf")]
        return subprocess.run(argv, capture_output=True, text=True, check=False)

    def give_rapi(self) -> subprocess.CompletedProcess[str]:
        """Run the command that gives the folder of the remote API to its user."""
        task = role_tasks.task("controller", "accounts", "Give it to the user of the remote API")
        (_, given), *_ = arguments(task)
        ids = {"--from=roundsman": f"--from={self.ids['roundsman']}"}
        ids["roundsman-rapi:roundsman-rapi"] = "{0}:{0}".format(self.ids["roundsman-rapi"])
        words = [str(self.root / word[1:]) if word.startswith("/") else ids.get(word, word) for word in given["argv"]]
        return subprocess.run(words, capture_output=True, text=True, check=False)

    def owner(self, path: Path) -> int:
        return path.lstat().st_uid


@needs_tmpfiles
def test_folders_and_logs_have_their_owners_and_modes_and_are_kept() -> None:
    with other_users.open_folder() as place:
        machine = Machine(place)
        for _ in range(2):
            ended = machine.make()
            assert (ended.returncode, ended.stderr) == (0, "")
        for kind, path, mode, owner, group in (line[:5] for line in lines() if not line[0].startswith("R")):
            found = machine.root / path[1:]
            if kind == "z":
                assert not found.exists()
                continue
            status = found.lstat()
            assert (status.st_uid, status.st_gid) == (machine.ids[owner], machine.ids[group])
            assert status.st_mode & 0o7777 == int(mode, 8)
            assert found.is_file() == (kind == "f")


@needs_tmpfiles
@pytest.mark.parametrize("unit", ["roundsmand", "roundsman-rapi"])
def test_a_unit_that_starts_after_a_play_of_root_in_an_empty_run_finds_its_folders(unit: str) -> None:
    with other_users.open_folder() as place:
        machine = Machine(place)
        (machine.root / "run/roundsman/livelocks").mkdir(parents=True, mode=0o750)
        ended = machine.start(unit)
        assert (ended.returncode, ended.stderr) == (0, "")
        made = [line for line in lines() if line[0] == "d" and line[1].startswith("/run/")]
        assert len(made) == 4
        for _, path, mode, owner, group, *_ in made:
            status = (machine.root / path[1:]).lstat()
            assert (status.st_uid, status.st_gid) == (machine.ids[owner], machine.ids[group])
            assert status.st_mode & 0o7777 == int(mode, 8)
        assert {entry.name for entry in machine.root.iterdir()} == {"etc", "run", "var", "victims"}
        assert not list((machine.root / "var").rglob("roundsman*")), "the rest is for an upgrade"


@needs_tmpfiles
@pytest.mark.parametrize("line", [line for line in lines() if line[1].startswith(OF_DAEMONS)], ids=lambda line: line[1])
def test_a_link_at_a_path_of_the_role_leads_root_nowhere(line: list[str]) -> None:
    with other_users.open_folder() as place:
        machine = Machine(place)
        machine.make()
        trap = machine.root / line[1][1:]
        if machine.owner(trap.parent) == 0:
            return  # only root can put a link there
        before = others_folders.look(machine.victims)
        others_folders.plant(trap, machine.victims)
        machine.make()
        assert others_folders.look(machine.victims) == before
        assert trap.is_symlink()


@needs_tmpfiles
def test_a_link_in_the_place_of_the_remote_apis_folder_leads_root_nowhere() -> None:
    with other_users.open_folder() as place:
        machine = Machine(place)
        machine.make()
        folder = machine.root / "var/lib/roundsman/rapi"
        folder.mkdir(mode=0o750)
        os.chown(folder, machine.ids["roundsman"], machine.ids["roundsman"])
        assert machine.give_rapi().returncode == 0
        status = folder.stat()
        assert (status.st_uid, status.st_gid) == (machine.ids["roundsman-rapi"],) * 2
        before = others_folders.look(machine.victims)
        others_folders.plant(folder, machine.victims)
        os.chown(folder, machine.ids["roundsman"], machine.ids["roundsman"], follow_symlinks=False)
        machine.give_rapi()
        assert others_folders.look(machine.victims) == before


@other_users.only_root
@pytest.mark.parametrize("plant", ["nothing", "file", "link", "hard link", "folder", "pipe"])
def test_only_a_plain_file_of_root_is_given_to_the_owner_of_the_locks_folder(plant: str) -> None:
    with other_users.open_folder() as place:
        lib, victim = place / "lib", place / "victim"
        lib.mkdir()
        others_folders.give(lib)
        victim.touch()
        lock = lib / "config.lock"
        match plant:
            case "file":
                lock.touch()
            case "link":
                lock.symlink_to(victim)
            case "hard link":
                lock.hardlink_to(victim)
            case "folder":
                lock.mkdir()
            case "pipe":
                os.mkfifo(lock)
        command = [sys.executable, str(ROLE / "files/give_lock.py"), str(lock)]
        ended = subprocess.run(command, capture_output=True, text=True, check=True)
        is_given = plant == "file"
        assert ended.stdout == "given\n" * is_given
        assert victim.stat().st_uid == 0
        if plant != "nothing":
            assert lock.lstat().st_uid == (others_folders.LESSER if is_given else 0)
        assert not subprocess.run(command, capture_output=True, text=True, check=True).stdout
