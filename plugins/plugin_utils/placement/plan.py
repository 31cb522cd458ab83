"""Plans: what every planner answers. Instances move by steps, what stays is refused with its reason."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Move:
    """All steps of one instance, which is named, as nodes are.

    `f` exchanges primary and secondary, `f:NODE` runs the instance on another node that reaches its disks, `r:NODE`
    moves its secondary replica there. `after` are the instances whose moves of the same plan must have succeeded
    before; `why` says why it goes there, where there is more to say than that it goes.
    """

    instance: str
    steps: tuple[str, ...]
    after: tuple[str, ...] = ()
    why: str = ""

    @property
    def action(self) -> str:
        """Its steps as documents have them, one space between them."""
        return " ".join(self.steps)


@dataclass(frozen=True)
class Refusal:
    """What is not done, why, and what would lift it (empty when nothing would).

    `subject` is the name of the instance or node; a `permanent` refusal stands whatever happens to other nodes. One of
    a round's work names its incident (UUID).
    """

    subject: str
    reason: str
    unblock: str = ""
    permanent: bool = False
    incident: str | None = None


@dataclass(frozen=True)
class Plan:
    """Moves in an order in which they may be done, what stays, and what there is to know of the cluster after it."""

    moves: tuple[Move, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    notes: tuple[str, ...] = ()
