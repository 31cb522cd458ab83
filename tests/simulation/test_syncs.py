"""Which files the daemon makes durable while its event loop waits, over seeds in which much happens."""

from __future__ import annotations

import dataclasses
import os
import random
import re
from pathlib import Path
from typing import TYPE_CHECKING

from tests.simulation import case, patches, trial

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    from tests.simulation.world import World

SEEDS = (1, 2)
DONE = ("move", "move-many", "delay", "evacuate", "tag", "report", "cancel", "priority", "drain-queue", "play-by-hand")
APART = 20.0
"""Seconds from one step to the next."""
ON_LOOP = frozenset(
    {
        "queue",
        *("rounds", "rounds/N.json"),
    }
)
"""What is still made durable by the event loop itself; every other file has a thread for it."""


def test_the_event_loop_waits_for_the_disk_for_these_files_only(monkeypatch: pytest.MonkeyPatch) -> None:
    on_loop: set[str] = set()

    def counting(world: World) -> Callable[[int], None]:
        sync = patches._fsync(world)

        def fsync(descriptor: int) -> None:
            if world.loop is not None and world.acting is None and not (world.is_dead or world.in_thread):
                path = Path(f"/proc/self/fd/{descriptor}").readlink()
                # Others are files of nodes, whose agents have no loop here.
                on_loop.update({_name(path, world)} if path.is_relative_to(world.root) else ())
            sync(descriptor)

        return fsync

    counted = (dataclasses.replace(each, make=counting) if each.name == "fsync" else each for each in patches.PATCHES)
    monkeypatch.setattr(patches, "PATCHES", tuple(counted))
    for seed in SEEDS:
        done = random.Random(seed).sample([*DONE, *DONE], 2 * len(DONE))
        steps = tuple(case.Step(number, APART * number, do) for number, do in enumerate(done))
        assert trial.play(case.Case(seed, steps, {"agents": 1.0})).violations == ()
    assert on_loop == ON_LOOP


def _name(path: Path, world: World) -> str:
    short = re.sub(r"(^|/)\.(.+?)\.\d+\.new$", r"\1\2", os.path.relpath(path, world.root / "var/lib/roundsman"))
    return re.sub(r"\d+", "N", short)
