"""What the disks of an instance need, from what both of its nodes told: verdicts as plays show and follow them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ..module_utils.domain.disks.drbd import Side
from ..module_utils.domain.disks.drbd_pairs import Action, Kind, Pair, Step, Unread, Verdict, Where
from ..module_utils.domain.values import errors
from ..module_utils.storage import drbd_resource, drbd_sides
from .disks import drbd_repairs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ..module_utils.domain.disks import drbd_pairs

_SIDES, _UNREAD = "sides", "unread"


@dataclass(frozen=True)
class Judged:
    """A resource and its verdict."""

    resource: str
    verdict: Verdict

    @property
    def text(self) -> str:
        """The verdict in a line."""
        found = self.verdict
        parts = [f"{self.resource}: {found.kind.value}"]
        parts += [found.reason] if found.reason else []
        parts += [_worded(step) for step in found.steps]
        return ", ".join(parts) + (f"; needed: {found.unblock}" if found.unblock else "")

    @property
    def is_replacement(self) -> bool:
        """Whether nothing less than another secondary repairs it."""
        return any(step.action is Action.REPLACE for step in self.verdict.steps)


def resources(instance: Mapping[str, Any]) -> list[str]:
    """The DRBD resources of an instance as plays know it."""
    return [
        drbd_resource.name(instance["name"], instance["uuid"], number, adopted=disk["name"] or "")
        for number, disk in enumerate(instance["disks"])
    ]


def judge(
    names: Sequence[str],
    *,
    primary: Mapping[str, Any],
    secondary: Mapping[str, Any],
    tried: Sequence[Mapping[str, str]],
    undone: Sequence[Mapping[str, str]] = (),
    discard: Where | None = None,
) -> list[Judged]:
    """The verdict on each resource, from what the module `drbd_info` answered on its two nodes.

    An answer without sides is that of a node that could not be asked. `tried` are the steps that were done already:
    one that is needed again did not help, and those of them that are `undone` ended in an error. `discard` is the node
    whose writes a person gives up after a split brain.

    Raises:
        InvalidInput: an answer is not that of `drbd_info`, or a step is none.
    """
    found, sides = [], {name: _told(name, primary) for name in names}
    for name in names:
        failed, ended = (
            frozenset(_step(step) for step in steps if step["resource"] == name) for steps in (tried, undone)
        )
        pair = Pair(sides[name], _told(name, secondary), failed, discard, ended)
        verdict = drbd_repairs.decide(pair)
        reason = ": ".join((verdict.reason, *_errors(name, primary, secondary)))
        found.append(Judged(name, replace(verdict, reason=reason)))
    return _kept_where_another_is_not_whole(found, sides.values())


def _kept_where_another_is_not_whole(found: list[Judged], primary: Iterable[drbd_pairs.Told]) -> list[Judged]:
    """No disk of the secondary is given up in full where the primary has not all disks of the instance."""
    if all(isinstance(side, Side) and side.is_up_to_date for side in primary):
        return found
    unblock = "the other disks of the instance repaired first, which the lines beside this one name"
    return [
        Judged(each.resource, Verdict(Kind.REFUSED, each.verdict.reason, unblock=unblock))
        if any(step.action is Action.GIVE_UP for step in each.verdict.steps)
        else each
        for each in found
    ]


def as_result(
    judged: Sequence[Judged], nodes: Mapping[Where, str], *, tried: Sequence[Mapping[str, str]] = ()
) -> dict[str, Any]:
    """What a play gets: a line for each resource, the steps to do on which nodes, and what is left to people."""
    steps = [
        {
            "resource": entry.resource,
            "action": step.action.name.lower(),
            "where": step.where.value,
            "node": nodes[step.where],
        }
        for entry in judged
        if entry.verdict.kind is Kind.REPAIR and not entry.is_replacement
        for step in entry.verdict.steps
    ]
    return {
        "resources": [entry.resource for entry in judged],
        "lines": [entry.text for entry in judged],
        "tried": [f"{step['resource']}: tried to {_step(step).action.value} on {step['node']}" for step in tried],
        "steps": steps,
        "refused": [entry.text for entry in judged if entry.verdict.kind is Kind.REFUSED],
        "replaced": [entry.text for entry in judged if entry.is_replacement],
        "waiting": [entry.text for entry in judged if entry.verdict.kind is Kind.WAITING],
    }


def node_to_discard(name: str, nodes: Mapping[Where, str]) -> Where | None:
    """Which of the two nodes has this name; None without a name.

    Raises:
        InvalidInput: neither has it.
    """
    found = next((where for where, node in nodes.items() if node == name), None)
    if name and found is None:
        raise errors.InvalidInput(f"discard: {name!r} has no replica; use {' or '.join(nodes.values())}")
    return found


def _worded(step: Step) -> str:
    where = "" if step.action is Action.REPLACE else f" on the {step.where.value}"
    return step.action.value + where


def _errors(name: str, *answers: Mapping[str, Any]) -> list[str]:
    """What the nodes said that could not be asked, or could not read this resource."""
    said = [
        str(answer.get("msg", "") if answer.get(_SIDES) is None else (answer.get(_UNREAD) or {}).get(name, ""))
        for answer in answers
    ]
    return [" ".join(message.split()) for message in said if message]


def _told(name: str, answer: Mapping[str, Any]) -> drbd_pairs.Told:
    if answer.get(_SIDES) is None:
        return Unread.UNHEARD
    if name in (answer.get(_UNREAD) or {}):
        return Unread.UNREADABLE
    sides = [drbd_sides.decode(side) for side in answer[_SIDES]]
    return next((side for side in sides if side.resource == name and side.volumes), Unread.DOWN)


def _step(told: Mapping[str, str]) -> Step:
    try:
        return Step(Action[told["action"].upper()], Where(told["where"]))
    except (KeyError, ValueError) as error:
        raise errors.InvalidInput(f"this is no step of a repair: {error}") from error
