"""Every error of Roundsman, and what each one promises about the world.

RoundsmanError
├── Refused              asked against a rule; nothing was done
│   ├── InvalidInput     the input cannot be represented
│   │   └── NotFound     it names an object that is not there
│   ├── Forbidden        whoever asked may not have it done
│   ├── ReportRejected   a report is not authentic, not fresh or not readable
│   ├── CommandRefused   a command is not on the node's whitelist
│   ├── LockRefused      a lock is out of order, or was not granted in time
│   ├── NotFollowed      a node follows another controller
│   └── NotLeading       this controller does not lead its cluster
├── Failed               tried, and could not
│   ├── CommandFailed    a whitelisted command ran and failed
│   ├── PowerFailed      a BMC did not answer, or answered with an error
│   └── StoreFailed      the state could not be read or written
├── StateUnknown         the disk failed: state may be written or not
└── Unconfirmed          done, but the check afterwards says otherwise
"""

from __future__ import annotations


class RoundsmanError(Exception):
    """Any failure that Roundsman foresees."""


class Refused(RoundsmanError):
    """The request is against a rule, and nothing was done."""


class InvalidInput(Refused):
    """The input cannot be represented; the text names object and field."""


class NotFound(InvalidInput):
    """The input names an object that is not there."""


class Forbidden(Refused):
    """Whoever asked may not have it done; the text names who may."""


class ReportRejected(Refused):
    """A report counts for nothing; `reason` is the name under which it is counted.

    `node` is the UUID of the node that signed it, '' where nobody knows whose it is.
    """

    def __init__(self, reason: str, text: str, *, node: str = "") -> None:
        super().__init__(text)
        self.reason = reason
        self.node = node


class CommandRefused(Refused):
    """A command is not on the node's whitelist; `reason` says which check failed."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


class LockRefused(Refused):
    """A lock is out of order, or was not granted in time."""


class NotFollowed(Refused):
    """A node follows the epoch of another controller, or of another start of this one."""


class NotLeading(Refused):
    """Another controller leads the cluster, or knows more; the text says which, and what helps."""


class Failed(RoundsmanError):
    """It was tried, and could not be done."""


class CommandFailed(Failed):
    """A whitelisted command ran and failed; `reason` is one word for how."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


class PowerFailed(Failed):
    """A BMC gave no usable answer; `reason` and `answer` are values of `Reason` and `Answer` of domain/power/power.py.

    `answer` says what became of a command; "rejected" includes that it never went out.
    """

    def __init__(self, reason: str, text: str, *, answer: str = "rejected") -> None:
        super().__init__(text)
        self.reason = reason
        self.answer = answer


class StoreFailed(Failed):
    """State could not be read or written; what was there before is still there."""


class StateUnknown(RoundsmanError):
    """The disk failed while state was written: what it keeps is unknown until it has been read and written again."""


class Unconfirmed(RoundsmanError):
    """It was done, but the check afterwards says otherwise."""
