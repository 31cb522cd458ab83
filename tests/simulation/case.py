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
    "kill-at-sync": 0.003,  # the daemon is killed before or after a sync; its processes live on
    "power-loss-at-sync": 0.0015,  # the controller loses power: a part of what was not synced is left
    "kill-in-thread": 0.003,  # the daemon is killed before or after the work of a thread
    "kill-at-point": 0.02,  # and at a point of `daemon/faults.py`
    "process-never-begins": 0.02,  # the process of an opcode ends before its first act
    "process-killed": 0.02,  # or between any two of its acts
    "module-outlives-play": 0.3,  # the module of a killed one acts once more, within a minute
    "process-hangs": 0.005,  # between two of its acts, for ever
    "play-fails": 0.05,  # a task of a play fails
    "look-fails": 0.05,  # a look at what is true after a lost run does not reach its nodes
    "disk-full": 0.002,  # for up to 40 s every other file that grows finds no room
    "sync-fails": 0.0007,  # once, and the kernel takes its data for written
    "agents": 0.6,  # how often a world's nodes have agents, else reports come by themselves
    "agent-repeats": 0.02,  # an agent says again what it said
    "agent-goes-back": 0.02,  # or dates it up to an hour back
    "bmc-lies": 0.3,  # the BMC of a failing node reads off until it is commanded
    "bmc-is-dark": 0.2,  # or answers nothing
    "bmc-reader-fails": 0.03,  # the process that reads BMCs ends with an error
    "loss-noticed-late": 0.5,  # DRBD says Connected for up to 20 s after its peer, or the link, is lost
    "kill-after-record": 0.03,  # the daemon is killed soon after a play has recorded a change
    "power-loss-after-record": 0.03,  # or the controller loses power
    "power-loss-after-failed-sync": 0.5,  # the same, within a minute of a failed sync
    "second-controller": 0.2,  # how often a world with agents has a second controller
    "question-lost": 0.05,  # a question of who leads, or its answer, is lost
    "modules-take-time": 0.2,  # how often they do in a world of one controller, too
    "module-is-slow": 0.15,  # where they do: on its way to a node, or at work there, for up to 400 s
    "controllers-start-together": 0.1,  # the first of two is stopped, and both start within 50 ms
}
"""What can go wrong, and how often of the times at which it could.

A case has about 70 % of them, each at a half, once or twice its rate: what always happens hides what needs quiet.
`fences` is in frequent ones alone: how often the policy is surely `fence`.
"""
OF_CONTROLLERS = (
    "second-controller",
    "question-lost",
    "modules-take-time",
    "module-is-slow",
    "controllers-start-together",
)
"""Those of two controllers, or of whole worlds: a shaped case has them by a chance of its own."""
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
"""What users do, and how often in relation to each other.

Three are as bad as faults. `clock`: the controller's wall clock jumps up to an hour, or stands still for up to ten
minutes; the monotonic clock goes on evenly. `play-by-hand`: a play moves an instance under a lock of its own, and may
be killed at each step. `import`: a configuration of up to twenty seconds ago is imported. What those two move and
cannot record only a person can correct: such an instance is judged by its locks and jobs, no longer by where it runs.
"""
SECOND = 0.1
"""How many of the shaped cases have a second controller."""
SLOW = 0.2
"""In how many of the other shaped cases modules take time."""
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
