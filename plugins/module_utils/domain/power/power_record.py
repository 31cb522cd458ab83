"""The power state of record: what changes it, how it differs from the world, and outcomes in words (seed 001)."""

from __future__ import annotations

from dataclasses import replace
from typing import List, Mapping, Optional, Sequence

from . import power

RECORDED: Mapping[power.Command, bool] = {
    power.Command.ON: True,
    power.Command.OFF: False,
    power.Command.SOFT_OFF: False,
    power.Command.EMERGENCY_OFF: False,
    power.Command.FENCE: False,
    power.Command.CONFIRM_OFF: False,
}
SENT_AGAIN = "off would be sent once more"
"""What `off --force` does to a node that reads off: its BMC has to take a command before that counts."""
_READS: Mapping[power.State, bool] = {power.State.ON: True, power.State.OFF: False}


def recorded(outcome: power.Outcome) -> Optional[bool]:
    """What is recorded after a command, None when the record stays as it is (seed 001, "Node State Changes").

    Only `on` and `off` change it, and only when the state was read back: a failure changes nothing.
    """
    return RECORDED.get(outcome.command) if outcome.confirmed else None


def read(outcome: power.Outcome) -> Optional[bool]:
    """What a look at a node after a lost command makes of its record: what its BMC says, None for nothing."""
    return _READS.get(outcome.after)


def lived(outcome: power.Outcome) -> bool:
    """Whether a command found a node alive: its BMC read on at any time, or the node itself answered."""
    return outcome.read_on or outcome.reason == power.Reason.ANSWERS.value


def was_cut(outcome: power.Outcome) -> bool:
    """Whether the command itself took the node's power: it read on before, and off is confirmed."""
    return outcome.confirmed and (outcome.before, outcome.after) == (power.State.ON, power.State.OFF)


def confirms(outcome: power.Outcome) -> bool:
    """Whether an off is a new confirmation of a node that has lived since it was known to be off.

    A reading is none. What the daemon commands by itself (`fence`, `confirm_off`) is one only if the node read on
    before it: else it is the word of the same BMC again.
    """
    if outcome.command.fences:
        return was_cut(outcome)
    return outcome.command is not power.Command.STATUS


def difference(name: str, *, powered: bool, outcome: power.Outcome) -> str:
    """How a node's record differs from what its BMC says, or why that is not known; '' when they agree."""
    reads = read(outcome)
    if reads is None:
        return f"{name} is recorded as powered {_word(powered)}, and its BMC does not report it: {outcome.text}"
    if reads is powered:
        return ""
    answer = "yes" if reads else "no"
    return (
        f"{name} is recorded as powered {_word(powered)}, and reads {_word(reads)} at its BMC: change its power, "
        f"or correct the record with `roundsman node modify {name} powered={answer}`"
    )


def shortfall(outcome: power.Outcome) -> str:
    """What is not confirmed of an outcome, in a line; '' when all of it is."""
    if outcome.confirmed:
        return ""
    return f"{outcome.name}: {outcome.text} ({outcome.reason}; it reads {outcome.after.value})"


def mismatch(outcome: power.Outcome, *, expected: str) -> str:
    """That a node reads otherwise than it should, or ''."""
    if not expected or not outcome.confirmed or outcome.after.value == expected:
        return ""
    remedy = f": run `roundsman node power {expected} {outcome.name}` first"
    return f"{outcome.name} reads {outcome.after.value} at its BMC, and should be {expected}{remedy}"


def doubts(outcomes: Sequence[power.Outcome]) -> str:
    """How the nodes read after a lost command, and what may be wrong on record, in a sentence."""
    doubt = ", and what is recorded of its power may be wrong"
    return ", ".join(
        f"{outcome.name} reads {outcome.after.value} at its BMC" + (doubt if read(outcome) is None else "")
        for outcome in outcomes
    )


def summary(outcomes: Sequence[power.Outcome]) -> str:
    """How the nodes read, in a few words: the one by name, several by their number."""
    if len(outcomes) == 1:
        return f"{outcomes[0].name} is {outcomes[0].after.value}"
    counted = [(state.value, sum(outcome.after is state for outcome in outcomes)) for state in power.State]
    return ", ".join(f"{count} {state}" for state, count in counted if count)


def told(outcome: power.Outcome) -> str:
    """What a command did to a node, in a few words; `shortfall` has the reason where it is not confirmed."""
    return _line(outcome, verdict(outcome), missing="not confirmed")


def verdict(outcome: power.Outcome) -> str:
    """What a confirmed command did: nothing, where it was sent to a node that read off and its BMC did not take it."""
    if not outcome.sent:
        return f"already {outcome.after.value}"
    is_only_read = outcome.before is power.State.OFF and outcome.command.verb is power.Command.OFF and not outcome.taken
    return "already off, and its BMC took no command" if is_only_read else "confirmed"


def foresee(status: power.Outcome, *, command: power.Command) -> power.Outcome:
    """Say from a status what a command would leave behind; it is confirmed when nothing stands against it."""
    if command is power.Command.STATUS:
        return status
    before = status.before
    against = power.objection(command, before=before)
    after = power.wanted(command) or before
    return replace(
        status,
        command=command,
        after=after if status.confirmed and against is None else before,
        confirmed=status.confirmed and against is None,
        reason=against.reason.value if against else status.reason,
        text=against.text if against else status.text,
    )


def foretold(outcome: power.Outcome) -> str:
    """What a command would do to a node, from what `foresee` gave: how it reads, and what would become of it."""
    now, then = outcome.before, f"would be {outcome.after.value}"
    if outcome.command is power.Command.CYCLE:
        then = "would be off and on again"
    elif not would_send(outcome):
        then = "nothing to do"
    elif not would_change(outcome):
        then = SENT_AGAIN
    return _line(replace(outcome, after=now), then, missing="would not be done")


def would_send(outcome: power.Outcome) -> bool:
    """Whether a command would go out, from what `foresee` gave."""
    return outcome.confirmed and power.needs_sending(outcome.command, before=outcome.before)


def would_change(outcome: power.Outcome) -> bool:
    """Whether a command would change the power, from what `foresee` gave, and not only confirm it."""
    return would_send(outcome) and (outcome.command is power.Command.CYCLE or outcome.before is not outcome.after)


def log_lines(outcomes: Sequence[power.Outcome]) -> List[str]:
    """A line for each command that went out to a BMC: what it changed, and whether that was confirmed."""
    return [
        f"power {outcome.command.value} {outcome.name}: {outcome.before.value} → {outcome.after.value}, "
        + ("confirmed" if outcome.confirmed else f"not confirmed: {outcome.text}")
        for outcome in outcomes
        if outcome.sent
    ]


def _line(outcome: power.Outcome, verdict: str, *, missing: str) -> str:
    if outcome.command is power.Command.STATUS:
        return f"{outcome.name}: {outcome.after.value}"
    return f"{outcome.name}: {outcome.after.value}, {verdict if outcome.confirmed else missing}"


def _word(powered: bool) -> str:  # noqa: FBT001 - the record's own value
    return "on" if powered else "off"
