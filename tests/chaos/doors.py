"""The doors by which operators come in: the socket, the remote API, the command line, and plays by hand."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
from ansible_collections.roundsman.cluster.plugins.plugin_utils import ansible_runs, daemon_client

from tests.chaos import victims

if TYPE_CHECKING:
    import random

    from tests.chaos.chronicle import Chronicle
    from tests.chaos.services import Services
    from tests.integration import labs

ANSWER_SECONDS = 30.0
LONGEST = 180.0
"""Seconds after which a command or a play by hand is ended, as an operator would who has waited long enough."""
MOST = 3
"""Commands and plays that run at the same time."""
NO_ROOM = "No space left on device"
PROGRAM = Path(sys.executable).with_name("roundsman")
PLAYBOOK = Path(sys.executable).with_name("ansible-playbook")


@dataclass
class ByHand:
    """A command or a play that runs."""

    name: str
    process: subprocess.Popen[bytes]
    output: Path
    began: float
    longest: float = LONGEST


class Doors:
    """Asks for things by a door that chance chooses; a refusal is an answer, a defect is not.

    `defects` are the sentences about answers that nobody may get. While `is_full` there may be no room on the disk.
    `kinds` are the doors to choose from. What commands and plays print is kept in `folder`; with `is_copied` the lab
    has several controllers, and they are about the one whose lab this is.
    """

    def __init__(
        self,
        lab: labs.Running,
        services: Services,
        chance: random.Random,
        chronicle: Chronicle,
        *,
        folder: str = "by-hand",
        is_copied: bool = False,
    ) -> None:
        self._lab, self._services, self._chance, self._chronicle = lab, services, chance, chronicle
        self._by_hand: list[ByHand] = []
        self._number = 0
        self._folder = lab.lab.folder / folder
        self._folder.mkdir()
        self._is_copied = is_copied
        self.kinds: tuple[str, ...] = ("socket", "rapi")
        self.is_full = False
        self.defects: list[str] = []

    def get(self, path: str) -> Any:
        """What the daemon answers on its socket, or None when it does not."""
        answer = self._on_socket("GET", path, None)
        return answer.json() if answer is not None and answer.is_success else None

    def ask(self, kind: str, method: str, path: str, body: Any = None, *, door: str = "") -> Any:
        """Ask for something by the socket or the remote API; returns the answer, None when it was not accepted."""
        door = door or self._chance.choice(self.kinds)
        asked = self._on_socket if door == "socket" else self._on_rapi
        answer = asked(method, path, body)
        if answer is None:
            self._chronicle.count("requests", "no answer", f"{door}: {method} {path}")
            return None
        text = f"{door}: {method} {path} {body or ''}: {answer.status_code} {answer.text[:200]}"
        if answer.status_code == 507 and self.is_full and NO_ROOM in answer.text:
            self._chronicle.count("requests", "no room", text)
        elif answer.is_server_error and answer.status_code not in {502, 503, 504}:
            self._chronicle.count("requests", "defect", text)
            self.defects.append(text)
        else:
            self._chronicle.count("requests", kind if answer.is_success else "refused", text)
        return answer.json() if answer.is_success else None

    def submit(self, kind: str, method: str, path: str, body: Any = None) -> int:
        """Ask on the socket; returns the number of the job, 0 where there is none."""
        answer = self.ask(kind, method, path, body, door="socket")
        number = answer["id"] if isinstance(answer, dict) and "id" in answer else answer
        return number if isinstance(number, int) and not isinstance(number, bool) else 0

    def send(self, method: str, path: str, content: bytes) -> int | None:
        """Send any bytes as JSON to the remote API; returns the status of the answer, None when there was none."""
        headers = {"content-type": "application/json"}
        with contextlib.suppress(httpx.HTTPError, OSError), self._services.rapi("wim") as client:
            answer = client.request(method, path, content=content, headers=headers, timeout=ANSWER_SECONDS)
            return answer.status_code
        return None

    def command(self, *words: str, longest: float = LONGEST) -> ByHand | None:
        """Run `roundsman` against the lab, and do not wait for it; None where enough are at work already."""
        folder = self._lab.where.root if self._is_copied else self._lab.lab.folder
        command = [str(PROGRAM), "--dir", str(folder), *words]
        return self._start(f"roundsman {' '.join(words)}", command, longest=longest)

    def play(self, name: str, *words: str) -> None:
        """Run a playbook by hand, and do not wait for it."""
        name_of_copy = self._lab.where.root.name
        own = self._lab.lab.folder / f"inventory-{name_of_copy}"
        inventory = own if self._is_copied and own.exists() else self._lab.lab.folder / "inventory"
        command = [str(PLAYBOOK), "-i", str(inventory), str(ansible_runs.PLAYBOOKS / name), *words]
        self._start(f"ansible-playbook {name} {' '.join(words)}", command)

    def pids(self) -> list[int]:
        """The processes of commands and plays that run."""
        return victims.descendants([one.process.pid for one in self._by_hand if one.process.poll() is None])

    def tend(self) -> None:
        """See which commands and plays have ended, and end those that take too long."""
        for one in list(self._by_hand):
            if one.process.poll() is None and time.monotonic() - one.began > one.longest:
                self._end(one)
            code = one.process.poll()
            if code is None:
                continue
            self._by_hand.remove(one)
            output = one.output.read_text(errors="replace")
            last = " ".join(output.strip().splitlines()[-1:])[:200]
            self._chronicle.count("by hand", f"exit status {code}" if code >= 0 else "killed", f"{one.name}: {last}")
            if "Traceback (most recent call last)" in output and NO_ROOM not in output:
                self.defects.append(f"{one.name} printed a traceback ({one.output})")

    def end(self) -> None:
        """End all commands and plays."""
        for one in self._by_hand:
            if one.process.poll() is None:
                self._end(one)
        self.tend()

    def _start(self, name: str, command: list[str], *, longest: float = LONGEST) -> ByHand | None:
        if len(self._by_hand) >= MOST:
            return None
        self._number += 1
        output = self._folder / f"{self._number}.out"
        environment = {**os.environ, "COLUMNS": "200", "NO_COLOR": "1", "ANSIBLE_NOCOLOR": "1"}
        with output.open("wb") as stream:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )
        self._by_hand.append(ByHand(name, process, output, time.monotonic(), longest))
        self._chronicle.note(f"begins: {name}")
        return self._by_hand[-1]

    def _end(self, one: ByHand) -> None:
        for pid in victims.descendants([one.process.pid]):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        one.process.wait(20)

    def _on_socket(self, method: str, path: str, body: Any) -> httpx.Response | None:
        with (
            contextlib.suppress(httpx.HTTPError, OSError),
            daemon_client.connected(self._lab.where.socket, seconds=ANSWER_SECONDS) as client,
        ):
            return client.request(method, path, json=body)
        return None

    def _on_rapi(self, method: str, path: str, body: Any) -> httpx.Response | None:
        with contextlib.suppress(httpx.HTTPError, OSError), self._services.rapi("wim") as client:
            return client.request(method, path, json=body, timeout=ANSWER_SECONDS)
        return None
