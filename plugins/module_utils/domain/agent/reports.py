"""Reports of the nodes: how one is made, and the one rule by which it is accepted."""

from __future__ import annotations

import dataclasses
import re
from typing import Callable, Collection, Dict, Optional, Tuple, Union

from ..disks import replicas
from ..values import errors, json_values
from . import collected, diagnosis, signing

LIMIT = 1024 * 1024
TEXT_LIMIT = 500
BAD_COMMAND = "bad_command"

Reason = signing.Reason
Problem = collected.Problem

_OTHER_NODES_LIMIT = 64 * 1024
_CLUSTER_FORM_DIGITS = 40
_COMMAND = re.compile("[A-Za-z0-9_-]{1,128}")
_Object = Dict[str, json_values.Value]


@dataclasses.dataclass(frozen=True)
class Report:
    """An authentic report: a diagnosis, or the problem that prevented one.

    `node` is the UUID, `timestamp` is in nanoseconds since 1970.
    """

    node: str
    timestamp: int
    diagnosis: Optional[diagnosis.Diagnosis]
    problem: Optional[Problem]
    command: Optional[str] = None
    """The diagnose command that the node ran, None where it does not say so."""
    facts: replicas.NodeFacts = replicas.UNKNOWN
    """What the node says of its replicas; it is no part of the diagnosis."""


Outcome = Union[diagnosis.Diagnosis, Problem]


@dataclasses.dataclass(frozen=True)
class Sealed:
    """A signed envelope, and what it says."""

    envelope: str
    said: Outcome


def problem(reason: str, *, text: str) -> Problem:
    """Make a problem whose text is fit for a report: valid Unicode, its last 500 characters."""
    return Problem(reason=reason, text=text.encode(errors="replace").decode().strip()[-TEXT_LIMIT:])


def outcome(*, returncode: int, stdout: bytes, stderr: bytes) -> Outcome:
    """Judge a diagnose command that has ended: only a valid diagnosis and exit code 0 are one.

    `returncode` is negative for a signal. Problems: `killed`, `exit`, `not_json`, `unknown_status`, `bad_command`.
    """
    if returncode:
        ending = "killed by signal {}".format(-returncode) if returncode < 0 else "exit code {}".format(returncode)
        said = stderr.decode(errors="replace").strip()[-TEXT_LIMIT + 30 :]
        return problem("killed" if returncode < 0 else "exit", text=ending + (": " + said if said else ""))
    try:
        value = json_values.parse(stdout.decode())
    except (UnicodeDecodeError, errors.InvalidInput) as e:
        return problem("not_json", text=str(e))
    if diagnosis.command_error(value):
        return problem(BAD_COMMAND, text=diagnosis.command_error(value))
    try:
        return diagnosis.read(value)
    except errors.InvalidInput as e:
        return problem("unknown_status", text=str(e))


def seal(
    said: Outcome,
    *,
    node_uuid: str,
    timestamp_ns: int,
    key: bytes,
    command: str = "",
    facts: replicas.NodeFacts = replicas.UNKNOWN,
) -> Sealed:
    """Sign a report of what a diagnose command said; one too large to be accepted becomes the problem `oversized`.

    Where the diagnosis leaves no room for the facts, these are left out.

    Raises: errors.InvalidInput if there is no such report.
    """
    failed = said if isinstance(said, Problem) else None
    data = said.original if isinstance(said, diagnosis.Diagnosis) else None
    for known in (facts, replicas.UNKNOWN):
        text = message(
            node_uuid=node_uuid, timestamp_ns=timestamp_ns, data=data, problem=failed, command=command, facts=known
        )
        signed = signing.sign(text, key=key, now=timestamp_ns // 10**9)
        if len(signed) <= LIMIT:
            return Sealed(signed, said)
    said = Problem("oversized", "the signed report is larger than {} bytes".format(LIMIT))
    return seal(said, node_uuid=node_uuid, timestamp_ns=timestamp_ns, key=key, command=command)


def message(
    *,
    node_uuid: str,
    timestamp_ns: int,
    data: Optional[str],
    problem: Optional[Problem],
    command: str = "",
    facts: replicas.NodeFacts = replicas.UNKNOWN,
) -> str:
    """Write a report with the keys of Ganeti's monitoring, the node's UUID, and the diagnose command if there is one.

    Exactly one of `data` (JSON text, embedded verbatim) and `problem` is given.

    Raises: errors.InvalidInput for both or none.
    """
    return collected.message(
        collected.DIAGNOSE,
        node_uuid=node_uuid,
        timestamp_ns=timestamp_ns,
        data=data,
        problem=problem,
        command=command,
        facts=facts,
    )


def accept(
    data: bytes,
    *,
    now: int,
    cluster_key: bytes,
    nodes: Collection[str],
    floor: Callable[[str], int],
    accept_cluster_key: bool = False,
) -> Report:
    """Accept a report only if it is authentic, fresh, newer than its node's last, and readable.

    `nodes` are UUIDs, `now` is in unix seconds, `floor` gives the timestamp (ns) of a node's last accepted
    report, 0 if there is none; `cluster_key` is the whole, non-empty content of `hmac.key`.

    Raises: errors.ReportRejected with a `Reason`, and nothing else for any data.
    """
    sealed, content = _open(data)
    node = _claimed_node(content)
    if node not in nodes:
        raise signing.rejected(Reason.WRONG_NODE, text="no node of the cluster: " + ascii(node[:80]))
    if not _is_authentic(sealed, node=node, cluster_key=cluster_key, accept_cluster_key=accept_cluster_key):
        _check_other_nodes(sealed, size=len(data), cluster_key=cluster_key, others=nodes)
        raise signing.rejected(Reason.FORGED, text="the signature is not that of node " + node)
    try:
        signing.check_fresh(sealed, now=now)
        report = _report(content, node=node)
        signing.check_date(report.timestamp // 10**9, now=now)
        _check_newer(report.timestamp, floor=floor(node), now=now)
    except errors.ReportRejected as e:
        e.node = node
        raise
    return report


def _check_newer(timestamp: int, *, floor: int, now: int) -> None:
    if timestamp > floor:
        return
    text = "the report is not newer than the last of its node"
    if floor > now * 10**9:
        text += ", which is dated {} s ahead of the controller's clock".format(floor // 10**9 - now)
    raise signing.rejected(Reason.REPLAYED, text=text)


def read(data: bytes, *, cluster_key: bytes, accept_cluster_key: bool = False) -> Report:
    """Read again a report that was accepted once: authentic and readable, whatever its age.

    Raises: errors.ReportRejected with a `Reason`, and nothing else for any data.
    """
    sealed, content = _open(data)
    node = _claimed_node(content)
    if not _is_authentic(sealed, node=node, cluster_key=cluster_key, accept_cluster_key=accept_cluster_key):
        raise signing.rejected(Reason.FORGED, text="the signature is not that of node " + ascii(node[:80]))
    return _report(content, node=node)


def prove(data: bytes, *, node: str, cluster_key: bytes, accept_cluster_key: bool, now: int, every: int) -> None:
    """Accept an answer only if this node (UUID) signed it lately; it does so `every` so many seconds.

    Raises: errors.ReportRejected with a `Reason`, and nothing else for any data.
    """
    sealed = _sealed(data)
    # Before anything is read that nobody may have signed.
    if not _is_authentic(sealed, node=node, cluster_key=cluster_key, accept_cluster_key=accept_cluster_key):
        raise signing.rejected(Reason.FORGED, text="the signature is not the node's")
    if _claimed_node(_content(sealed)) != node:
        raise signing.rejected(Reason.FORGED, text="it is another node's")
    signing.check_fresh(sealed, now=now, age=signing.FRESH_SECONDS + every)


def _open(data: bytes) -> Tuple[signing.Envelope, _Object]:
    sealed = _sealed(data)
    return sealed, _content(sealed)


def _sealed(data: bytes) -> signing.Envelope:
    if len(data) > LIMIT:
        raise signing.rejected(Reason.OVERSIZED, text="the report has {} bytes".format(len(data)))
    return signing.read_envelope(data)


def _content(sealed: signing.Envelope) -> _Object:
    try:
        # The diagnosis may use the whole depth and lies one level down.
        content = json_values.parse(sealed.msg, depth=json_values.DEPTH + 1)
    except errors.InvalidInput as e:
        raise signing.rejected(Reason.MALFORMED, text="the message is not JSON: " + str(e)) from e
    if not isinstance(content, dict):
        raise signing.rejected(Reason.MALFORMED, text="the message is no JSON object")
    return content


def _claimed_node(content: _Object) -> str:
    node = content.get("node")
    if not isinstance(node, str) or not node:
        raise signing.rejected(Reason.MALFORMED, text="the message names no node")
    return node


def _is_authentic(sealed: signing.Envelope, *, node: str, cluster_key: bytes, accept_cluster_key: bool) -> bool:
    if accept_cluster_key and len(sealed.hmac) == _CLUSTER_FORM_DIGITS:
        return signing.is_signed_in_cluster_form(sealed, cluster_key=cluster_key)
    return signing.is_signed(sealed, key=signing.node_key(cluster_key, node))


def _check_other_nodes(sealed: signing.Envelope, *, size: int, cluster_key: bytes, others: Collection[str]) -> None:
    # A hash for each node is dear: nobody shall buy many of them with one large message.
    if size > _OTHER_NODES_LIMIT:
        return
    for other in others:
        if signing.is_signed(sealed, key=signing.node_key(cluster_key, other)):
            raise signing.rejected(Reason.WRONG_NODE, text="signed by node " + other + ", which speaks for another")


def _report(content: _Object, *, node: str) -> Report:
    collected.check_subject(content, collected.DIAGNOSE)
    timestamp = collected.timestamp_of(content)
    ran = content.get(collected.COMMAND)
    command = ran if isinstance(ran, str) and _COMMAND.fullmatch(ran) else None
    facts = replicas.decode(content)
    if "problem" in content:
        failed = collected.problem_of(content["problem"])
        return Report(node, timestamp, diagnosis=None, problem=failed, command=command, facts=facts)
    if diagnosis.command_error(content["data"]):
        failed = problem(BAD_COMMAND, text=diagnosis.command_error(content["data"]))
        return Report(node, timestamp, diagnosis=None, problem=failed, command=command, facts=facts)
    try:
        said = diagnosis.read(content["data"])
    except errors.InvalidInput as e:
        raise signing.rejected(Reason.MALFORMED, text=str(e)) from e
    return Report(node, timestamp, diagnosis=said, problem=None, command=command, facts=facts)
