"""Plans and clusters as lines, one for each thing in them, so that a difference shows what has changed."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ansible_collections.roundsman.cluster.daemon.jobs import values
    from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters

    from tests import troubled_clusters

DIGITS = 6
"""Of numbers that are no whole ones: the last digits depend on the processor."""
PASSING = frozenset({"digest", "format", "ctime", "cluster_uuid", "components", "waves", "command"})
UNUSUAL = ("drained", "offline", "incapable", "off", "silent")


def heading(case: troubled_clusters.Case) -> Iterator[str]:
    """What a cluster is, and what happens there."""
    cluster = case.cluster
    templates = Counter(entry.disk_template for entry in cluster.instances.values())
    kinds = ", ".join(f"{count} {name}" for name, count in sorted(templates.items()))
    yield f"## case {case.number}, {case.theme}: {len(cluster.nodegroups)} groups, {_nodes(case)}; instances: {kinds}"
    settings = cluster.maintenance.settings
    shown = {
        name: getattr(settings, name)
        for name in ("balance", "balance_disk_moves", "balance_dynamic_load", "capacity_reserve", "paused")
        if getattr(settings, name)
    }
    words = [f"{name}={value}" for name, value in shown.items()]
    words += ["epo returns" if cluster.maintenance.epo.returning else "epo stands"] if cluster.maintenance.epo else []
    words += [f"{_names(cluster, case.busy)} busy"] if case.busy else []
    for entry in cluster.maintenance.incidents:
        work = ", at work" if case.at_work.get(entry.uuid) else ""
        dead = ", dead" if "dead-node" in entry.original else ""
        status = entry.repair_status.value
        words.append(f"{entry.uuid} {entry.action.value} {cluster.node_name(entry.node)} {status}{dead}{work}")
    yield f"# {'; '.join(words) or 'nothing happens'}"


def _nodes(case: troubled_clusters.Case) -> str:
    cluster, found = case.cluster, {}
    for node in cluster.nodes.values():
        states = {
            "drained": node.drained,
            "offline": node.offline,
            "incapable": not node.vm_capable,
            "off": not node.powered or bool(node.off_confirmed),
            "silent": node.uuid in case.silent,
        }
        found[node.uuid] = [name for name in UNUSUAL if states[name]]
    shown = [f"{cluster.node_name(uuid)} {'+'.join(states)}" for uuid, states in found.items() if states]
    return f"{len(cluster.nodes)} nodes" + (f" ({', '.join(shown)})" if shown else "")


def _names(cluster: clusters.Cluster, uuids: Sequence[str]) -> str:
    return ",".join(
        cluster.instances[entry].name if entry in cluster.instances else cluster.node_name(entry) for entry in uuids
    )


def plan(found: Mapping[str, Any], jobs: Sequence[values.Job]) -> Iterator[str]:
    """A round: the document of /2/plan, beside each of its jobs the one that is submitted."""
    names = found["names"]
    yield from (f"held: {json.dumps(found['held'])}" for _ in "1" if found["held"])
    keys = {job.id: shown["key"] for shown, job in zip(found["jobs"], jobs, strict=True)}
    for shown, job in zip(found["jobs"], jobs, strict=True):
        yield _job(shown, job, keys)
        for opcode in shown["opcodes"]:
            yield f"  {opcode['kind']} {_params(opcode['params'], names)}"
    for entry in found["refusals"]:
        yield f"refusal {_refusal(entry)}"
    yield from (f"completed {uuid}" for uuid in found["completed"])
    yield from (f"failed {uuid}: {reason}" for uuid, reason in found["failed"])
    yield from (f"note {text}" for text in found["notes"])
    yield from (f"left out {_refusal(entry)}" for entry in found["left_out"])


def _job(shown: Mapping[str, Any], job: values.Job, keys: Mapping[int, str]) -> str:
    """One job; what it waits for has to succeed, unless other ends of it are named; its priority is 0, unless it is."""
    assert [entry.kind for entry in job.opcodes] == [entry["kind"] for entry in shown["opcodes"]]
    waits = {keys[entry.job]: [status.value for status in entry.statuses] for entry in job.depends}
    assert list(waits) == [*shown["after"], *shown["behind"]]
    after = [key if ends == ["success"] else f"{key}:{'+'.join(sorted(ends))}" for key, ends in waits.items()]
    words = [f"job {shown['key']}", *([f"priority {job.priority}"] if job.priority else [])]
    words += ["after " + " ".join(after)] if after else []
    sources = ",".join(sorted({entry.source for entry in job.reason}))
    return f"{', '.join(words)} | {sources}: {' < '.join(entry.text for entry in job.reason)}"


def _params(params: Mapping[str, Any], names: Mapping[str, str]) -> str:
    return " ".join(f"{key}={names.get(str(value), value)}" for key, value in sorted(params.items()))


def _refusal(entry: Mapping[str, Any]) -> str:
    lasting = " for good" if entry["permanent"] else ""
    subject = f"{entry['subject']} incident {entry['incident'] or '-'}{lasting}"
    return f"{subject}: {entry['reason']} | {entry['unblock'] or '-'}"


def value(found: object) -> str:
    """A JSON value in one line, numbers rounded."""
    return json.dumps(_rounded(found), sort_keys=True, ensure_ascii=False)


def _rounded(found: object) -> object:
    if isinstance(found, float):
        return round(found, DIGITS) + 0.0
    if isinstance(found, dict):
        return {key: _rounded(entry) for key, entry in found.items()}
    return [_rounded(entry) for entry in found] if isinstance(found, list) else found


def command(words: Sequence[str], status: int, out: str, err: str) -> Iterator[str]:
    """What a command printed: of a JSON object each value, and of each list in it each item, in a line of its own."""
    yield f"$ roundsman {' '.join(words)}: exit status {status}"
    try:
        found = json.loads(out)
    except json.JSONDecodeError:
        yield from (f"out {line}" for line in out.splitlines())
    else:
        yield from document(found)
    yield from (f"err {line}" for line in err.splitlines())


def document(found: object) -> Iterator[str]:
    """A JSON value as lines, without what depends on the way it is written or on the time."""
    if isinstance(found, list):
        yield from (value(entry) for entry in found)
        return
    assert isinstance(found, dict)
    for name, entry in sorted(found.items()):
        if name in PASSING:
            continue
        if isinstance(entry, list) and entry:
            yield from (f"{name}: {value(item)}" for item in entry)
        elif entry not in (None, [], {}, "", False):
            yield f"{name}: {value(entry)}"
