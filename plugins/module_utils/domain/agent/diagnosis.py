"""What a node says about its own health."""

from __future__ import annotations

import dataclasses
import enum
import functools
import hashlib
from typing import Dict, Optional

from ..values import errors, json_values

LARGE = 4096
"""Bytes of the whole JSON object above which the configuration holds an abbreviation of it."""
SHOWN = 2048
"""Bytes of a large object that its abbreviation shows."""
COMMAND_LIMIT = 128
"""Characters of a repair command that are kept; a longer one is no file name of a whitelist."""


@functools.total_ordering
class Status(enum.Enum):
    """How invasive a repair the node asks for, least first (seed 000, section "Protocol")."""

    OK = "Ok"
    LIVE_REPAIR = "live-repair"
    EVACUATE = "evacuate"
    EVACUATE_FAILOVER = "evacuate-failover"

    @property
    def rank(self) -> int:
        """0 for Ok, and one more for each step that is more invasive."""
        return list(Status).index(self)

    def __lt__(self, other: object) -> bool:
        return self.rank < other.rank if isinstance(other, Status) else NotImplemented


@dataclasses.dataclass(frozen=True)
class Diagnosis:
    """One self-diagnosis; two are the same failure exactly when their `canonical` is the same.

    `command` is the repair command of a live repair, None where there is none to run.
    `original` is the whole JSON object as text, numbers as the node wrote them.
    """

    status: Status
    command: Optional[str]
    original: str

    @functools.cached_property
    def canonical(self) -> str:
        """The identity of the failure: equal whenever the JSON value is, key order aside."""
        return json_values.canonical(json_values.parse(self.original))

    @functools.cached_property
    def digest(self) -> str:
        """SHA-256 of the canonical JSON in hex digits: as `canonical`, in 64 characters."""
        return hashlib.sha256(json_values.canonical(json_values.parse(self.original)).encode()).hexdigest()

    @functools.cached_property
    def size(self) -> int:
        """Bytes of the whole object as the node wrote it, blanks between its parts aside."""
        return len(self.original.encode())

    @property
    def is_large(self) -> bool:
        """Whether the configuration and lists show an abbreviation of it."""
        return self.size > LARGE

    @functools.cached_property
    def abbreviated(self) -> str:
        """A small JSON object with the status and the command; what stands for `details` says what it is."""
        beginning = self.original[:SHOWN].encode()[:SHOWN].decode(errors="ignore")
        note: Dict[str, json_values.Value] = {
            "abbreviated": "the report is large: this is its beginning; /1/incidents/ID/original is all of it",
            "digest": self.digest,
            "bytes": json_values.Number(str(self.size)),
            "beginning": beginning,
        }
        short: Dict[str, json_values.Value] = {"status": self.status.value, "details": note}
        if self.command is not None:
            short["command"] = short_command(self.command)
        return json_values.dump(short)

    @functools.cached_property
    def details(self) -> Optional[str]:
        """The opaque `details` as JSON text, passed through value-exact; None where there are none."""
        value = json_values.parse(self.original)
        if isinstance(value, dict) and "details" in value:
            return json_values.dump(value["details"])
        return None


def parse(text: str) -> Diagnosis:
    """Read the output of a diagnose command.

    Raises: errors.InvalidInput if it is no JSON object, or has no status of the four.
    """
    return read(json_values.parse(text))


def read(value: json_values.Value) -> Diagnosis:
    """Read a diagnosis from a JSON value; statuses are exact, and `command` counts for a live repair only.

    Raises: errors.InvalidInput if it is no object, or has no status of the four.
    """
    if not isinstance(value, dict):
        raise errors.InvalidInput("the diagnosis is no JSON object")
    if "status" not in value:
        raise errors.InvalidInput("the diagnosis has no status")
    status = _status(value["status"])
    command = value.get("command")
    if status is not Status.LIVE_REPAIR or not isinstance(command, str) or not command:
        command = None
    return Diagnosis(status=status, command=command, original=json_values.dump(value))


def command_error(value: json_values.Value) -> str:
    """What is wrong with the `command` of a live repair, or ''; null is the same as no command."""
    if not isinstance(value, dict) or value.get("status") != Status.LIVE_REPAIR.value:
        return ""
    command = value.get("command")
    if command is None or (isinstance(command, str) and command):
        return ""
    return "the command of the live repair is not a non-empty string: " + json_values.dump(command)[:80]


def short_command(command: str) -> str:
    """A repair command as it is, or the beginning of one that is too long to be run, with an ellipsis."""
    return command if len(command) <= COMMAND_LIMIT else command[:COMMAND_LIMIT] + "…"


def _status(value: json_values.Value) -> Status:
    for status in Status:
        if value == status.value:
            return status
    raise errors.InvalidInput("the diagnosis has an unknown status: " + json_values.dump(value)[:80])


OK = Diagnosis(status=Status.OK, command=None, original='{"status":"Ok"}')
