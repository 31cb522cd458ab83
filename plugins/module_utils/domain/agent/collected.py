"""What node agents collect: the names under which they report, and reports of any collector, made and read.

Names, categories and kinds are those of Ganeti's monitoring agent, and so is the message inside the envelope; the
envelope and the node's UUID in the message are ours.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from typing import Any, Dict, Optional

from ..disks import replicas
from ..values import errors, json_values
from . import signing

PORT = 1815
PERFORMANCE, STATUS = 0, 1
DEFAULT_CATEGORY = "default"
"""How the category of a collector that has none is written in paths and lists."""
COMMAND = "diagnose_command"
"""The key of a diagnosis that names the command which made it."""

_TIMESTAMP = re.compile("[1-9][0-9]{0,19}")


@dataclasses.dataclass(frozen=True)
class Subject:
    """What a collector reports on; `kind` is PERFORMANCE or STATUS."""

    name: str
    category: Optional[str]
    kind: int

    @property
    def folder(self) -> str:
        """The category as it is written in paths and lists."""
        return self.category or DEFAULT_CATEGORY


DIAGNOSE = Subject("diagnose", "node", STATUS)
CPU_LOAD = Subject("cpu-avg-load", None, PERFORMANCE)
DISKSTATS = Subject("diskstats", "storage", PERFORMANCE)
DRBD = Subject("drbd", "storage", STATUS)
LV = Subject("lv", "storage", PERFORMANCE)
INST_STATUS = Subject("inst-status", "instance", STATUS)
ALL = (DIAGNOSE, CPU_LOAD, DISKSTATS, DRBD, LV, INST_STATUS)


@dataclasses.dataclass(frozen=True)
class Problem:
    """Why a collector has nothing to report; it is neither health nor an incident."""

    reason: str
    text: str


@dataclasses.dataclass(frozen=True)
class Collected:
    """An authentic report: JSON text, or the problem that prevented one; `timestamp` in ns since 1970."""

    node: str
    timestamp: int
    data: Optional[str]
    problem: Optional[Problem]


def path(subject: Subject) -> str:
    """Where an agent answers with the last report of a collector."""
    return "/1/report/{}/{}".format(subject.folder, subject.name)


def message(
    subject: Subject,
    *,
    node_uuid: str,
    timestamp_ns: int,
    data: Optional[str],
    problem: Optional[Problem],
    command: str = "",
    facts: replicas.NodeFacts = replicas.UNKNOWN,
) -> str:
    """Write a report with the keys of Ganeti's monitoring, the node's UUID, and the facts of its replicas.

    Exactly one of `data` (JSON text, embedded verbatim) and `problem` is given.

    Raises: errors.InvalidInput for both or none.
    """
    head: Dict[str, Any] = {
        "name": subject.name,
        "version": "B",
        "format_version": 1,
        "timestamp": timestamp_ns,
        "category": subject.category,
        "kind": subject.kind,
        "node": node_uuid,
    }
    if command:
        head[COMMAND] = command
    head.update(replicas.encode(facts))
    if problem is not None and data is None:
        return json.dumps(dict(head, problem=dataclasses.asdict(problem)))
    if data is not None and problem is None:
        return json.dumps(head)[:-1] + ', "data": ' + data + "}"
    raise errors.InvalidInput("a report holds either data or a problem")


def content_digest(sealed: bytes) -> str:
    """A digest of what a report says, without time, ages and amounts: the same as long as nothing has changed.

    '' for what is no report; whether it is authentic is not asked.
    """
    try:
        content = json.loads(signing.read_envelope(sealed).msg)
        del content["timestamp"]
        for replica in content.get(replicas.REPLICAS, ()):
            for key in replicas.NOT_NEWS:
                replica.pop(key, None)
        text = json.dumps(content, sort_keys=True)
    except (errors.ReportRejected, ValueError, TypeError, AttributeError, KeyError, RecursionError):
        return ""
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def waiting_path(subject: Subject, *, known: str, seconds: float) -> str:
    """Where an agent answers as soon as its report says something else than what is known, or after so many seconds.

    `known` is the digest of that. An agent of a version before answers at once.
    """
    return "{}?after={}&seconds={:.0f}".format(path(subject), known, seconds)


def read(sealed: bytes, *, subject: Subject, node: str, key: bytes, now: int) -> Collected:
    """Read the report of a node that was asked for it: signed by it, fresh, and of this collector.

    `key` is the node's own, `now` is in unix seconds.

    Raises: errors.ReportRejected with a reason of `signing.Reason`, and nothing else for any data.
    """
    envelope = signing.read_envelope(sealed)
    signing.verify(envelope, key=key, now=now)
    try:
        content = json_values.parse(envelope.msg, depth=json_values.DEPTH + 1)
    except errors.InvalidInput as e:
        raise _malformed("the message is not JSON: " + str(e)) from e
    if not isinstance(content, dict):
        raise _malformed("the message is no JSON object")
    if content.get("node") != node:
        raise signing.rejected(signing.Reason.WRONG_NODE, text="the message is not of node " + node)
    return _collected_of(content, subject=subject, node=node)


def timestamp_of(content: Dict[str, json_values.Value]) -> int:
    """When a report was made, in ns.

    Raises: errors.ReportRejected if it does not say so.
    """
    value = content.get("timestamp")
    if not isinstance(value, json_values.Number) or not _TIMESTAMP.fullmatch(value.token):
        raise _malformed("the timestamp is no count of nanoseconds")
    return int(value.token)


def problem_of(value: json_values.Value) -> Problem:
    """The problem that a report names.

    Raises: errors.ReportRejected if that is none.
    """
    if isinstance(value, dict):
        reason, text = value.get("reason"), value.get("text")
        if isinstance(reason, str) and isinstance(text, str) and reason:
            return Problem(reason, text)
    raise _malformed("the problem is not a reason and a text")


def check_subject(content: Dict[str, json_values.Value], subject: Subject) -> None:
    """Refuse a report of another collector, of another format, or with both or none of data and problem.

    Raises: errors.ReportRejected.
    """
    for field, text in (("name", subject.name), ("category", subject.category)):
        if content.get(field) != text:
            raise _malformed("{} is not {}".format(field, text))
    for field, number in (("format_version", 1), ("kind", subject.kind)):
        if content.get(field) != json_values.Number(str(number)):
            raise _malformed("{} is not {}".format(field, number))
    if ("data" in content) == ("problem" in content):
        raise _malformed("the message holds not either data or a problem")


def _collected_of(content: Dict[str, json_values.Value], *, subject: Subject, node: str) -> Collected:
    check_subject(content, subject)
    timestamp = timestamp_of(content)
    if "problem" in content:
        return Collected(node, timestamp, data=None, problem=problem_of(content["problem"]))
    return Collected(node, timestamp, data=json_values.dump(content["data"]), problem=None)


def _malformed(text: str) -> errors.ReportRejected:
    return signing.rejected(signing.Reason.MALFORMED, text=text)
