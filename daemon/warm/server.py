"""The server that has Ansible imported and forks for each run (DESIGN, "Warm Ansible").

Started by the daemon with a folder for its socket and a descriptor whose closing ends it; runs go on without it. It
imports Ansible for the first run, under the settings of that run, and ends by itself when a file that it has imported
has changed, or after so many runs that memory would grow: the daemon starts the next one.
"""

from __future__ import annotations

import array
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
from typing import Any

from ...plugins.plugin_utils import run_group
from . import frozen, play

SOCKET = "warm.sock"
MOST_RUNS = 2000
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

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._baseline: dict[str, str] | None = None
        self._config_file = ""
        self._files: dict[str, int] = {}
        self._runs = 0

    def serve(self, life: int) -> None:
        """Serve until the descriptor `life` is closed at its other end, or this Ansible is out of date."""
        while self._runs < MOST_RUNS:
            ready, _, _ = select.select([self._listener.fileno(), life], [], [])
            if life in ready:
                return
            client, _ = self._listener.accept()
            with client, contextlib.suppress(OSError, ValueError, KeyError):
                if not self._answer(client):
                    return

    def _answer(self, client: socket.socket) -> bool:
        """Fork for one client; returns whether this server is of use for the next one."""
        client.settimeout(PATIENCE)
        request = _receive(client)
        if self._baseline is None:
            self._warm_up(request)
        elif changed := self._changed():
            client.send(f"R{changed} has changed; the next run is warm again".encode())
            return False
        client.settimeout(None)
        self._runs += 1
        if os.fork() == 0:
            self._listener.close()
            play.guard(client, request, baseline=self._baseline or {}, config_file=self._config_file)
        for descriptor in request.descriptors:
            os.close(descriptor)
        return True

    def _warm_up(self, request: play.Request) -> None:
        os.environ.clear()
        os.environ.update(request.environment)
        os.chdir(request.cwd)
        for name in MODULES:
            importlib.import_module(name)
        files = _imported()
        _forget_collections()
        _load_plugins()
        os.chdir("/")
        del os.environ[run_group.RUN_VARIABLE]
        self._baseline = frozen.settings(request.environment)
        self._config_file = str(sys.modules["ansible.constants"].CONFIG_FILE or "")
        self._files = {path: _changed_at(path) for path in [*files, *_imported(), *filter(None, [self._config_file])]}

    def _changed(self) -> str:
        return next((path for path, before in self._files.items() if _changed_at(path) != before), "")


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
    """Read a request and its three descriptors.

    Raises:
        OSError, ValueError, KeyError: it is none; its descriptors are closed.
    """
    _, uid, _ = struct.unpack("3i", client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    if uid != os.geteuid():
        raise PermissionError(f"user {uid} may not run anything here")
    size, ancillary, _, _ = client.recvmsg(32, socket.CMSG_LEN(3 * array.array("i").itemsize))
    descriptors = array.array("i")
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            descriptors.frombytes(data)
    try:
        body = b""
        while len(body) < int(size):
            body += client.recv(65536) or b"\0"
        told: dict[str, Any] = json.loads(body)
        Path(told["environment"][run_group.RUN_VARIABLE]).stat()
        first, second, third = descriptors
        return play.Request(told["arguments"], told["cwd"], told["umask"], told["environment"], (first, second, third))
    except (OSError, ValueError, KeyError):
        for descriptor in descriptors:
            os.close(descriptor)
        raise


def main() -> None:
    """Serve below the folder that is the first argument, for as long as the descriptor that is the second is open."""
    folder, life = Path(sys.argv[1]), int(sys.argv[2])
    os.set_inheritable(life, False)  # noqa: FBT003 - the signature of os
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
        Server(listener).serve(life)
    (folder / SOCKET).unlink(missing_ok=True)


if __name__ == "__main__":
    main()
