"""What a run of a lab has come to, as text: jobs, incidents, nodes, instances, replicas and the nodes' journals.

It reads the daemon's answers, what the command line prints, and the journals and replicas of the simulated nodes.
Numbers of jobs stay, since a scenario's jobs are submitted in one order; UUIDs, times, counters of writes, paths, the
user and the port are replaced or left out.
"""

from __future__ import annotations

import getpass
import json
import re
import sys
from itertools import groupby
from typing import TYPE_CHECKING, Any

from ansible_collections.roundsman.cluster.daemon.lab import journals
from ansible_collections.roundsman.cluster.daemon.lab.simulator import simulated_node
from ansible_collections.roundsman.cluster.plugins.module_utils.storage import replica_facts

from tests.integration import states

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from .story import Story

if str(simulated_node.ON_NODES) not in sys.path:
    # Tests have it in their path; what records does not, and would read no replica.
    sys.path.append(str(simulated_node.ON_NODES))
UUID = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
AGE = re.compile(r"\b\d+(?:\.\d+)? (?:ms|s|min|h|d|days?) ago\b")
LOSS = re.compile(r"(?<=possible loss: )[^;\n]+")
"""Of how long writes may be lost: how old a sight is, is a clock's matter."""
STATED = re.compile(
    r"(?<= fails over to )(\S+?)(?:, whose replica| with ignore_consistency:)[^\n]*(?=; possible loss: )"
)
"""What is stated before a failover of a silent node: whether its loss is above the limit is a clock's matter, too."""
MOMENT = re.compile(r"\b\d{4}-\d\d-\d\d[ T]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z| UTC|[+-]\d\d:\d\d)?")
SECONDS = re.compile(r"(?<= )\d+\.\d s$", re.MULTILINE)
"""What a step of a play took."""
PLAY = re.compile(r"\bplay-\d+-\d+\b")
UNSTABLE = frozenset({"uuid", "last_report", "lived_at", "off_confirmed", "agent", "ctime", "mtime", "mfree"})
"""Fields of nodes and instances that a clock or a run decides."""
COUNTED = frozenset({"ns", "node", "instance", "opcode", "event", "counter", "newest", "lost", "resource"})
"""Fields of an event that stand elsewhere in its line, or that a clock decides."""
SEEN = frozenset({"reported", "replica"})
"""Events of a node that is looked at, and of the states of its disks, which follow from clocks as well."""


def write(story: Story, explained: Iterable[str]) -> str:
    """The whole text of a run that is at rest."""
    story.until(states.at_rest, "nothing is left in the queue")
    story.until(lambda _: story.get("/2/locks") == [], "all locks are free")
    for name in explained:
        story.command("explain", name)
    events = journals.read(story.lab)
    kinds = _kinds(story)
    parts = {
        "script": story.lines,
        "jobs": _jobs(story),
        "rounds": _rounds(story),
        "incidents": _incidents(story),
        "nodes": _nodes(story),
        "instances": _instances(story),
        "replicas": _replicas(story),
        "journals of instances": _instance_journals(events, kinds),
        "journals of nodes": _node_journals(events),
        "roles and peers of replicas": _roles(events),
        "audit log": _audit(story),
        "lab check": story.wrong(),
    }
    text = "".join(f"## {title}\n" + "".join(f"{line}\n" for line in lines) + "\n" for title, lines in parts.items())
    return _normalised(story, text.rstrip("\n") + "\n")


def _normalised(story: Story, text: str) -> str:
    known = {item["uuid"]: item["name"] for path in ("/1/nodes", "/1/instances") for item in story.get(path)}
    known |= {group["uuid"]: group["name"] for group in story.get("/2/groups?bulk=1")}
    labels: dict[str, str] = {uuid: f"<{name}>" for uuid, name in known.items()}
    for found in UUID.findall(text):
        labels.setdefault(found, f"<uuid {len(labels) - len(known) + 1}>")
    for uuid, label in labels.items():
        text = text.replace(uuid, label)
        text = re.sub(rf"\b{uuid[:8]}\b", label, text)
    text = text.replace(str(story.lab.folder), "<lab>")
    text = text.replace(f" by {getpass.getuser()}", " by <user>")
    text = PLAY.sub("<play>", MOMENT.sub("<moment>", SECONDS.sub("<time>", text)))
    return LOSS.sub("<how much>", STATED.sub(r"\1", AGE.sub("<time> ago", text)))


def _kinds(story: Story) -> dict[str, str]:
    """The kind of each opcode, by `JOB/INDEX`."""
    return {
        f"{job['id']}/{index}": opcode["kind"]
        for job in story.get("/1/jobs")
        for index, opcode in enumerate(job["opcodes"])
    }


def _jobs(story: Story) -> Iterator[str]:
    for job in story.get("/1/jobs"):
        after = "".join(f", after {number} ({'|'.join(statuses)})" for number, statuses in job["depends"])
        yield f"{job['id']} {job['status']}, priority {job['priority']}{after}{_note(job['text'])}"
        for source, text, _ in job["reason"]:
            if not source.startswith("gnt:opcode:"):
                yield f"  because {source}: {'<user>' if source.startswith('gnt:client:') else text}"
        details = story.get(f"/2/jobs/{job['id']}")["opcodes"]
        for opcode, detail in zip(job["opcodes"], details, strict=True):
            yield f"  {opcode['kind']}, {opcode['what']}: {opcode['status']}"
            yield f"    with {_json(detail['params'])}"
            yield from (f"    {line}" for line in opcode["text"].splitlines())


def _rounds(story: Story) -> Iterator[str]:
    for each in story.get("/1/rounds"):
        yield f"round {each['round']}: jobs {each['jobs']}{_note(each['problem'])}"
        for job in each["plan"]["jobs"]:
            yield f"  {job['key']}, after {job['after']}, behind {job['behind']}"
        for name, rows in sorted(each["plan"].items()):
            if name != "jobs":
                yield from (f"  {name}: {_json(row)}" for row in rows)


def _incidents(story: Story) -> Iterator[str]:
    for found in sorted(story.get("/1/status"), key=lambda incident: (incident["node_name"], incident["ctime"])):
        yield f"{found['id']} of {found['node_name']}: {found['action']}, {found['repair-status']}"
        shown = {"jobs", "tag", "reason", "original", "original_digest", "serial_no"}
        yield from (f"  {name}: {_json(value)}" for name, value in sorted(found.items()) if name in shown)


def _nodes(story: Story) -> Iterator[str]:
    for found in story.get("/1/nodes"):
        node = story.lab.node(found["name"])
        yield f"{found['name']}: {'has' if node.is_powered() else 'no'} power, runs {node.running()}"
        yield f"  confirmed off: {bool(found['off_confirmed'])}"
        yield from _fields(found)


def _instances(story: Story) -> Iterator[str]:
    for found in story.get("/1/instances"):
        yield found["name"]
        yield from _fields(found)


def _fields(found: Mapping[str, Any]) -> Iterator[str]:
    """The fields of a node or an instance that say something and follow from the script."""
    for name, value in sorted(found.items()):
        if name not in UNSTABLE | {"name"} and value not in (None, [], {}, "", False):
            yield f"  {name}: {_json(value)}"


def _replicas(story: Story) -> Iterator[str]:
    for node in story.lab.nodes():
        replicas = replica_facts.read(node.root, hypervisor="fake").replicas
        if replicas is None:
            yield f"those of {node.name} are not known"
        for fact in replicas or ():
            words = (fact.role, fact.connection, fact.disk, fact.peer_disk)
            state = "{}, {}, {} (its peer: {})".format(*(word.value for word in words))
            yield f"{fact.resource} on {node.name}: {state}"


def _instance_journals(events: Iterable[journals.Event], kinds: Mapping[str, str]) -> Iterator[str]:
    """What happened to each instance, in the order in which it happened on any node."""
    lived = [event for event in events if "instance" in event and event["event"] not in SEEN]
    for name in sorted({event["instance"] for event in lived}):
        yield name
        for event in lived:
            # The lab's own placing of disks and instances has no order of its own.
            if event["instance"] == name and event["opcode"] != "lab up":
                yield f"  {event['node']}: {event['event']} ({_who(event, kinds)}){_more(event)}"


def _node_journals(events: Iterable[journals.Event]) -> Iterator[str]:
    own = [event for event in events if "instance" not in event and event["node"] and event["event"] not in SEEN]
    for event in sorted(own, key=lambda event: str(event["node"])):
        yield f"{event['node']}: {event['event']}{_more(event)}"


def _roles(events: Iterable[journals.Event]) -> Iterator[str]:
    """The roles and connections of each replica, in order; when a resync ended is a clock's matter."""
    states_: dict[tuple[str, str], list[str]] = {}
    for event in events:
        if event["event"] == "replica":
            link = "connected to" if event["is_connected"] else "alone, of"
            state = f"{event['role']} {link} {event['peer']}" if event["role"] else "down"
            states_.setdefault((event["resource"], event["node"]), []).append(state)
    for (resource, node), found in sorted(states_.items()):
        yield f"{resource} on {node}: {' → '.join(state for state, _ in groupby(found))}"


def _who(event: journals.Event, kinds: Mapping[str, str]) -> str:
    by = str(event["opcode"])
    return kinds.get(by, by)


def _more(event: journals.Event) -> str:
    more = {name: value for name, value in event.items() if name not in COUNTED and value not in (None, "", [])}
    return "".join(f", {name} {value}" for name, value in sorted(more.items()))


def _audit(story: Story) -> Iterator[str]:
    """The requests in order, then what jobs did, by job: several end in any order."""
    lines = [line.partition("roundsman.audit: ")[2] for line in story.where.audit_log.read_text().splitlines()]
    if not story.is_answered:
        lines = [line for line in lines if not line.startswith("request ")]
    lines = [re.sub(r"user=\S+ uid=\d+", "user=<user>", line) for line in lines]
    jobs = [line for line in lines if re.match(r"job \d+:", line)]
    yield from (line for line in lines if line not in jobs)
    yield from sorted(jobs, key=lambda line: int(line.split()[1].rstrip(":")))


def _note(text: str | None) -> str:
    return f": {text}" if text else ""


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)
