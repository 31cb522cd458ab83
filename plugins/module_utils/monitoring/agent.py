"""The node agent: collects, signs and publishes reports, and keeps the process that hands them out over HTTP.

This process has the key and the rights that diagnose commands need, and answers nobody; the other one has a user of its
own, neither key nor rights, and only reads files. Run as `python3 -m ...monitoring.agent`, or as the archive that the
role `node_agent` installs.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import pathlib
import pwd
import signal
import socket
import subprocess
import sys
import threading
from typing import Any, Dict, List, Optional, Sequence

from .. import log_lines, node_settings
from ..domain.values import errors
from . import agent_settings, collecting, following, front, listening, looking, observing, publishing

LOG = logging.getLogger("roundsman-agent")
LOOK_SECONDS = 1.0
_STOP_SECONDS = 5.0


class Fronts:
    """The process that faces the network; another one takes its place when the addresses change."""

    def __init__(self, folder: str, *, user: str, node: node_settings.Settings) -> None:
        self._folder = folder
        self._user = user
        self._node = node
        self._process: Optional[subprocess.Popen[bytes]] = None
        self._held: Optional[int] = None
        self._listeners: listening.Sockets = {}

    def listen(self, settings: agent_settings.Settings) -> None:
        """Listen where the settings say; if that fails, the process that is there goes on.

        Raises: errors.Failed.
        """
        old = self._process, self._held
        listeners = listening.sockets(settings.bind, settings.port, known=self._listeners)
        read, write = os.pipe()
        channel = following.start(self._node)
        passed = [read, channel.fileno(), *(listener.fileno() for listener in listeners.values())]
        words = [*_own_command(), "--front", self._folder, ",".join(settings.controllers), *map(str, passed)]
        try:
            self._process = subprocess.Popen(words, pass_fds=passed, stdin=subprocess.DEVNULL, **_as_user(self._user))
        except OSError as e:
            os.close(write)
            raise errors.Failed("the process that answers did not start: {}".format(e.strerror)) from e
        finally:
            os.close(read)
            channel.close()
        for place, listener in self._listeners.items():
            if place not in listeners:
                listener.close()
        self._held, self._listeners = write, listeners
        _end(*old)

    @property
    def is_alive(self) -> bool:
        """Whether it is there."""
        return self._process is not None and self._process.poll() is None

    def stop(self) -> None:
        """End it."""
        _end(self._process, self._held)


class Agent:
    """The agent at work."""

    def __init__(self, root_environment: Dict[str, str], *, user: str) -> None:
        """Raises: errors.RoundsmanError if the node does not know who it is, or how to work."""
        self._node = node_settings.load(root_environment)
        node_settings.key(self._node)
        self._watched = agent_settings.Watched(self._node.root / "etc/roundsman/agent.json")
        folder = self._node.root / "run/roundsman/agent"
        self._published = publishing.Reports(folder)
        self._collectors = collecting.Collectors(self._look, self._published)
        self._fronts = Fronts(str(folder), user=user, node=self._node)
        self._listen_error = ""

    def run(self, stopping: threading.Event) -> None:
        """Work until told to stop.

        Raises: errors.RoundsmanError if it cannot begin, or the process that answers has ended.
        """
        self._published.begin()
        looking.start(self._node, stopping, on_change=self._collectors.diagnose_anew)
        self._fronts.listen(self._watched.settings)
        self._collectors.follow()
        tell_systemd("READY=1")
        try:
            while not stopping.wait(LOOK_SECONDS):
                self._follow()
                self._collectors.name_hanging()
                if not self._fronts.is_alive:
                    raise errors.Failed("the process that answers has ended")
        finally:
            self._fronts.stop()

    def _follow(self) -> None:
        before, error = self._watched.settings, self._watched.error
        is_other = self._watched.refresh()
        if self._watched.error != error and self._watched.error:
            LOG.error("the settings from before are kept: %s", self._watched.error)
        if is_other and self._watched.settings.place != before.place:
            self._listen_anew()
        if is_other or self._watched.error != error:
            self._collectors.follow()

    def _listen_anew(self) -> None:
        try:
            self._fronts.listen(self._watched.settings)
            self._listen_error = ""
        except errors.Failed as e:
            self._listen_error = str(e)
            LOG.error("the addresses from before are kept: %s", e)  # noqa: TRY400 - foreseen: the text says all

    def _look(self) -> observing.Surroundings:
        error = self._watched.error or self._listen_error
        return observing.Surroundings(self._node, self._watched.settings, error)


def tell_systemd(state: str) -> None:
    """Tell the service manager, where there is one, how it stands with the agent."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if address:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            channel.sendto(state.encode(), "\0" + address[1:] if address.startswith("@") else address)


def main(words: Optional[Sequence[str]] = None) -> None:
    """Run the agent in the foreground until SIGTERM or SIGINT."""
    given = list(sys.argv[1:] if words is None else words)
    output = logging.StreamHandler()
    output.setFormatter(log_lines.Formatter("%(levelname)s: %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[output])
    if given[:1] == ["--front"]:
        front.main(given[1:])
        return
    parser = argparse.ArgumentParser(prog="roundsman-agent", description="Reports how this node is, over signed HTTP.")
    parser.add_argument("--user", default="", help="who answers over the network, where this runs as root")
    parser.add_argument("--check", metavar="FILE", help="only say whether these settings can be used")
    options = parser.parse_args(given)
    if options.check is not None:
        _check(pathlib.Path(options.check))
        return
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    try:
        Agent(dict(os.environ), user=options.user).run(stopping)
    except (errors.RoundsmanError, OSError) as e:
        sys.exit("roundsman-agent: {}".format(e))


def _check(path: pathlib.Path) -> None:
    try:
        agent_settings.read(path)
    except errors.RoundsmanError as e:
        sys.exit("roundsman-agent: {}".format(e))


def _own_command() -> List[str]:
    """The command that runs this program, be it an archive or a module."""
    specification = sys.modules["__main__"].__spec__
    name = specification.name if specification is not None else "__main__"
    program = [str(pathlib.Path(sys.argv[0]).resolve())] if name == "__main__" else ["-m", name]
    return [sys.executable, *(["-I"] if sys.flags.isolated else []), *program]


def _as_user(name: str) -> Dict[str, Any]:
    if not name or os.geteuid() != 0:
        return {}
    try:
        entry = pwd.getpwnam(name)
    except KeyError as e:
        raise errors.Failed("there is no user {}".format(name)) from e
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


def _end(process: Optional[subprocess.Popen[bytes]], held: Optional[int]) -> None:
    if held is not None:
        os.close(held)
    if process is None:
        return
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_STOP_SECONDS)


if __name__ == "__main__":
    main()
