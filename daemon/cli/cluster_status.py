"""`roundsman status`, `plan`, `explain`, `pause` and `resume`: the cluster as a whole."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...plugins.module_utils.domain.agent import copies
from . import client, completion, durations, explanation, incident, jobs, output, wording

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

Explained = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="The name of a node or of an instance, the id of an incident, or the number of a job.",
        autocompletion=completion.explained,
    ),
]
Reason = Annotated[str, typer.Argument(metavar="REASON", help="Why; everybody sees it.")]
For = Annotated[
    int | None,
    typer.Option(
        "--for",
        metavar="TIME",
        parser=lambda text: durations.seconds(text, what="--for"),
        help="For how long, at most a day, as in 90s, 30m or 2h (default: until `roundsman resume`).",
    ),
]
TROUBLES_SHOWN = 8
"""Each of so many troubles has a line of its own."""
All = Annotated[bool, typer.Option("--all", "-a", help="All nodes by group, with what they hold, also those in order.")]


def install(app: typer.Typer) -> None:
    """Give the application its commands about the whole cluster."""
    app.command(epilog="Example: roundsman status; with all nodes: roundsman status --all")(status)
    app.command(
        epilog="Example: roundsman explain node3; of an instance, an incident, a job: explain web1, 3f2a91c0, 12"
    )(explain)
    app.command(epilog="Example: roundsman pause 'the switch is being replaced' --for 2h")(pause)
    app.command(epilog="Example: roundsman resume")(resume)


def status(ctx: typer.Context, *, every: All = False, form: output.Option = output.Format.TABLE) -> None:
    """Show what is not in order, the most urgent first, with what a person does; then what is done about it."""
    with client.find_daemon(ctx) as daemon:
        if form is output.Format.JSON:
            output.as_json(daemon.text("1", "page"))
            return
        state = daemon.get("1", "page")
    told, others = _counts(state)
    hint = "" if every else " (all nodes: --all)"
    output.line(f"Cluster {state['cluster']}, master {state['master']}; in order: {told}{hint}.")
    if state["paused"]:
        output.line(f"Maintenance is paused: {state['paused']}", style="bold yellow")
    for line in explanation.failing(state["failing"], now=time.time()):
        output.line(line, style="bold red")
    _troubles(state["troubles"])
    if every:
        _by_group(state["nodes"], troubles=state["troubles"])
        _copies(state["copies"])
    elif others:
        _nodes(others, troubles=state["troubles"])
    if state["incidents"]:
        output.title("Incidents")
        incident.show(state["incidents"], empty="None.")
    _tags(state)
    _round(state)
    if state["refusals"]:
        output.title("Refused for now")
        _refusals(state["refusals"], nodes=state["nodes"])
    _silent(state)


def plan(ctx: typer.Context, *, form: output.Option = output.Format.TABLE) -> None:
    """Show what a round would do now, in which order, and what is refused; nothing is changed."""
    if ctx.invoked_subcommand is not None:
        return
    with client.find_daemon(ctx) as daemon:
        if form is output.Format.JSON:
            output.as_json(daemon.text("1", "plan"))
            return
        told = daemon.get("1", "plan")
        nodes = daemon.get("1", "nodes") if told["refusals"] else []
        state = daemon.get("1", "page") if told["waits_for_round"] else None
    if state is not None:
        _round(state)
        output.line("Balancing waits for these jobs, and their instances stay with them.")
        output.title("What follows")
    places = {job["key"]: place for place, job in enumerate(told["jobs"], start=1)}
    rows = [
        (places[job["key"]], wording.job(job, told["names"]), order(job, places), job["reason"]) for job in told["jobs"]
    ]
    if told["held"]:
        output.line(f"Maintenance is held: {told['held']}")
    empty = "" if told["held"] else f"There is nothing {'more ' if state is not None else ''}to do now."
    if rows or empty:
        output.table(("#", "JOB", "AFTER", "WHY"), rows, empty=empty)
    ends_and_refusals(told, nodes=nodes)


def ends_and_refusals(plan: Mapping[str, Any], *, nodes: Iterable[dict[str, Any]]) -> None:
    """Print which incidents end with a plan, what it refuses, and its notes."""
    for uuid in plan["completed"]:
        output.line(f"Incident {wording.short(uuid)} is complete.")
    for uuid, reason in plan["failed"]:
        output.line(f"Incident {wording.short(uuid)} fails: {reason}.")
    if plan["refusals"]:
        output.title("Refused")
        _refusals(plan["refusals"], nodes=nodes)
    for note in plan["notes"]:
        output.line(f"Note: {note}")


def explain(ctx: typer.Context, name: Explained, *, form: output.Option = output.Format.TABLE) -> None:
    """Explain a node: why it is as it is, what happens to it, what to do next. Of an instance: how its replicas are.

    Of an incident: its node. Of a job: its steps, and why it was submitted.
    """
    if name.isdigit():
        jobs.info(ctx, int(name), form=form)
        return
    with client.find_daemon(ctx) as daemon:
        name = _node_of_incident(daemon, name)
        if form is output.Format.JSON:
            output.as_json(daemon.text("1", "explain", name))
            return
        told = daemon.get("1", "explain", name)
    word = explanation.instance_sentences if "instance" in told else explanation.sentences
    for paragraph in word(told, now=time.time()):
        output.line(paragraph)


def _node_of_incident(daemon: client.Daemon, name: str) -> str:
    """The node of an incident with this id, or its first characters; else the name as it is."""
    if not re.fullmatch("[0-9a-f-]{4,36}", name):
        return name
    found = {entry["node_name"] for entry in daemon.get("1", "status") if entry["uuid"].startswith(name)}
    is_name = any(entry["name"] == name for listed in ("nodes", "instances") for entry in daemon.get("1", listed))
    return name if is_name or len(found) != 1 else str(found.pop())


def pause(ctx: typer.Context, reason: Reason, *, limit: For = None) -> None:
    """Start no more rounds until `resume`, or for a time; jobs which are submitted already go on."""
    if not reason.strip():
        raise typer.BadParameter("say why, in a few words", param_hint="REASON")
    if limit == 0:
        raise typer.BadParameter(
            "a pause takes at least a second; leave --for out for one without an end", param_hint="--for"
        )
    with client.find_daemon(ctx) as daemon:
        paused = daemon.put("2", "pause", body={"reason": reason, **({"seconds": limit} if limit else {})})["paused"]
    output.line(f"Maintenance is paused: {paused}. It goes on {'then, or ' if limit else ''}with `roundsman resume`.")


def resume(ctx: typer.Context) -> None:
    """Let rounds start again."""
    with client.find_daemon(ctx) as daemon:
        answer = daemon.put("2", "pause", body={"reason": ""})
        still = daemon.get("1", "page")["paused"]
    if answer.get("paused"):
        output.line("roundsmand is not read-only any more; run this again to end the pause, which is older.")
    output.line(f"Maintenance stays paused: {still}" if still else "Maintenance goes on.")


def _troubles(found: Sequence[Mapping[str, Any]]) -> None:
    """Print the first troubles, which are the most urgent, each with what a person does, and count the others."""
    for trouble in found[:TROUBLES_SHOWN]:
        output.line(f"{trouble['code']}: {trouble['text'].rstrip('.')}.", style="bold red")
        if trouble["step"]:
            output.line(f"  What you do: {trouble['step'].rstrip('.')}.")
    codes = [trouble["code"] for trouble in found[TROUBLES_SHOWN:]]
    if codes:
        counts = ", ".join(f"{codes.count(code)} {code}" for code in dict.fromkeys(codes))
        output.line(f"And {counts}: see `roundsman explain NAME`.", style="bold red")


def _counts(state: Mapping[str, Any]) -> tuple[str, list[dict[str, Any]]]:
    """How many nodes and instances are in order, and the nodes that are not."""
    codes = wording.codes(state["troubles"])
    others = [node for node in state["nodes"] if not wording.is_in_order(node, codes=codes.get(node["name"], ()))]
    up = [entry["name"] for entry in state["instances"] if entry["admin_state"] == "up"]
    names = {trouble["subject"] for trouble in state["troubles"]}
    silent = {name for node in others if node["unreachable"] is not None for name in node["primaries"]}
    fine = len(state["nodes"]) - len(others)
    running = sum(name not in names | silent for name in up)
    return f"{fine} of {len(state['nodes'])} nodes, {running} of {len(up)} instances that should run", others


def _nodes(found: Iterable[Mapping[str, Any]], *, troubles: Sequence[Mapping[str, Any]]) -> None:
    """Print a row for each of these nodes, without the names of what they hold."""
    codes = wording.codes(troubles)
    output.line()
    rows = [
        (
            node["name"],
            node["group"],
            node["role"],
            wording.health(node, codes=codes.get(node["name"], ())),
            wording.power(node),
            f"{len(node['primaries'])} ({len(node['secondaries'])})",
        )
        for node in found
    ]
    output.table(("NODE", "GROUP", "ROLE", "HEALTH", "POWER", "INSTANCES (COPIES)"), rows)


def _by_group(found: list[dict[str, Any]], *, troubles: Sequence[Mapping[str, Any]]) -> None:
    codes = wording.codes(troubles)
    for group in dict.fromkeys(node["group"] for node in found):
        output.title(f"Group {group}")
        rows = [
            (
                node["name"],
                node["role"],
                wording.health(node, codes=codes.get(node["name"], ())),
                wording.power(node),
                wording.memory(node),
                " ".join([*node["primaries"], *(f"({name})" for name in node["secondaries"])]),
            )
            for node in found
            if node["group"] == group
        ]
        output.table(("NODE", "ROLE", "HEALTH", "POWER", "MEMORY", "INSTANCES (COPIES)"), rows)


def _copies(found: Sequence[Mapping[str, Any]]) -> None:
    if not found:
        return
    output.title("Copies of the configuration")
    now = time.time()
    rows = [
        (
            entry["node"],
            entry["serial_no"],
            f"{wording.age(entry['confirmed'], now=now)} ago" if entry["confirmed"] else "-",
            "yes" if entry["is_newest"] else "no, it is off" if entry["is_off"] else "no",
            ", ".join(f"/{name}" for name in entry["lacks"]) or "-",
        )
        for entry in found
    ]
    output.table(("NODE", "VERSION", "KEPT", "NEWEST", "LACKS, TO LEAD"), rows)
    output.line(f"A node that is taken out of `configuration_copies` keeps its copy: remove /{copies.FILE} there.")


def _round(state: dict[str, Any]) -> None:
    if not state["at_work"]:
        output.title(f"No round is at work; {state['round']} have been so far")
        return
    ended = sum(job["status"] in wording.FINAL for job in state["jobs"])
    output.title(f"Round {state['round']} is at work: {ended} of {len(state['jobs'])} jobs have ended")
    jobs.show(state["jobs"], empty="It has no jobs.")


def _silent(state: dict[str, Any]) -> None:
    now = time.time()
    silent = [node for node in state["nodes"] if node["unreachable"] and not node["offline"]]
    if silent:
        output.title("Unreachable nodes")
        rows = [
            (
                node["name"],
                wording.age(node["unreachable"]["time"], now=now),
                "; ".join(filter(None, (node["unreachable"]["text"], node["deaf"]))),
            )
            for node in silent
        ]
        output.table(("NODE", "LAST TRIED", "WHY"), rows)
    if state["poll_problem"]:
        output.title("The last poll of the nodes failed")
        output.line(state["poll_problem"])
    if state["rejected"]:
        output.title("Rejected reports")
        output.table(("REASON", "COUNT"), sorted(state["rejected"].items()))
        output.line("The newest of them, each with its reason, are in /var/lib/roundsman/rejected.")
    if "unreadable" in state["rejected"]:
        output.line("unreadable: roundsmand's user may not read a file in its spool; make reports readable (0644).")


def _tags(state: dict[str, Any]) -> None:
    carried = {node["name"]: node["tags"] for node in state["nodes"]}
    for entry in state["incidents"]:
        if entry["tag"] and entry["tag"] in carried.get(entry["node_name"], ()):
            output.line(f"Tag {entry['tag']} is on {entry['node_name']}.")


def _refusals(found: Iterable[dict[str, Any]], *, nodes: Iterable[dict[str, Any]]) -> None:
    names = {node["name"] for node in nodes}
    subjects: dict[tuple[str, str, str], list[str]] = {}
    for refusal in found:
        kind = "nodes" if refusal["subject"] in names else "instances"
        subjects.setdefault((kind, refusal["reason"], refusal["unblock"]), []).append(refusal["subject"])
    rows = [
        (wording.counted(list(dict.fromkeys(same)), kind), reason, unblock or "nothing")
        for (kind, reason, unblock), same in subjects.items()
    ]
    output.table(("WHAT", "WHY NOT", "WHAT WOULD UNBLOCK IT"), rows)


def order(job: Mapping[str, Any], places: Mapping[str, int]) -> str:
    """After which other jobs of a plan one comes, by their numbers in `places`."""
    after = [str(places[key]) for key in job["after"] if key in places]
    behind = [f"end of {places[key]}" for key in job["behind"] if key in places]
    earlier = [f"end of job {number}" for number in job["earlier"]]
    return ", ".join(after + behind + earlier)
