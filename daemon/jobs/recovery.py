"""What becomes of an opcode that was under way: one table, by what is durable of it.

It is asked when the daemon has started again, and when a run has ended.

| recorded as running | executed | what its run left | step |
|---|---|---|---|
| no | in any way | | start it, when it has its turn and its locks |
| yes | in the daemon | | repeat it: it states absolute values, or wrote its plan down first |
| yes | as a play | a held livelock | adopt the run, and wait for its end |
| yes | as a play | a result | settle it: commit its changes, and end as the result says |
| yes | as a play | a result that is damaged | it is lost |
| yes | as a play | `began`, and no result | it is lost: commit its changes, look at what is true, repeat nothing |
| yes | as a play | nothing | start it: it never ran |
| yes, and canceled | as a play | nothing | end it: it never ran, and never will |
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ...plugins.plugin_utils.opcodes.contract import Execution
from . import values


class Step(Enum):
    """What is done with an opcode."""

    START = "start"
    REPEAT = "repeat"
    ADOPT = "adopt"
    SETTLE = "settle"
    LOSE = "lose"
    END = "end"


class Result(Enum):
    """The result that a run has left."""

    MISSING = "missing"
    DAMAGED = "damaged"
    READABLE = "readable"


@dataclass(frozen=True)
class Traces:
    """What a run has left in its folder."""

    is_alive: bool = False
    has_begun: bool = False
    result: Result = Result.MISSING


def recover(
    traces: Traces = Traces(),
    *,
    status: values.Status = values.Status.RUNNING,
    execution: Execution = Execution.PLAY,
    is_canceling: bool = False,
) -> Step:
    """The step of the table for an opcode."""
    if status is not values.Status.RUNNING:
        return Step.START
    if execution is not Execution.PLAY:
        return Step.REPEAT
    if traces.is_alive:
        return Step.ADOPT
    if traces.result is Result.READABLE:
        return Step.SETTLE
    if traces.has_begun or traces.result is Result.DAMAGED:
        return Step.LOSE
    return Step.END if is_canceling else Step.START
