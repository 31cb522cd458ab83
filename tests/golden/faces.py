"""What programs and people see from outside: each answer and refusal of the API on three frozen states, and all help.

The product is called in `faces_parts/adapter.py` and `faces_parts/programs.py`. An answer that repeats what an answer
before it said has `as in` and that one's path, and beside it only what is more or different. The layout of the help is
of the installed version of Typer and of Python's argparse: after another one is installed, it is recorded again.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import logging
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.golden.faces_parts import documents, exchange, programs, reading, refusals, states, trials

if TYPE_CHECKING:
    from collections.abc import Iterator

MEMORY = Path("/dev/shm")
"""Where the states' folders are kept, if there is such a folder: durability is not the subject here."""
NOT_COVERED: dict[tuple[str, str], str] = {
    ("GET", "/2/nodes/{name}/confirm-off"): "it has the name of the user who asks, and the present",
}
"""Routes that are not asked, each with the reason."""
Routes = dict[tuple[str, str], list[int]]


def record() -> Iterator[tuple[str, str]]:
    """The recorded texts by their files, and a table of how often each route answered and refused."""
    logging.disable(logging.CRITICAL)
    try:
        with tempfile.TemporaryDirectory(prefix="faces-", dir=MEMORY if MEMORY.is_dir() else None) as folder:
            texts, table = asyncio.run(_recorded(Path(folder).resolve()))
    finally:
        logging.disable(logging.NOTSET)
    needless = sorted(route for route in NOT_COVERED if route not in table or any(table[route]))
    assert not needless, f"these routes are recorded or gone: remove them from NOT_COVERED: {needless}"
    lacking = sorted(route for route, counts in table.items() if not any(counts) and route not in NOT_COVERED)
    assert not lacking, f"these routes are neither recorded nor in NOT_COVERED: {lacking}"
    yield from texts.items()
    yield from programs.record()
    lines = (f"{path} {method}: {given} answers, {bad} refusals\n" for (method, path), (given, bad) in table.items())
    yield "routes.txt", "".join(sorted(lines))


async def _recorded(folder: Path) -> tuple[dict[str, str], Routes]:
    texts: dict[str, str] = {}
    asked: collections.Counter[tuple[str, str]] = collections.Counter()
    routes: set[tuple[str, str]] = set()
    for number, (name, state) in enumerate(states.STATES.items()):
        async with contextlib.AsyncExitStack() as stack:
            daemon = await stack.enter_async_context(state(folder / name))
            found = exchange.Exchange(daemon)
            await reading.record(found, is_first=number == 0, is_whole=name == "troubled")
            if number == 0:
                texts |= dict(await documents.record(daemon))
            if name == "troubled":
                texts["doors.txt"] = await reading.doors(daemon)
                await refusals.record_trouble(found)
                await daemon.change("PUT", "/2/queue/drained", {"drained": False})
            daemon.fail("power")
            await trials.record(found, list(trials.requests(name)))
            if number == 0:
                await refusals.record(found)
            texts |= dict(found.files(name))
            asked += found.asked
            routes |= daemon.routes()
    return texts, exchange.reached(routes, asked)
