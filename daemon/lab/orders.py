"""What persons and policies ordered, by the jobs and the audit log: what a journal has is measured by it."""

from __future__ import annotations

import datetime as dt
import math
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...plugins.plugin_utils.rounds import audit_lines
from .journals import UNSETTLED, Event

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ..jobs import values

RENEWING = frozenset({"recreate_disks", "instance_create", "instance_remove", "reinstall"})
"""Opcodes by which a person gives up what is on the disks of an instance."""
TAKING, FENCING = frozenset({"off", "cycle"}), frozenset({"fence", "confirm_off"})
"""The commands of the opcode `power` that take the power of a node, and those that are for nodes that do not answer."""
BY_HAND = "by hand"
"""The opcode of what a play by hand does."""
LATE_POWER_OFF = 120.0
"""Seconds after the end of its opcode within which a slow BMC may still carry out a command."""
LONGEST_PLAY = 600.0
"""Seconds for which a failover whose loss was stated may be at work."""


@dataclass(frozen=True)
class Stated:
    """What the audit log says that a failover may lose, before it was done.

    `by` is the opcode that did it, or the user who ran a play by hand. The loss is None where nobody could tell;
    `accepted` is the loss that a person accepted, None where nobody did, and `is_ignored` says that a person ignored
    consistency.
    """

    at: float
    instance: str
    source: str
    target: str
    seconds: float | None
    by: str = ""
    accepted: float | None = None
    is_ignored: bool = False

    def is_of(self, event: Event, *, at: float) -> bool:
        """Whether a start at a unix time is what was stated."""
        return (self.instance, self.target) == (event["instance"], event["node"]) and self.is_about(at)

    def loss(self, *, at: float) -> float:
        """How many seconds of writes a start at a unix time was said to lose at most.

        The source may write on until it is fenced, which comes after this was said.
        """
        return math.inf if self.seconds is None or self.is_ignored else self.seconds + at - self.at

    def is_about(self, at: float) -> bool:
        """Whether what happened at a unix time may be this play's."""
        return self.at - UNSETTLED <= at <= self.at + LONGEST_PLAY


TIME = len("2026-11-22 10:00:00,000")


def _unix(line: str) -> float:
    """When a line of the audit log was written."""
    return dt.datetime.strptime(line[:TIME], "%Y-%m-%d %H:%M:%S,%f").astimezone().timestamp()


def stated(audit_log: str) -> list[Stated]:
    """The failovers of which the audit log states what they may lose."""
    found = ((line, audit_lines.fields(line).get(audit_lines.FAILOVER)) for line in audit_log.splitlines())
    return [_stated(_unix(line), failover) for line, failover in found if failover]


def _stated(at: float, failover: Mapping[str, Any]) -> Stated:
    return Stated(
        at,
        failover["instance"],
        failover["source"],
        failover["target"],
        failover["seconds"],
        by=failover["by"],
        accepted=failover["accepted"],
        is_ignored=failover["ignored"],
    )


def emergencies(audit_log: str) -> list[tuple[float, float]]:
    """From when to when (unix seconds) emergency power offs stood that nobody was returning from."""
    spans: list[tuple[float, float]] = []
    for line in audit_log.splitlines():
        found = audit_lines.fields(line).get("emergency")
        is_open = bool(spans) and spans[-1][1] == math.inf
        if found == audit_lines.STANDS and not is_open:
            spans.append((_unix(line), math.inf))
        elif found in {audit_lines.RETURNS, audit_lines.LIFTED} and is_open:
            spans[-1] = (spans[-1][0], _unix(line))
    return spans


@dataclass(frozen=True)
class Orders:
    """What persons and policies ordered: the opcodes of all jobs by the names that journals give them.

    `names` are the names of nodes and instances by UUID. `clock_offset` plus the seconds of a journal is unix time.
    `stated` is what failovers said that they may lose, and `emergencies` when emergency power offs stood.
    """

    opcodes: Mapping[str, values.Opcode]
    names: Mapping[str, str] = field(default_factory=dict)
    clock_offset: float = 0.0
    stated: tuple[Stated, ...] = ()
    emergencies: tuple[tuple[float, float], ...] = ()

    @property
    def by_hand(self) -> list[Stated]:
        """What plays by hand said that their failovers may lose."""
        return [stated for stated in self.stated if stated.by not in self.opcodes]

    def kind(self, event: Event) -> str:
        """The kind of the opcode that did it, or ''."""
        found = self.opcodes.get(event.get("opcode", ""))
        return found.kind if found is not None else ""

    def at(self, event: Event) -> float:
        """When it happened (unix seconds)."""
        return float(event["ns"]) / 1e9 + self.clock_offset

    def ns(self, moment: float) -> float:
        """A unix time by the clock of the journals."""
        return (moment - self.clock_offset) * 1e9

    def opcodes_about(self, uuid_of: str, name: str) -> list[tuple[str, values.Opcode]]:
        """The opcodes whose parameter `uuid_of` names this node or instance."""
        found = self.opcodes.items()
        return [(key, opcode) for key, opcode in found if self.names.get(str(opcode.params.get(uuid_of, ""))) == name]

    def decided(self, event: Event) -> float:
        """When whoever did this had begun to (unix seconds): what was reported later could not be known then."""
        plays = [play.at for play in self.by_hand if play.is_of(event, at=self.at(event))]
        found = self.opcodes.get(event.get("opcode", ""))
        return (found.started if found is not None else max(plays, default=0.0)) or self.at(event)

    def ignores_consistency(self, event: Event, *, ended: float) -> bool:
        """Whether a person gave up the writes that a start does not find, of an instance that `ended` then (ns)."""
        if event.get("opcode") == BY_HAND:
            return any(play.is_ignored for play in self.by_hand if play.is_of(event, at=self.at(event)))
        found = self.opcodes.get(event.get("opcode", ""))
        if found is not None and found.kind == "startup":
            found = self._moved_while_down(event, ended=ended)
        return found is not None and bool(found.params.get("ignore_consistency") or found.params.get("discard"))

    def _moved_while_down(self, event: Event, *, ended: float) -> values.Opcode | None:
        """The last failover to this node since the instance ended (ns): the next start loses what it gave up."""
        since, until = ended / 1e9 + self.clock_offset, self.at(event)
        moves = [
            opcode
            for _, opcode in self.opcodes_about("instance", event["instance"])
            if opcode.kind in {"failover", "migrate"}
        ]
        done = [move for move in moves if has_succeeded(move) and since < move.started < move.ended < until]
        last = max(done, key=lambda move: move.started, default=None)
        is_here = last is not None and self.names.get(str(last.params.get("target"))) == event["node"]
        return last if is_here else None

    def stated_loss(self, event: Event) -> float | None:
        """How many seconds of writes a start was said to lose at most; infinite where a play could not tell."""
        at, found = self.at(event), self.opcodes.get(event.get("opcode", ""))
        if found is None:
            by_hand = self.by_hand if event.get("opcode") == BY_HAND else []
            return max((stated.loss(at=at) for stated in by_hand if stated.is_of(event, at=at)), default=None)
        # One that was killed after the start had no result; what it would lose was stated before.
        own = [] if has_succeeded(found) else [stated for stated in self.stated if stated.by == event["opcode"]]
        return max([possible_loss(found), *(stated.loss(at=at) for stated in own if stated.is_of(event, at=at))])

    def accepted_loss(self, event: Event) -> float | None:
        """How many seconds of writes a person gave up for a failover; None where nobody did."""
        if event.get("opcode") == BY_HAND:
            said = (stated.accepted for stated in self.by_hand if stated.is_of(event, at=self.at(event)))
            return max((float(accepted) for accepted in said if accepted is not None), default=None)
        found = self.opcodes.get(event.get("opcode", ""))
        accepted = found.params.get("max_loss") if found is not None else None
        return None if accepted is None else float(accepted)

    def allows_discard(self, event: Event) -> bool:
        """Whether a person gave up what was on this replica: by naming its node, or with all disks of the instance."""
        at = self.at(event)
        for key, opcode in self.opcodes_about("instance", event["instance"]):
            is_own = key == event.get("opcode")
            if not opcode.started or opcode.started > at + UNSETTLED:
                continue
            if opcode.kind in RENEWING and (is_own or not opcode.ended or at <= opcode.ended + UNSETTLED):
                return True
            discard = opcode.params.get("discard")
            if discard is True and is_own:
                return True
            # A pair that was told to discard a side does so when its nodes reach each other; it removes none.
            may_be_later = is_own or event["event"] == "overwritten"
            is_named = may_be_later and isinstance(discard, str) and self.names.get(discard, discard) == event["node"]
            if is_named and (not opcode.ended or at <= opcode.ended + LONGEST_PLAY):
                return True
        return False

    def is_emergency(self, event: Event) -> bool:
        """Whether an emergency power off stood then, or had ended so shortly before that a BMC may still be slow."""
        at = self.at(event)
        return any(begin - UNSETTLED <= at <= end + LATE_POWER_OFF for begin, end in self.emergencies)

    def powering_off(self, event: Event) -> list[tuple[str, values.Opcode]]:
        """The opcodes at work then, or shortly before, that may power off the node though instances run there."""
        now = self.at(event)
        return [
            (key, opcode)
            for key, opcode in self.opcodes.items()
            if opcode.started
            and opcode.started - UNSETTLED <= now
            and (not opcode.ended or now <= opcode.ended + LATE_POWER_OFF)
            and event["node"] in self._may_power_off(opcode)
        ]

    def _may_power_off(self, opcode: values.Opcode) -> set[str]:
        """The nodes (names) whose power an opcode may take though instances run there.

        A failover fences a source that does not confirm the stop; the policy for dead nodes commands `fence`.
        """
        if opcode.kind == "power" and (is_fence(opcode) or is_forced(opcode)):
            uuids = [*opcode.params.get("nodes", ()), opcode.params.get("node", "")]
        elif opcode.kind == "failover":
            uuids = [opcode.params.get("source", "")]
        else:
            return set()
        return {self.names.get(uuid, "") for uuid in uuids}


def is_fence(opcode: values.Opcode) -> bool:
    """Whether it powers off a node that is dead."""
    return opcode.kind == "power" and opcode.params.get("command") in FENCING


def is_forced(opcode: values.Opcode) -> bool:
    """Whether a person powers off a node, whatever runs there."""
    return opcode.kind == "power" and opcode.params.get("command") in TAKING and bool(opcode.params.get("force"))


def has_succeeded(opcode: values.Opcode) -> bool:
    """Whether an opcode has succeeded."""
    return opcode.status.value == "success"


def possible_loss(opcode: values.Opcode) -> float:
    """The seconds of writes that an opcode said it may lose; 0 when it said nothing, or nothing exact."""
    stated = opcode.result.get("possible_loss") if isinstance(opcode.result, dict) else None
    return float((stated or {}).get("seconds") or 0.0)


def orders(jobs: Iterable[values.Job], names: Mapping[str, str], *, audit_log: str = "") -> Orders:
    """What all these jobs and the plays of the audit log ordered.

    Names of what has left the cluster are those that the jobs keep.
    """
    jobs = list(jobs)
    kept = {uuid: name for job in jobs for uuid, name in job.names.items()}
    opcodes = {f"{job.id}/{index}": opcode for job in jobs for index, opcode in enumerate(job.opcodes)}
    return Orders(
        opcodes,
        {**kept, **names},
        clock_offset=time.time() - time.monotonic(),
        stated=tuple(stated(audit_log)),
        emergencies=tuple(emergencies(audit_log)),
    )
