"""A case: all that one run of the simulation follows from. A seed makes one; a folder of `cases` keeps one."""

from __future__ import annotations

import dataclasses
import json
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

FAULTS: dict[str, float] = {
    "kill-at-sync": 0.003,
    "power-loss-at-sync": 0.0015,
    "kill-in-thread": 0.003,
    "kill-at-point": 0.02,
    "process-never-begins": 0.02,
    "process-killed": 0.02,
    "module-outlives-play": 0.3,
    "process-hangs": 0.005,
    "play-fails": 0.05,
    "look-fails": 0.05,
    "disk-full": 0.002,
    "sync-fails": 0.0007,
    "agents": 0.6,
    "agent-repeats": 0.02,
    "agent-goes-back": 0.02,
    "bmc-lies": 0.3,
    "bmc-is-dark": 0.2,
    "bmc-reader-fails": 0.03,
    "loss-noticed-late": 0.5,
    "kill-after-record": 0.03,
    "power-loss-after-record": 0.03,
    "power-loss-after-failed-sync": 0.5,
    "second-controller": 0.2,
    "question-lost": 0.05,
    "modules-take-time": 0.2,
    "module-is-slow": 0.15,
    "controllers-start-together": 0.1,
}
"""What can go wrong, and how often of the times at which it could: docs/decisions/simulation.md says what each is."""
OF_CONTROLLERS = (
    "second-controller",
    "question-lost",
    "modules-take-time",
    "module-is-slow",
    "controllers-start-together",
)
"""Those of two controllers: a shaped case has them by a chance of its own."""
STEPS: dict[str, int] = {
    "move": 12,
    "move-many": 4,
    "failover": 3,
    "start-or-stop": 3,
    "delay": 4,
    "tag": 4,
    "untag": 2,
    "evacuate": 4,
    "drain-node": 2,
    "cancel": 4,
    "priority": 2,
    "filter": 1,
    "drain-queue": 1,
    "restart": 1,
    "kill": 1,
    "power-loss": 1,
    "report": 3,
    "report-all": 1,
    "node-fails": 1,
    "node-hangs": 1,
    "node-isolated": 1,
    "node-returns": 1,
    "node-reboots": 1,
    "power-off-silent": 1,
    "fail-over-silent": 1,
    "link-breaks": 2,
    "links-heal": 1,
    "disks": 1,
    "replace-disks": 2,
    "repair-disks": 1,
    "ask-plan": 2,
    "pause-rounds": 1,
    "clock": 1,
    "import": 1,
    "play-by-hand": 3,
}
"""What users do, and how often in relation to each other."""
SECOND = 0.1
"""How many of the shaped cases have a second controller."""
SLOW = 0.2
"""In how many of the others modules take time."""
BUSY, QUIET = 5.0, 300.0
"""Seconds from one step to the next: often none to the first of these, sometimes up to the second."""


@dataclass(frozen=True)
class Step:
    """What users do at a moment (seconds from the start); `number` decides about what, and stays when others go."""

    number: int
    at: float
    do: str


@dataclass(frozen=True)
class Case:
    """A seed with the rates of its faults and the steps of its users; `text` says what it once showed.

    `finds` names the bug of the past that violates it when it is put back, if there is one.
    """

    seed: int
    steps: tuple[Step, ...]
    faults: Mapping[str, float] = field(default_factory=lambda: dict(FAULTS))
    text: str = ""
    finds: str = ""

    def without_fault(self, name: str) -> Case:
        return dataclasses.replace(self, faults={fault: rate for fault, rate in self.faults.items() if fault != name})

    def save(self, folder: Path) -> None:
        """Write the case into a folder of its own."""
        folder.mkdir(parents=True, exist_ok=True)
        steps = [f"{step.number} {step.at} {step.do}" for step in self.steps]
        told = {"text": self.text, "finds": self.finds, "seed": self.seed, "faults": dict(self.faults), "steps": steps}
        (folder / "case.json").write_text(json.dumps(told, indent=1) + "\n")


def of_seed(seed: int, *, steps: int = 40) -> Case:
    """The case that a seed makes: a part of the faults, and so many steps.

    The chances of each fault and of the steps are their own: a new fault changes no step, and no other fault.
    """
    faults = {name: rate * chosen for name, rate in FAULTS.items() if (chosen := _often(seed, name))}
    rng = random.Random(f"{seed}/steps")
    at, made = 0.0, []
    for number in range(steps):
        at += rng.random() * (QUIET if rng.random() < 0.1 else BUSY)
        (do,) = rng.choices(list(STEPS), list(STEPS.values()))
        made.append(Step(number, round(at, 3), do))
    return Case(seed, tuple(made), faults)


def shaped(seed: int) -> Case:
    """A case of few kinds of steps and few faults, which are frequent: it finds what needs the same again and again."""
    rng = random.Random(f"{seed}/shape")
    kinds = rng.sample(list(STEPS), rng.choice((2, 3, 4, 5)))
    chosen = rng.sample([name for name in FAULTS if name not in {"agents", *OF_CONTROLLERS}], rng.choice((0, 1, 2, 3)))
    faults = {name: min(1.0, FAULTS[name] * rng.choice((5, 20, 50))) for name in chosen}
    if rng.random() < 0.8:
        faults["agents"] = 1.0
    if random.Random(f"{seed}/second").random() < SECOND:
        faults |= {"agents": 1.0, "second-controller": 1.0, "question-lost": 0.2, "module-is-slow": 0.3}
    elif random.Random(f"{seed}/modules").random() < SLOW:
        faults |= {"modules-take-time": 1.0, "module-is-slow": 0.3}
    steps = of_seed(seed, steps=rng.choice((10, 15, 25))).steps
    return Case(seed, tuple(dataclasses.replace(step, do=rng.choice(kinds)) for step in steps), faults)


def _often(seed: int, fault: str) -> float:
    """How many times its rate a fault has in a case; 0 for none."""
    rng = random.Random(f"{seed}/rate/{fault}")
    return rng.choice((0.5, 1, 2)) if rng.random() < 0.7 else 0.0


def load(folder: Path) -> Case:
    """The case of a folder."""
    told = json.loads((folder / "case.json").read_text())
    steps = [line.split(" ", 2) for line in told["steps"]]
    made = tuple(Step(int(number), float(at), do) for number, at, do in steps)
    return Case(told["seed"], made, told["faults"], told["text"], told.get("finds", ""))
