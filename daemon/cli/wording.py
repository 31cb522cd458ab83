"""Nodes, incidents and jobs in a few words; pure, the time is a parameter."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

from ...plugins.plugin_utils.rounds import wording
from . import policy_texts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

SHORT_ID = 8
SHOWN = 2
GIB = 1024
WAITING = frozenset({"queued", "waiting"})
FINAL = frozenset({"success", "error", "canceled"})
TIMES = frozenset({"ctime", "mtime"})
_STEPS = (("s", 60), ("min", 60), ("h", 24))


def short(uuid: str) -> str:
    """Cut to the first characters of an incident's id, enough for people and for the daemon."""
    return uuid[:SHORT_ID]


def age(since: float | None, *, now: float) -> str:
    """How long ago, in the largest unit that fits."""
    if not since:
        return "-"
    value = max(0.0, now - since)
    for unit, size in _STEPS:
        if value < size:
            return f"{value:.0f} {unit}"
        value /= size
    return f"{value:.0f} d"


def mebibytes(value: int) -> str:
    """Memory or disk, of which the daemon speaks in MiB."""
    return f"{value / GIB:.1f} GiB" if abs(value) >= GIB else f"{value} MiB"


def codes(troubles: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
    """The codes of the troubles that show on each node (name), each once."""
    found: dict[str, dict[str, None]] = {}
    for trouble in troubles:
        for name in trouble["nodes"]:
            found.setdefault(name, {})[trouble["code"]] = None
    return {name: list(each) for name, each in found.items()}


def health(node: Mapping[str, Any], *, codes: Iterable[str] = ()) -> str:
    """Tell what a node said last, or why it says nothing, and which troubles show there; silence is never health."""
    word = _health(node)
    return ", ".join([word, *(code for code in codes if not (code == "node-silent" and word == "unreachable"))])


def is_in_order(node: Mapping[str, Any], *, codes: Iterable[str]) -> bool:
    """Whether a node is in service, says that it is well, and shows no trouble."""
    is_in_service = not node["offline"] and not node["drained"] and node["powered"] is not False
    return is_in_service and health(node, codes=codes) == "Ok"


def _health(node: Mapping[str, Any]) -> str:
    if node["health"] == "off":
        return "off"
    if node["unreachable"] is not None and not node["offline"]:
        return "unreachable"
    if node["refused"] is not None:
        return f"unknown: {node['refused']['reason']}"
    if node["health"] == "unknown":
        return "unknown"
    if node["problem"] is not None:
        return f"problem: {node['problem']['reason']}"
    text = str(node["health"] or "no report")
    return f"{text} (by another command)" if node.get("diagnose_difference") else text


def agent(told: Mapping[str, Any] | None, *, now: float) -> str:
    """How a node's agent answers: its misses in a row, or since when it has been quiet."""
    if told is None:
        return "not asked"
    if told["misses"]:
        return f"missed {told['misses']} in {age(told['since'], now=now)}"
    return told["text"] or f"answered {age(told['answered'], now=now)} ago"


def power(node: Mapping[str, Any]) -> str:
    """Tell the power state of record."""
    return {True: "on", False: "off", None: "no BMC"}[node["powered"]]


def memory(node: Mapping[str, Any]) -> str:
    """Memory in use of all there is."""
    return f"{(node['mtotal'] - node['mfree']) / GIB:.1f}/{node['mtotal'] / GIB:.1f} GiB"


def job(job: Mapping[str, Any], names: Mapping[str, str] | None = None) -> str:
    """All steps of a job in words."""
    known = job.get("names", {}) if names is None else names
    return ", then ".join(step.get("what") or wording.opcode(step, known) for step in job["opcodes"])


def steps(job: Mapping[str, Any]) -> str:
    """How many steps of a job have succeeded."""
    done = sum(step["status"] == "success" for step in job["opcodes"])
    return f"{done}/{len(job['opcodes'])}"


def enumerated(names: list[str]) -> str:
    """Names as a sentence lists them."""
    return ", ".join(names[:-1]) + " and " + names[-1] if len(names) > 1 else "".join(names)


def counted(names: list[str], kind: str) -> str:
    """Names as a cell of a table holds them: the one, or how many there are and the first two."""
    if len(names) == 1:
        return names[0]
    return f"{len(names)} {kind}: {', '.join([*names[:SHOWN], *(['…'] if len(names) > SHOWN else [])])}"


def described(fields: Mapping[str, Any], *, within: str = "") -> Iterator[tuple[str, object]]:
    """Each field of an object, in order of their names; those of an object in it are named `field.inner`."""
    for name, value in sorted(fields.items()):
        if isinstance(value, dict) and value:
            yield from described(value, within=f"{within}{name}.")
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            yield within + name, policy_texts.pairs(value)
        elif isinstance(value, (dict, list)):
            yield within + name, ", ".join(map(str, value))
        elif name in TIMES:
            yield within + name, moment(value)
        else:
            yield within + name, {True: "yes", False: "no"}[value] if isinstance(value, bool) else value


def moment(seconds: float) -> str:
    """A time as the machine's clock shows it, with its distance from UTC."""
    return dt.datetime.fromtimestamp(seconds, dt.UTC).astimezone().isoformat(" ", "seconds")
