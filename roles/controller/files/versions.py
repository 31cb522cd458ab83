#!/usr/bin/env python3
"""Versions of Roundsman side by side on a controller: installs one, switches to it, removes those that nobody uses.

FOLDER/NAME is a virtual environment; NAME is the version and the first digits of its wheel's SHA-256, so another wheel
of the same version is another folder. It is complete once FOLDER/NAME/.complete exists. FOLDER/current and
FOLDER/previous are links to two of them. Processes that run a version hold a shared lock on FOLDER/NAME/.in-use.
Needs root, and nothing but Python's standard library.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import json
import os
import pwd
import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

NAME = re.compile(r"[0-9][A-Za-z0-9.!_]*-[0-9a-f]{8}")
COMPLETE, IN_USE, REMOVED = ".complete", ".in-use", ".removed-"
CURRENT, PREVIOUS = "current", "previous"
RESTART = ".restart"
"""There from before a change until the role has restarted the units: a run that is killed between leaves it."""
LOOKS = 100
"""How often processes are looked at, at most, until each that is just starting has begun its program."""
OLD_LAYOUT = ("bin", "include", "lib", "lib64", "share", "pyvenv.cfg")
"""What FOLDER has where it is a virtual environment itself, as it was before versions stood side by side."""
SCHEMA = """
import json, sys
try:
    from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster
except ModuleNotFoundError:
    from ansible_collections.roundsman.cluster.plugins.module_utils.domain import cluster
try:
    with open(sys.argv[1], "rb") as file:
        print(json.load(file).get("version", 0), cluster.VERSION)
except (OSError, ValueError, AttributeError):
    print(0, cluster.VERSION)
"""
"""Prints the schema of the configuration, 0 where there is none, and the newest that a version reads.

A version that was installed earlier may have its `cluster` in `module_utils/domain`.
"""


def main() -> None:
    """Do what the arguments say and print what was done as a JSON object."""
    options = _options()
    os.umask(0o022)
    with _alone(options.folder):
        try:
            done = install(options) if options.do == "install" else {"removed": tidy(options.folder)}
        except subprocess.CalledProcessError as error:
            sys.exit(f"{shlex.join(map(str, error.cmd[:4]))} ... ended with {error.returncode}")
    print(json.dumps(done))  # noqa: T201 - its answer


def install(options: argparse.Namespace) -> dict[str, Any]:
    """Make a version, unless it is complete, and switch to it if it reads the present configuration.

    It is a change until the units were restarted.
    """
    folder: Path = options.folder
    name, made = options.version, False
    if not is_complete(folder / name):
        wheel = fetch_wheel(options)
        name = name_of(wheel)
        made = not is_complete(folder / name)
        if made:
            (folder / RESTART).touch()
            _remove(folder / name)
            make_environment(folder / name, wheel, options)
            complete(folder / name)
    refuse_newer_configuration(folder / name, options)
    if linked(folder, CURRENT) != name:
        (folder / RESTART).touch()
    switch(folder, name)
    return {"version": name, "changed": (folder / RESTART).exists()}


def fetch_wheel(options: argparse.Namespace) -> Path:
    """The wheel that pip would install."""
    tools, wheels = options.folder / ".tools", options.folder / ".wheels"
    if not _works([tools / "bin/python", "-m", "pip", "--version"]):
        new = tools.with_name(f"{tools.name}.new")
        subprocess.run([options.python, "-m", "venv", "--clear", new], stdout=sys.stderr, check=True)
        shutil.rmtree(tools, ignore_errors=True)
        new.rename(tools)
    shutil.rmtree(wheels, ignore_errors=True)
    wheels.mkdir()
    wanted = f"{options.requirement}=={options.version}" if options.version else options.requirement
    pip = [tools / "bin/python", "-m", "pip", "wheel", "--no-deps", "--quiet", "--disable-pip-version-check"]
    given = shlex.split(options.pip_arguments)
    subprocess.run([*pip, "--wheel-dir", wheels, *given, wanted], stdout=sys.stderr, check=True)
    (wheel,) = wheels.glob("*.whl")
    return Path(wheel)


def name_of(wheel: Path) -> str:
    """The name of the folder for a wheel."""
    return f"{wheel.name.split('-')[1]}-{hashlib.sha256(wheel.read_bytes()).hexdigest()[:8]}"


def make_environment(path: Path, wheel: Path, options: argparse.Namespace) -> None:
    """Make a virtual environment at its final path and install a wheel with all that it needs."""
    subprocess.run([options.python, "-m", "venv", path], stdout=sys.stderr, check=True)
    pip = [path / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, *shlex.split(options.pip_arguments), wheel], stdout=sys.stderr, check=True)


def complete(path: Path) -> None:
    """Say that a version is complete, after all of its files are on the disk."""
    (path / IN_USE).touch(mode=0o644)
    os.sync()
    (path / COMPLETE).touch(mode=0o644)


def is_complete(path: Path) -> bool:
    """Whether a folder holds a version that was installed to its end, and that still starts."""
    if NAME.fullmatch(path.name) is None or not (path / COMPLETE).exists():
        return False
    return _works([path / "bin/python", "-I", "-c", "import ansible_collections.roundsman.cluster.daemon"])


def _works(command: list[Any]) -> bool:
    """Whether a program is there and succeeds; one that is killed says nothing about itself.

    Raises:
        CalledProcessError: it was killed.
    """
    try:
        ended = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False, cwd="/")
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return False
    if ended.returncode < 0:
        ended.check_returncode()
    return ended.returncode == 0


def refuse_newer_configuration(path: Path, options: argparse.Namespace) -> None:
    """End with one line where a version cannot read the present configuration."""
    known = pwd.getpwnam(options.user)
    told = subprocess.run(
        [path / "bin/python", "-c", SCHEMA, options.config],
        stdout=subprocess.PIPE,
        check=True,
        cwd="/",
        user=known.pw_uid,
        group=known.pw_gid,
        extra_groups=os.getgrouplist(known.pw_name, known.pw_gid),
        # That user may look into its process, and type into a terminal that it shares with root.
        start_new_session=True,
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"},
    )
    found, newest = map(int, told.stdout.split())
    if found > newest:
        sys.exit(
            f"Roundsman {path.name} reads schemas up to {newest}, and {options.config} has schema {found}: "
            "nothing was changed; install a newer version"
        )


def switch(folder: Path, name: str) -> bool:
    """Let `current` lead to a version, and `previous` to the one before; returns whether that is new."""
    before = linked(folder, CURRENT)
    if before == name:
        return False
    if before:
        _link(folder / PREVIOUS, before)
    _link(folder / CURRENT, name)
    return True


def linked(folder: Path, link: str) -> str:
    """The version that a link leads to, '' where there is none."""
    try:
        return str((folder / link).readlink())
    except OSError:
        return ""


def _link(link: Path, target: str) -> None:
    new = link.with_name(f".{link.name}.new")
    with contextlib.suppress(FileNotFoundError):
        new.unlink()
    new.symlink_to(target)
    new.replace(link)


def tidy(folder: Path) -> list[str]:
    """Remove the versions that are neither linked nor in use; returns their names."""
    kept = {linked(folder, CURRENT), linked(folder, PREVIOUS)}
    removed = []
    for path in sorted(folder.iterdir()):
        if path.name.startswith(REMOVED):
            shutil.rmtree(path)
        elif NAME.fullmatch(path.name) and path.name not in kept and not is_in_use(path):
            _remove(path)
            removed.append(path.name)
    # Until there are two versions, what was there before them is the way back.
    if "" not in kept and not runs_below(folder / "bin", folder / "lib"):
        found = [path for path in (folder / name for name in OLD_LAYOUT) if os.path.lexists(path)]
        for path in found:
            _remove(path)
        removed += [path.name for path in found]
    return removed


def is_in_use(path: Path) -> bool:
    """Whether a process runs a version: by its lock, or by what is in its memory where it is too old to hold one."""
    with contextlib.suppress(FileNotFoundError), (path / IN_USE).open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return runs_below(path)


def runs_below(*folders: Path) -> bool:
    """Whether the command line of a process, or a library that it has loaded, is in one of the folders."""
    texts = [os.fsencode(f"{folder}/") for folder in folders]
    for _ in range(LOOKS):
        memories = [_memory(path) for path in Path("/proc").glob("[0-9]*") if path.name != str(os.getpid())]
        if any(text in known for text in texts for memory in memories for known in memory):
            return True
        # A process that is just starting its program has a memory without a command line; some have emptied it.
        if all(command or not maps for command, maps in memories):
            break
        time.sleep(0.01)
    return False


def _memory(process: Path) -> list[bytes]:
    """The command line and the mapped files of a process; empty where it has ended, or is the kernel's."""
    known = []
    for name in ("cmdline", "maps"):
        try:
            known.append((process / name).read_bytes())
        except OSError:
            known.append(b"")
    return known


def _remove(path: Path) -> None:
    """Remove a folder in one step, as far as others see it."""
    if not os.path.lexists(path):
        return
    gone = path.with_name(f"{REMOVED}{path.name}")
    if gone.is_dir():
        shutil.rmtree(gone)
    if path.is_symlink() or not path.is_dir():
        path.unlink()
        return
    path.rename(gone)
    shutil.rmtree(gone)


@contextlib.contextmanager
def _alone(folder: Path) -> Any:
    # A user who could open it could hold it for ever.
    with open(folder / ".lock", "ab", opener=lambda path, flags: os.open(path, flags, 0o600)) as lock:
        os.fchmod(lock.fileno(), 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Keep versions of Roundsman side by side on a controller.")
    parser.add_argument("folder", type=Path, help="the folder in which the versions are")
    commands = parser.add_subparsers(dest="do", required=True)
    wanted = commands.add_parser("install", help="install a version and switch to it")
    wanted.add_argument("--requirement", required=True, help="a name from an index, the path of a wheel, or a folder")
    wanted.add_argument("--version", default="", help="the version of that name, or the name of a complete folder")
    wanted.add_argument("--pip-arguments", default="", help="for `pip wheel` and `pip install`")
    wanted.add_argument("--python", default=sys.executable, help="the interpreter of new virtual environments")
    wanted.add_argument("--config", type=Path, default=Path("/var/lib/roundsman/config.data"))
    wanted.add_argument("--user", default="roundsman", help="the user who may read the configuration")
    commands.add_parser("tidy", help="remove versions that are neither linked nor in use")
    return parser.parse_args()


if __name__ == "__main__":
    main()
