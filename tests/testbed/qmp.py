"""QEMU's own protocol, as much of it as a bed needs."""

from __future__ import annotations

import contextlib
import json
import os
import socket
from typing import IO, TYPE_CHECKING, Any

from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Monitor:
    """A conversation with one QEMU."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def ask(self, command: str, **arguments: Any) -> Any:
        """What a command gives.

        Raises:
            Failed: QEMU refused it, or ended meanwhile.
        """
        try:
            self._stream.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
            self._stream.flush()
            for line in self._stream:
                answer = json.loads(line)
                if "error" in answer:
                    raise errors.Failed(f"QEMU: {command}: {answer['error']['desc']}")
                if "return" in answer:
                    return answer["return"]
        except OSError as error:
            raise errors.Failed(f"QEMU: {command}: {error}") from error
        raise errors.Failed(f"QEMU ended at {command}")

    def wait_for(self, event: str) -> dict[str, Any]:
        """The next event of that name.

        Raises:
            Failed: QEMU ended meanwhile.
        """
        for line in self._stream:
            told: dict[str, Any] = json.loads(line)
            if told.get("event") == event:
                return told
        raise errors.Failed(f"QEMU ended before {event}")


@contextlib.contextmanager
def connected(path: Path, *, seconds: float = 60) -> Iterator[Monitor]:
    """A conversation over a socket; `seconds` limits the wait for each line.

    Raises:
        Failed: nobody answers there.
    """
    # The path of a socket is short, that of a folder is not.
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.settimeout(seconds)
            made.connect(f"/proc/self/fd/{folder}/{path.name}")
            with made.makefile("rw", encoding="utf-8") as stream:
                stream.readline()
                one = Monitor(stream)
                one.ask("qmp_capabilities")
                yield one
    except OSError as error:
        raise errors.Failed(f"{path}: QEMU does not answer: {error}") from error
    finally:
        os.close(folder)
