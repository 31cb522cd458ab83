"""What a daemon makes of a state folder of the version of before: what it says of it, first and once it has worked.

The folder is an input: `recorded/state_folder/folder`, made once by `state_parts/making.py`, is never written again.
The product is called in `state_parts/starting.py`, on a copy. The texts:
- `before.txt`: what the daemon says before anything works;
- `after_start.txt`: once it has taken up its jobs and its round, and nothing changes any more;
- `later.txt`: once the pause and the filters that held jobs are removed, and nothing changes any more.
"""

from __future__ import annotations

import asyncio
import difflib
import json
import logging
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.golden import traces
from tests.golden.faces_parts import text
from tests.golden.state_parts import starting

if TYPE_CHECKING:
    from collections.abc import Iterator

KEPT = traces.RECORDED / "state_folder/folder"
MEMORY = Path("/dev/shm")
"""Where the copy is, if there is such a folder: durability is not the subject here."""
PATHS = (
    *("/2/queue", "/2/locks", "/2/filters?bulk=1", "/1/health", "/2/info", "/1/rounds", "/1/reports"),
    *("/2/incidents", "/2/plan"),
)
CONFIGURATION = frozenset({"/2/config", "/2/info"})
MOVING = frozenset({"serial_no", "mtime", "checksum"})
"""What is left out of them, for it tells how many commits there were."""


def record() -> Iterator[tuple[str, str]]:
    """The three texts."""
    logging.disable(logging.CRITICAL)
    try:
        with tempfile.TemporaryDirectory(prefix="state-", dir=MEMORY if MEMORY.is_dir() else None) as folder:
            yield from asyncio.run(_recorded(Path(folder).resolve() / "lab")).items()
    finally:
        logging.disable(logging.NOTSET)


async def _recorded(folder: Path) -> dict[str, str]:
    texts = {}
    async with starting.started(KEPT, folder) as started:
        account = _Account(started)
        texts["before.txt"] = await account.write(first=("/2/config", "/2/config/history"))
        started.resume()
        await started.settle()
        texts["after_start.txt"] = await account.write()
        for rule in await started.daemon.value("/2/filters?bulk=1"):
            if rule["action"] != "CONTINUE":
                await started.daemon.change("DELETE", f"/2/filters/{rule['uuid']}")
        await started.daemon.change("PUT", "/2/pause", {"reason": ""})
        await started.settle()
        texts["later.txt"] = await account.write()
    return texts


class _Account:
    """What the daemon says, each time as the answers that differ from the time before."""

    def __init__(self, started: starting.Started) -> None:
        self._started = started
        self._said: dict[str, str] = {}
        self._configuration: list[str] = []

    async def write(self, *, first: tuple[str, ...] = ()) -> str:
        """The text of now."""
        daemon = self._started.daemon
        jobs = [job["id"] for path in ("/2/jobs", "/2/jobs?archived=1") for job in await daemon.value(path)]
        paths = [*(f"/2/jobs/{number}{rest}" for number in sorted(jobs) for rest in ("", "/log?after=0")), *PATHS]
        blocks = [await self._differing(path) for path in [*first, *paths]]
        gone = [f"## {path}\ngone\n" for path in self._said if path.startswith("/2/jobs/") and path not in paths]
        runs = ["## runs that were started\n" + "".join(f"{run}\n" for run in self._started.runs)]
        return "\n".join(filter(None, [*blocks, *gone, await self._changed(), *runs]))

    async def _differing(self, path: str) -> str:
        found = await self._started.daemon.ask("GET", path)
        value = json.loads(found.body)
        shown = self._named(_without(value) if path in CONFIGURATION else value)
        is_known = self._said.get(path) == shown or ("/log?" in path and not value["entries"])
        self._said[path] = shown
        return "" if is_known else f"## {path}\n{found.status}\n{shown}\n"

    async def _changed(self) -> str:
        content = _without(await self._started.daemon.value("/2/config"))
        lines = [*self._named(content).splitlines()]
        before, self._configuration = self._configuration, lines
        diff = difflib.unified_diff(before, lines, "configuration before", "configuration now", lineterm="", n=2)
        return "## what has changed in /2/config\n" + "".join(f"{line}\n" for line in diff if before)

    def _named(self, value: Any) -> str:
        return text.dump(text.parse(self._started.daemon.names(json.dumps(value, ensure_ascii=False))))


def _without(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without(inner) for name, inner in value.items() if name not in MOVING}
    return [_without(inner) for inner in value] if isinstance(value, list) else value
