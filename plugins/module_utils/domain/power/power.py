"""Power of a node out of band: what is asked of a BMC, and what counts as done.

The state of the world is what the BMC says; a command is done when the state read back says so.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from enum import Enum
from typing import Any, Dict, Mapping, Optional, Sequence

from ..values import errors

LAST_PORT = 65535
NO_OOB = "Node {} does not support OOB commands"
FENCE_READS = 2
"""So many times in a row a node reads off after its BMC took an off, before instances may start elsewhere."""


class Command(Enum):
    """What a BMC can be asked; `cycle` and `soft_off` are sent at most once, the others may be repeated.

    `soft_off` asks the node's own system to shut down, which takes its time, or does not happen. `emergency_off` is
    `off` that is sent to a node that reads off already, too: its BMC may be wrong. `fence` is that, and is done only
    when the BMC took the off (`was_commanded`) and reads off twice in a row afterwards; `confirm_off` is `fence` for a
    node that reads off: one that reads on, before or in between, is sent no more.
    """

    STATUS = "status"
    ON = "on"
    OFF = "off"
    CYCLE = "cycle"
    SOFT_OFF = "soft_off"
    EMERGENCY_OFF = "emergency_off"
    FENCE = "fence"
    CONFIRM_OFF = "confirm_off"

    @property
    def verb(self) -> Command:
        """The command that goes to the BMC for it."""
        return Command.OFF if self is Command.EMERGENCY_OFF or self.fences else self

    @property
    def fences(self) -> bool:
        """Whether instances may start elsewhere once it is confirmed: the BMC took an off, and read off afterwards."""
        return self in {Command.FENCE, Command.CONFIRM_OFF}

    @property
    def repeats(self) -> bool:
        """Whether it may go out again when nobody knows whether it arrived."""
        return self not in {Command.CYCLE, Command.SOFT_OFF}


class State(Enum):
    """What a BMC says about its node; a silent BMC is a state of its own, `unknown`."""

    ON = "on"
    OFF = "off"
    UNKNOWN = "unknown"


class Answer(Enum):
    """What became of one attempt to send a command, as far as its driver can tell.

    `accepted`: the BMC took it. `already`: the BMC said in its own words that the node is in that state already.
    `lost`: it went out, and no answer came. `rejected`: anything else, also that it never went out.
    """

    ACCEPTED = "accepted"
    ALREADY = "already"
    LOST = "lost"
    REJECTED = "rejected"


class Reason(Enum):
    """Why a command is not confirmed, in one word."""

    TIMEOUT = "timeout"
    UNREACHABLE = "unreachable"
    AUTH = "auth"
    CIPHER = "cipher"
    BUSY = "busy"
    REFUSED = "refused"
    NOT_OFF = "not_off"
    NOT_ON = "not_on"
    UNCONFIRMED = "unconfirmed"
    UNCONFIGURED = "unconfigured"
    DRIVER = "driver"
    ANSWERS = "answers"


# What a pause can heal; a refusal or a wrong password only gets worse when it is repeated.
PASSING = frozenset({Reason.TIMEOUT, Reason.UNREACHABLE, Reason.BUSY})

_WANTED: Mapping[Command, State] = {
    Command.ON: State.ON,
    Command.OFF: State.OFF,
    Command.SOFT_OFF: State.OFF,
    Command.EMERGENCY_OFF: State.OFF,
    Command.FENCE: State.OFF,
    Command.CONFIRM_OFF: State.OFF,
}
_MISSED: Mapping[Command, Reason] = {
    Command.STATUS: Reason.TIMEOUT,
    Command.ON: Reason.NOT_ON,
    Command.OFF: Reason.NOT_OFF,
    Command.CYCLE: Reason.UNCONFIRMED,
    Command.SOFT_OFF: Reason.NOT_OFF,
    Command.EMERGENCY_OFF: Reason.NOT_OFF,
    Command.FENCE: Reason.NOT_OFF,
    Command.CONFIRM_OFF: Reason.NOT_OFF,
}
_SENTENCES: Mapping[Reason, str] = {
    Reason.TIMEOUT: "the BMC did not answer",
    Reason.NOT_OFF: "accepted, but the node does not read off",
    Reason.NOT_ON: "accepted, but the node does not read on",
    Reason.UNCONFIRMED: "accepted, unconfirmed: the node was not seen off",
}
_UNSTEADY = "off was sent, and the node does not read off twice in a row afterwards"
_EXPOSED = "the node read on after it had read off, and off is not sent again"
_UNTAKEN = (
    "its BMC reads off, but accepted no command to power off ({text}), so the node may still be on: repair the BMC, "
    "then retry; or check on site that {name} is off and will stay off, then run `roundsman node confirm-off {name}`"
)


@dataclass(frozen=True)
class Target:
    """One node's BMC and how to log in to it; port 0 is the driver's usual one, `certificate` is whom to trust.

    Raises:
        errors.InvalidInput: the name is empty, or the port is none.
    """

    name: str
    driver: str
    address: str = ""
    port: int = 0
    username: str = ""
    password: str = field(default="", repr=False)
    certificate: str = ""

    def __post_init__(self) -> None:
        if not self.name:
            raise errors.InvalidInput("a power target has no name")
        if not 0 <= self.port <= LAST_PORT:
            raise errors.InvalidInput(f"{self.name}: {self.port} is not a port")


@dataclass(frozen=True)
class Failure:
    """Why a BMC gave no usable answer."""

    reason: Reason
    text: str


@dataclass(frozen=True)
class Attempt:
    """One attempt to send a command: what became of it, and how many of the states in `seen` were read before it."""

    answer: Answer
    reads: int = 0


@dataclass(frozen=True)
class Outcome:
    """What one command did to one node.

    `sent` says that sending was attempted, whatever became of it; `attempts` counts how often.
    `seconds` is the time from connecting to the verdict. `reason` is a value of `Reason`, None exactly
    when the outcome is confirmed; `text` is for people. `read_on` says that any reading was on, before or after,
    `taken` that an off reached the BMC (`was_commanded`): else that it reads off is a reading, and no more.
    """

    name: str
    command: Command
    before: State
    after: State
    sent: bool
    confirmed: bool
    attempts: int
    seconds: float
    reason: Optional[str] = None
    text: Optional[str] = None
    read_on: bool = False
    taken: bool = False

    @property
    def ok(self) -> bool:
        """The command is done: its result was read back."""
        return self.confirmed

    @property
    def changed(self) -> bool:
        """Something was sent, and the state read back does not say that nothing came of it."""
        if self.command is Command.CYCLE:
            return self.sent and self.reason not in {Reason.REFUSED.value, Reason.BUSY.value}
        return self.sent and self.before is not self.after

    def as_dict(self) -> Dict[str, Any]:
        """Give the outcome as JSON values, with `ok` and `changed` beside the fields."""
        values = asdict(self)
        for key in ("command", "before", "after"):
            values[key] = values[key].value
        return {**values, "ok": self.ok, "changed": self.changed}


def is_rejected(outcome: Outcome) -> bool:
    """Whether a fence is none because its BMC took no off, although it reads off in the end."""
    is_unsteady = outcome.reason == Reason.NOT_OFF.value
    return outcome.command.fences and not outcome.confirmed and outcome.after is State.OFF and not is_unsteady


def parse_outcome(document: Mapping[str, Any]) -> Outcome:
    """Read back what `Outcome.as_dict` gave, also that of a version that did not keep `read_on` and `taken`."""
    values = {key: value for key, value in document.items() if key not in {"ok", "changed"}}
    values["command"] = Command(values["command"])
    values["before"] = State(values["before"])
    values["after"] = State(values["after"])
    return Outcome(**{"read_on": State.ON in {values["before"], values["after"]}, **values})


def wanted(command: Command) -> Optional[State]:
    """Give the state that must read back; a status and a cycle have none."""
    return _WANTED.get(command)


def needs_sending(command: Command, *, before: State) -> bool:
    """Say whether a command goes out: only when it would change a state that was read, but for an emergency."""
    if command in {Command.EMERGENCY_OFF, Command.FENCE}:
        return before is not State.UNKNOWN
    if command is Command.CONFIRM_OFF:
        return before is State.OFF
    if command is Command.CYCLE:
        return before is State.ON
    target = wanted(command)
    return target is not None and before not in {target, State.UNKNOWN}


def objection(command: Command, *, before: State) -> Optional[Failure]:
    """Say what stands against a command: a node that is off is not cycled, that would switch it on.

    One that reads on is not powered off to confirm that it is off.
    """
    if command is Command.CONFIRM_OFF and before is State.ON:
        return Failure(Reason.REFUSED, "the node reads on, and keeps its power")
    if command is Command.CYCLE and before is State.OFF:
        return Failure(Reason.REFUSED, "the node is off; a cycle needs a node that is on")
    return None


def is_exposed(command: Command, *, seen: Sequence[State]) -> bool:
    """Whether a node that was to be confirmed off read on after off was sent: it is on, and nothing more is sent."""
    return command is Command.CONFIRM_OFF and State.ON in seen


def was_commanded(*, before: State, seen: Sequence[State], attempts: Sequence[Attempt]) -> bool:
    """Whether an off reached its BMC, so that what it reads afterwards counts.

    It accepted one; or it said that the node is off already, and did not read on right before. One whose answer was
    lost never counts, whatever is read afterwards: a BMC that restarts reads off, too, and is busy or silent meanwhile.
    """
    return _commanded_at(before=before, seen=seen, attempts=attempts) is not None


def is_done(command: Command, *, before: State, seen: Sequence[State], attempts: Sequence[Attempt]) -> bool:
    """Success is a state read back: the wanted one, for a cycle off and then on, for a fence off twice in a row.

    For a fence nothing counts that was read before an off that its BMC took (`was_commanded`).
    """
    sent = bool(attempts)
    if command is Command.STATUS:
        return before is not State.UNKNOWN
    if is_exposed(command, seen=seen):
        return False
    if command.fences:
        start = _commanded_at(before=before, seen=seen, attempts=attempts)
        return start is not None and list(seen[start:][-FENCE_READS:]) == [State.OFF] * FENCE_READS
    after = _after(before=before, seen=seen, sent=sent)
    if command is Command.CYCLE:
        return sent and State.OFF in seen and after is State.ON
    return after is wanted(command)


def judge(
    command: Command,
    *,
    name: str,
    before: State,
    seen: Sequence[State] = (),
    attempts: Sequence[Attempt] = (),
    seconds: float,
    failure: Optional[Failure] = None,
) -> Outcome:
    """Weigh what was observed: the state read back overrules every answer and every failure.

    But for a fence, for which at least one off must have reached the BMC. `seen` holds the states read after the first
    attempt to send, in order.
    """
    sent = bool(attempts)
    confirmed = is_done(command, before=before, seen=seen, attempts=attempts)
    if not confirmed:
        failure = failure or _shortfall(command, seen=seen, sent=sent)
        if is_exposed(command, seen=seen):
            failure = Failure(Reason.REFUSED, _EXPOSED)
        elif command.fences and sent and seen and seen[-1] is State.OFF:
            failure = _no_fence(failure, name=name, before=before, seen=seen, attempts=attempts)
    return Outcome(
        name=name,
        command=command,
        before=before,
        after=_after(before=before, seen=seen, sent=sent),
        sent=sent,
        confirmed=confirmed,
        attempts=len(attempts),
        seconds=seconds,
        reason=None if confirmed or failure is None else failure.reason.value,
        text=None if confirmed or failure is None else failure.text,
        read_on=State.ON in {before, *seen},
        taken=was_commanded(before=before, seen=seen, attempts=attempts),
    )


def untried(command: Command, *, name: str, failure: Failure) -> Outcome:
    """Judge a node whose BMC was not asked at all."""
    return judge(command, name=name, before=State.UNKNOWN, seconds=0.0, failure=failure)


def cut_off(outcome: Outcome, *, seconds: float) -> Outcome:
    """Judge a driver that was ended at its deadline: a confirmed verdict stands, any other is a timeout.

    Unless it is known what held it up: a BMC that is busy, cannot be reached, or a helper program that took too long.
    """
    if outcome.confirmed:
        return outcome
    reason, text = Reason.TIMEOUT.value, f"no verdict within {seconds:g} s"
    is_told = outcome.reason == reason and outcome.text not in _SENTENCES.values()
    if outcome.text and (is_told or outcome.reason in {Reason.BUSY.value, Reason.UNREACHABLE.value}):
        reason, text = str(outcome.reason), f"{text}: {outcome.text}"
    return replace(outcome, after=State.UNKNOWN, seconds=seconds, reason=reason, text=text)


def _commanded_at(*, before: State, seen: Sequence[State], attempts: Sequence[Attempt]) -> Optional[int]:
    """How many states were read before the first attempt that counts as an off (`was_commanded`), None without one."""
    for attempt in attempts:
        read_on = _reads_on(attempt, before=before, seen=seen)
        if attempt.answer is Answer.ACCEPTED or (attempt.answer is Answer.ALREADY and not read_on):
            return attempt.reads
    return None


def is_contradictory(*, before: State, seen: Sequence[State], attempts: Sequence[Attempt]) -> bool:
    """Whether a BMC answered the last off with "already off", though it read on right before."""
    last = attempts[-1] if attempts else None
    return last is not None and last.answer is Answer.ALREADY and _reads_on(last, before=before, seen=seen)


def _reads_on(attempt: Attempt, *, before: State, seen: Sequence[State]) -> bool:
    """Whether a BMC read on right before an attempt."""
    return [before, *seen][attempt.reads] is State.ON


def _no_fence(
    failure: Failure, *, name: str, before: State, seen: Sequence[State], attempts: Sequence[Attempt]
) -> Failure:
    """Why a node that reads off in the end is not fenced: its BMC changes its answer, or took no off."""
    is_unsteady = before is State.OFF and State.ON in seen
    if is_unsteady or was_commanded(before=before, seen=seen, attempts=attempts):
        return Failure(Reason.NOT_OFF, _UNSTEADY)
    return Failure(failure.reason, _UNTAKEN.format(text=failure.text, name=name))


def _after(*, before: State, seen: Sequence[State], sent: bool) -> State:
    if seen:
        return seen[-1]
    return State.UNKNOWN if sent else before


def _shortfall(command: Command, *, seen: Sequence[State], sent: bool) -> Failure:
    reason = _MISSED[command]
    if not sent or not seen or seen[-1] is State.UNKNOWN:
        reason = Reason.TIMEOUT
    elif command is Command.CYCLE and State.OFF in seen:
        reason = Reason.NOT_ON
    elif command.fences and State.OFF in seen:
        return Failure(reason, _UNSTEADY)
    return Failure(reason, _SENTENCES[reason])
