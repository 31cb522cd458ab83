"""What was seen of nodes that are to lose their power, and who keeps it for that; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..module_utils.domain.power import power
from .cluster import cluster as clusters

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

UNSEEN = (
    "{} does not answer, and does not read off at its BMC: instances may run there that the configuration does not "
    "know of. Restore its network link, or use --force"
)
ANSWERS = "it is not fenced for its silence: {}"
RUNNING = "{} still runs {}, which the configuration does not know of: stop it first"


def unreachable(looks: Mapping[str, Mapping[str, Any]]) -> set[str]:
    """Those nodes that could not be reached."""
    return {name for name, look in looks.items() if look.get("unreachable")}


def objections(looks: Mapping[str, Mapping[str, Any]], *, read: Iterable[power.Outcome]) -> dict[str, str]:
    """Who keeps its power, and why; `read` is what the BMCs of the unreachable ones say."""
    found = {outcome.name: UNSEEN.format(outcome.name) for outcome in read if outcome.after is not power.State.OFF}
    for name, look in looks.items():
        if look.get("running"):
            found[name] = RUNNING.format(name, ", ".join(look["running"]))
        elif look.get("failed") and not look.get("unreachable"):
            found[name] = f"{name} could not be looked at: {look.get('msg', 'no message')}"
    return found


def refused(command: power.Command, name: str, text: str) -> power.Outcome:
    """The outcome of a node that was left alone."""
    failure = power.Failure(power.Reason.REFUSED, text)
    return power.judge(command, name=name, before=power.State.UNKNOWN, seconds=0.0, failure=failure)


def answering(command: power.Command, asked: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Those nodes that showed a sign of life, and which; a question without an answer counts as one.

    An open port is one only for a node that may read on: whoever took the address of one that is off has ports, too.
    """
    found = {name: told.get("alive", f"not known: {told.get('msg', 'no message')}") for name, told in asked.items()}
    if command is not power.Command.CONFIRM_OFF:
        found = {name: alive or asked[name].get("accepts", "") for name, alive in found.items()}
    return {name: str(alive) for name, alive in found.items() if alive}


def answers(command: power.Command, name: str, sign: str) -> power.Outcome:
    """The outcome of a node that was not fenced, because it is alive."""
    failure = power.Failure(power.Reason.ANSWERS, ANSWERS.format(sign))
    return power.judge(command, name=name, before=power.State.UNKNOWN, seconds=0.0, failure=failure)


def ordered(outcomes: Iterable[power.Outcome]) -> Sequence[power.Outcome]:
    """Outcomes by the names of their nodes."""
    return sorted(outcomes, key=lambda outcome: clusters.natural(outcome.name))
