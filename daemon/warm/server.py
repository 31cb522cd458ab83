"""The server that has Ansible imported and forks for each run (DESIGN, "Warm Ansible").

Started by the daemon with a folder for its socket and a descriptor whose closing ends it; runs go on without it. It
imports Ansible for the first run, under the settings of that run, and ends by itself when a file that it has imported
has changed, when runs come with other settings, or after so many runs that memory would grow: the daemon starts the
next one.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib
import json
import os
import select
import signal
import socket
import struct
import sys
from pathlib import Path
from typing import NoReturn

from ...plugins.plugin_utils import run_group
from . import client as client_side
from . import frozen, play

SOCKET = "warm.sock"
MOST_RUNS = 2000
MOST_REFUSALS = 3
"""In a row, for their settings: then it is time for a server with these."""
FIRST = "the run that the warm server was started for"
CONFIGURATION = ("~/.ansible.cfg", "/etc/ansible/ansible.cfg")
"""Where a configuration file may appear."""
MOST_DESCRIPTORS = 4
PATIENCE = 5.0
"""Seconds that a client may take to say what it wants."""
MODULES = (
    "ansible.cli.playbook",
    "ansible.executor.playbook_executor",
    "ansible.executor.task_queue_manager",
    "ansible.plugins.strategy.linear",
    "ansible.plugins.action.normal",
    "ansible.plugins.connection.local",
    "ansible.plugins.connection.ssh",
    "ansible.plugins.shell.sh",
    "ansible.plugins.become.sudo",
    "ansible.executor.module_common",
    "ansible.executor.interpreter_discovery",
    "ansible.module_utils.basic",
    "httpx",
    "orjson",
    "pydantic",
)

PLUGINS = {
    "action": ("normal", "fail", "assert", "set_fact", "set_stats", "include_tasks", "debug"),
    "become": ("sudo", "su"),
    "cache": ("memory", "jsonfile"),
    "callback": ("default", "minimal"),
    "connection": ("local", "ssh"),
    "inventory": ("yaml", "auto", "host_list", "script"),
    "shell": ("sh",),
    "strategy": ("linear", "free"),
}
"""What nearly every run loads, and whose documentation, where their options stand, is slow to read."""


class Server:
    """Takes requests one after the other; what it forks looks after itself."""

    def __init__(self, listener: socket.socket, *, folder: Path, life: int, lock: int) -> None:
        self._listener, self._folder = listener, folder
        self._life, self._lock = life, lock
        self._start = frozen.of_the_start(os.environ)
        self._surroundings = client_side.surroundings()
        self._baseline: dict[str, str] | None = None
        self._config_file = ""
        self._files: dict[str, int] = {}
        self._runs = self._refusals = 0
        self._is_old = False

    def serve(self) -> None:
        """Serve until the descriptor `life` is closed at its other end, or this Ansible is of no more use."""
        while self._runs < MOST_RUNS and self._refusals < MOST_REFUSALS and not self._is_old:
            ready, _, _ = select.select([self._listener.fileno(), self._life], [], [])
            if self._life in ready:
                return
            client, _ = self._listener.accept()
            client.settimeout(PATIENCE)
            with client:
                try:
                    client.send(client_side.HELLO)
                    request = _receive(client)
                except (OSError, ValueError, KeyError, TypeError):
                    continue
                self._answer(client, request)
                request.close()

    def _answer(self, client: socket.socket, request: play.Request) -> None:
        refusal = self._refusal(request)
        self._runs += 1
        if not refusal:
            try:
                child = os.fork()
            except OSError as error:
                child, refusal = -1, f"the warm server cannot fork: {error}"
            if child == 0:
                self._listener.close()
                os.close(self._life)
                os.close(self._lock)
                try:
                    play.guard(client, request, config_file=self._config_file, warm=self._folder)
                finally:
                    # What a fork cannot even write to its terminal must not have it end as the server.
                    os._exit(1)
        if refusal:
            with contextlib.suppress(OSError):
                client.send(b"R" + refusal.encode(errors="replace"))

    def _refusal(self, request: play.Request) -> str:
        """Why a request is not for this server, or ''."""
        wanted = {**request.surroundings, **frozen.of_the_start(request.environment)}
        refusal = frozen.difference({**self._surroundings, **self._start}, wanted, source="the warm server")
        if refusal:
            return refusal
        if self._baseline is None:
            try:
                os.chdir(request.cwd)
            except OSError as error:
                return f"its working directory is gone: {error}"
            self._baseline = self._warm_up(request)
        elif changed := next((path for path, before in self._files.items() if _changed_at(path) != before), ""):
            self._is_old = True
            return f"{changed} has changed; the next run is warm again"
        refusal = frozen.difference(self._baseline, frozen.settings(request.environment), source=FIRST)
        self._refusals = self._refusals + 1 if refusal else 0
        return refusal

    def _warm_up(self, request: play.Request) -> dict[str, str]:
        """Import Ansible under the settings of a request, in whose working directory it is; returns them."""
        os.environ.clear()
        os.environ.update(request.environment)
        for name in MODULES:
            importlib.import_module(name)
        files = _imported()
        _forget_collections()
        _load_plugins()
        self._config_file = str(sys.modules["ansible.constants"].CONFIG_FILE or "")
        others = [os.environ.get("ANSIBLE_CONFIG", ""), *map(os.path.expanduser, CONFIGURATION), self._config_file]
        self._files = {path: _changed_at(path) for path in [*files, *_imported(), *filter(None, others)]}
        os.chdir("/")
        del os.environ[run_group.RUN_VARIABLE]
        return frozen.settings(request.environment)


def _forget_collections() -> None:
    """Leave collections to Ansible's own loader, which takes what is imported already for loaded by itself."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "ansible_collections"]:
        del sys.modules[name]


def _load_plugins() -> None:
    loader = importlib.import_module("ansible.plugins.loader")
    loader.init_plugin_loader([])
    importlib.import_module("ansible_collections.ansible.builtin")
    for kind, names in PLUGINS.items():
        for name in names:
            getattr(loader, f"{kind}_loader").get(name, class_only=True)
    # Each run finds its collections by itself, as if nothing had been set up.
    finder = importlib.import_module("ansible.utils.collection_loader._collection_finder")
    finder.AnsibleCollectionConfig.on_collection_load -= loader._on_collection_load_handler  # noqa: SLF001 - see above
    finder._AnsibleCollectionFinder._remove()  # noqa: SLF001 - see above


def _imported() -> list[str]:
    files = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
    return sorted({file for file in files if file})


def _changed_at(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns  # noqa: PTH116 - a thousand of them for each run
    except OSError:
        return 0


def _receive(client: socket.socket) -> play.Request:
    """Read a request and its descriptors.

    Raises:
        OSError, ValueError, KeyError, TypeError: it is none; its descriptors are closed.
    """
    _, uid, _ = struct.unpack("3i", client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    if uid != os.geteuid():
        raise PermissionError(f"user {uid} may not run anything here")
    size, descriptors, _, _ = socket.recv_fds(client, 32, MOST_DESCRIPTORS)
    try:
        body = b""
        while len(body) < int(size):
            part = client.recv(65536)
            if not part:
                raise ConnectionResetError("it ends in the middle")
            body += part
        request = play.Request(**json.loads(body), descriptors=tuple(descriptors))
        request.run.stat()
        _, _, _ = descriptors[:3]
    except (OSError, ValueError, KeyError, TypeError):
        for descriptor in descriptors:
            os.close(descriptor)
        raise
    return request


def _end_with(life: int) -> None:
    """End this process, whatever it waits for, when the descriptor is closed at its other end."""

    def end(*_: object) -> NoReturn:
        sys.exit(0)

    signal.signal(signal.SIGIO, end)
    fcntl.fcntl(life, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(life, fcntl.F_SETFL, os.O_ASYNC)
    if select.select([life], [], [], 0)[0]:
        sys.exit(0)


def main() -> None:
    """Serve below the folder that is the first argument, for as long as the descriptor that is the second is open."""
    folder, life = Path(sys.argv[1]), int(sys.argv[2])
    os.set_inheritable(life, False)  # noqa: FBT003 - the signature of os
    _end_with(life)
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    # One after the other: the server of a daemon that was killed ends as soon as it notices.
    fcntl.flock(lock, fcntl.LOCK_EX)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    os.chdir(folder)
    Path(SOCKET).unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        umask = os.umask(0o077)
        listener.bind(SOCKET)
        os.umask(umask)
        listener.listen(128)
        try:
            Server(listener, folder=folder, life=life, lock=lock).serve()
        finally:
            (folder / SOCKET).unlink(missing_ok=True)


if __name__ == "__main__":
    main()
