"""The program of the role that keeps versions beside each other."""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import pwd
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters

from tests import installed_versions
from tests.unit import other_users
from tests.unit.roles import role_tasks

if TYPE_CHECKING:
    from collections.abc import Iterator

OLD, NEW, NEWER = "0.1.0-00000001", "0.1.0-00000002", "0.2.0-00000003"
versions = installed_versions.load_script()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where versions stand: two that are complete, of which none is linked."""
    for name in (OLD, NEW):
        make(tmp_path / name)
    return tmp_path


def make(path: Path, *, is_complete: bool = True) -> None:
    """A version whose only program takes the place of an interpreter, and can import everything."""
    (path / "bin").mkdir(parents=True)
    (path / "bin/python").symlink_to("/bin/true")
    if is_complete:
        versions.complete(path)


def install(folder: Path, **given: Any) -> dict[str, Any]:
    """Install a version as the role does, which restarts the units after a change and forgets the mark."""
    done: dict[str, Any] = versions.install(options(folder, **given))
    if done["changed"]:
        (folder / versions.RESTART).unlink()
    return done


def options(folder: Path, **given: Any) -> argparse.Namespace:
    user = pwd.getpwuid(os.geteuid()).pw_name
    known = {"requirement": "roundsman-cluster", "version": "", "pip_arguments": "", "python": "python3"}
    return argparse.Namespace(**{"folder": folder, **known, "config": folder / "config.data", "user": user, **given})


@pytest.fixture
def wheel(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The wheel that pip finds; what is installed from it is only an interpreter, which reads every configuration."""
    path = folder.parent / f"{folder.name}.wheels" / "roundsman_cluster-0.3.0-py3-none-any.whl"
    path.parent.mkdir()
    path.write_text("one")
    monkeypatch.setattr(versions, "fetch_wheel", lambda _: path)
    monkeypatch.setattr(versions, "make_environment", lambda place, _wheel, _options: make(place, is_complete=False))
    monkeypatch.setattr(versions, "refuse_newer_configuration", lambda _path, _options: None)
    return path


def test_another_wheel_of_the_same_version_is_another_version(folder: Path, wheel: Path) -> None:
    first = install(folder)
    assert first == {"version": versions.name_of(wheel), "changed": True}
    assert install(folder) == {**first, "changed": False}
    wheel.write_text("another")
    second = install(folder)
    assert second["changed"]
    assert first["version"].rpartition("-")[0] == second["version"].rpartition("-")[0] == "0.3.0"
    linked = {name: (folder / name).readlink().name for name in ("current", "previous")}
    assert linked == {"current": second["version"], "previous": first["version"]}


def test_a_version_that_is_there_is_the_way_back_without_pip(
    folder: Path, wheel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions.switch(folder, OLD)
    install(folder)
    monkeypatch.setattr(versions, "fetch_wheel", lambda _: pytest.fail("pip is asked"))
    assert install(folder, version=OLD) == {"version": OLD, "changed": True}
    assert (folder / "current").readlink() == Path(OLD)
    assert (folder / "previous").readlink() == Path(versions.name_of(wheel))


def test_what_broke_off_is_not_linked_and_made_anew(folder: Path, wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    versions.switch(folder, OLD)
    name = versions.name_of(wheel)
    with monkeypatch.context() as patched:
        patched.setattr(os, "sync", lambda: pytest.exit("killed"))
        with pytest.raises(pytest.exit.Exception):
            install(folder)
    assert not versions.is_complete(folder / name)
    assert (folder / "current").readlink() == Path(OLD)
    (folder / name / "half").touch()
    assert install(folder) == {"version": name, "changed": True}
    assert not (folder / name / "half").exists()


@pytest.mark.parametrize("broken_off", [(versions, "_link"), (versions, "refuse_newer_configuration")])
def test_the_units_are_restarted_by_the_next_run_where_the_first_one_was_killed_before(
    folder: Path, wheel: Path, broken_off: tuple[Any, str]
) -> None:
    versions.switch(folder, OLD)
    name = versions.name_of(wheel)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(*broken_off, lambda *_: pytest.exit("killed"))
        with pytest.raises(pytest.exit.Exception):
            versions.install(options(folder))
    assert versions.install(options(folder)) == {"version": name, "changed": True}
    assert versions.install(options(folder)) == {"version": name, "changed": True}, "killed before the handlers"
    (folder / versions.RESTART).unlink()
    assert versions.install(options(folder)) == {"version": name, "changed": False}


def test_the_mark_goes_after_the_restart_whether_there_is_a_cluster_or_not() -> None:
    restart, forget = yaml.safe_load((role_tasks.ROLES / "controller/handlers/main.yml").read_text())
    assert restart["name"] == forget["listen"] == "Restart the units"
    assert "when" not in forget
    file = forget["ansible.builtin.file"]
    assert file == {"path": f"{{{{ controller_versions }}}}/{versions.RESTART}", "state": "absent"}


def test_a_complete_version_that_cannot_import_its_daemon_is_made_again(folder: Path, wheel: Path) -> None:
    name = install(folder)["version"]
    assert name == versions.name_of(wheel)
    (folder / name / "bin/python").unlink()
    assert install(folder) == {"version": name, "changed": True}
    (folder / name / "bin/python").unlink()
    (folder / name / "bin/python").symlink_to("/bin/false")
    assert install(folder) == {"version": name, "changed": True}
    assert install(folder) == {"version": name, "changed": False}


def test_a_version_whose_interpreter_is_killed_is_not_taken_for_a_damaged_one(folder: Path, wheel: Path) -> None:
    name = install(folder)["version"]
    assert name == versions.name_of(wheel)
    python = folder / name / "bin/python"
    python.unlink()
    python.write_text("#!/bin/sh\nkill -9 $$\n")
    python.chmod(0o755)
    with pytest.raises(subprocess.CalledProcessError):
        install(folder)
    assert python.exists()


PYTHON = """#!/bin/sh
case "$2 $3" in
"venv --clear") mkdir -p "$4/bin" && cp "$0" "$4/bin/python" ;;
"pip wheel") touch "$8/roundsman_cluster-0.3.0-py3-none-any.whl" ;;
esac
"""
"""An interpreter that makes virtual environments, and in these wheels."""


@pytest.mark.parametrize("left", ["nothing", "no pip", "no interpreter", "a half new one"])
def test_tools_without_pip_are_made_again(tmp_path: Path, left: str) -> None:
    tools, python = tmp_path / ".tools/bin", tmp_path / "python3"
    python.write_text(PYTHON)
    python.chmod(0o755)
    if left != "nothing":
        tools.mkdir(parents=True)
        (tools / "pip").touch()
        (tools / "python").symlink_to("/bin/false" if left == "no pip" else tmp_path / "gone")
    if left == "a half new one":
        (tmp_path / ".tools.new/bin").mkdir(parents=True)
    given = options(tmp_path, python=str(python))
    assert versions.fetch_wheel(given).name == "roundsman_cluster-0.3.0-py3-none-any.whl"
    before = (tools / "python").stat()
    versions.fetch_wheel(given)
    assert (tools / "python").stat() == before, "what works is kept"
    assert not (tmp_path / ".tools.new").exists()


def test_pip_makes_a_wheel_first_and_installs_it_with_all_it_needs(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[list[str]] = []

    def run(command: list[Any], **_: Any) -> subprocess.CompletedProcess[bytes]:
        ran.append([str(word).replace(str(folder), "FOLDER") for word in command])
        if "wheel" in command:
            (folder / ".wheels/roundsman_cluster-0.3.0-py3-none-any.whl").touch()
        if "--clear" in command:
            command[-1].mkdir()
        return subprocess.CompletedProcess(command, int("--version" in command))

    monkeypatch.setattr(subprocess, "run", run)
    given = options(folder, version="0.3.0", pip_arguments="--no-index --find-links '/srv/my wheels'")
    wheel = versions.fetch_wheel(given)
    versions.make_environment(folder / NEWER, wheel, given)
    quiet, arguments = ["--quiet", "--disable-pip-version-check"], ["--no-index", "--find-links", "/srv/my wheels"]
    pip, wheels = ["-m", "pip"], ["--wheel-dir", "FOLDER/.wheels"]
    assert ran == [
        ["FOLDER/.tools/bin/python", *pip, "--version"],
        ["python3", "-m", "venv", "--clear", "FOLDER/.tools.new"],
        [
            *("FOLDER/.tools/bin/python", *pip, "wheel", "--no-deps", *quiet),
            *wheels,
            *arguments,
            "roundsman-cluster==0.3.0",
        ],
        ["python3", "-m", "venv", f"FOLDER/{NEWER}"],
        [f"FOLDER/{NEWER}/bin/python", *pip, "install", *quiet, *arguments, f"FOLDER/.wheels/{wheel.name}"],
    ]


@other_users.only_root
def test_a_version_that_cannot_read_the_configuration_is_refused_in_one_line(tmp_path: Path) -> None:
    installed_versions.make(tmp_path / NEW, has_collection=False)
    versions.complete(tmp_path / NEW)
    versions.switch(tmp_path, OLD)
    given = options(tmp_path, version=NEW)
    given.config.write_text(json.dumps({"checksum": "", "version": clusters.VERSION + 1}))
    with pytest.raises(SystemExit) as refused:
        versions.install(given)
    assert str(refused.value) == (
        f"Roundsman {NEW} reads schemas up to {clusters.VERSION}, and {given.config} has schema "
        f"{clusters.VERSION + 1}: nothing was changed; install a newer version"
    )
    assert (tmp_path / "current").readlink() == Path(OLD)
    for content in (json.dumps({"version": clusters.VERSION}), "damaged", "[]", None):
        given.config.unlink()
        if content is not None:
            given.config.write_text(content)
        versions.refuse_newer_configuration(tmp_path / NEW, given)
        given.config.touch()


def test_the_schema_of_an_older_version_is_found_where_it_has_its_cluster(tmp_path: Path) -> None:
    place = tmp_path / "ansible_collections/roundsman/cluster/plugins/module_utils/domain"
    place.mkdir(parents=True)
    (place / "cluster.py").write_text("VERSION = 1\n")
    (tmp_path / "config.data").write_text(json.dumps({"version": 2}))
    # Without `site`, and so without the collection of this environment.
    words = [sys.executable, "-S", "-c", versions.SCHEMA, tmp_path / "config.data"]
    ended = subprocess.run(words, env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=True)
    assert ended.stdout == "2 1\n"


def test_only_versions_that_are_not_linked_are_removed(folder: Path) -> None:
    make(folder / NEWER)
    make(folder / "0.4.0-00000004", is_complete=False)
    for other in (".tools", "of an administrator", ".removed-0.0.1-00000000"):
        (folder / other).mkdir()
    for name in (OLD, NEW, NEWER):
        versions.switch(folder, name)
    assert versions.tidy(folder) == [OLD, "0.4.0-00000004"]
    left = {path.name for path in folder.iterdir()}
    assert left == {NEW, NEWER, "current", "previous", ".tools", "of an administrator"}
    assert versions.tidy(folder) == []


def test_a_version_is_kept_as_long_as_its_lock_is_held_by_inheritance_too(folder: Path) -> None:
    make(folder / NEWER)
    versions.switch(folder, NEW)
    versions.switch(folder, NEWER)
    with (folder / OLD / versions.IN_USE).open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        child = subprocess.Popen(["cat"], stdin=subprocess.PIPE, pass_fds=[lock.fileno()])
    assert versions.tidy(folder) == []
    child.communicate()
    assert versions.tidy(folder) == [OLD]


@pytest.fixture
def running(folder: Path) -> Iterator[tuple[Path, subprocess.Popen[bytes]]]:
    """A process of a program that is too old to hold a lock: its path is in its command line."""
    program = folder / "bin/program"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nread _\n")
    program.chmod(0o755)
    process = subprocess.Popen(["/bin/sh", program], stdin=subprocess.PIPE)
    yield program, process
    process.kill()
    process.wait()


def test_a_version_without_lock_is_kept_as_long_as_a_process_of_it_runs(
    folder: Path, running: tuple[Path, subprocess.Popen[bytes]]
) -> None:
    program, process = running
    versions.switch(folder, OLD)
    assert versions.tidy(folder) == [NEW]
    assert program.exists(), "what was there before there were versions is the way back from the first one"
    make(folder / NEW)
    versions.switch(folder, NEW)
    assert versions.tidy(folder) == []
    process.communicate()
    assert versions.tidy(folder) == ["bin"]
    assert not program.parent.exists()


@pytest.mark.parametrize("is_old", [False, True])
def test_a_process_that_got_no_lock_keeps_its_version_by_what_it_runs(folder: Path, *, is_old: bool) -> None:
    """Any user of the machine may hold the lock of a version when a process of it starts, and older ones have none."""
    make(folder / NEWER)
    versions.switch(folder, NEW)
    versions.switch(folder, NEWER)
    if is_old:
        (folder / OLD / versions.IN_USE).unlink()
    program = folder / OLD / "bin/program"
    program.write_text("#!/bin/sh\nread _\n")
    with subprocess.Popen(["/bin/sh", program], stdin=subprocess.PIPE) as process:
        assert versions.tidy(folder) == []
        assert program.exists()
        process.kill()
    assert versions.tidy(folder) == [OLD]


def test_a_process_that_is_just_starting_its_program_is_looked_at_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the exec and the program a process has maps, and no command line: 1 in 9 of them on a busy machine."""
    looks = iter([[b"", b"[stack]"], [os.fsencode(folder / OLD / "bin/program"), b"[stack]"]])
    monkeypatch.setattr(versions, "_memory", lambda process: next(looks) if process.name == "1" else [b"", b""])
    assert versions.is_in_use(folder / OLD)


@other_users.only_root
def test_nobody_but_root_opens_the_lock_of_the_program_itself() -> None:
    with other_users.open_folder() as folder:
        (folder / ".lock").touch(mode=0o644)
        with versions._alone(folder), other_users.acting_as(other_users.DAEMON), pytest.raises(PermissionError):
            (folder / ".lock").open("rb")
