"""`roundsman node power` and `roundsman node health`: what the BMCs of nodes do and say (seed 001)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...plugins.module_utils.domain.power import power as power_rules
from ...plugins.module_utils.domain.power import power_record
from ...plugins.module_utils.domain.values import errors
from . import client, completion, output, questions, watching, wording

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

power = typer.Typer(help="Power, through the BMCs of nodes.", no_args_is_help=True)

Names = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[NODE]...",
        help="Nodes; without names, all that support OOB commands.",
        autocompletion=completion.nodes,
        show_default=False,
    ),
]
Force = Annotated[
    bool,
    typer.Option("--force", help="Ask nothing, and skip the checks that protect instances; needs node names or --all."),
]
All = Annotated[
    bool, typer.Option("--all", help="All nodes that support OOB commands; off and cycle leave out the master.")
]
Yes = Annotated[
    bool,
    typer.Option("--yes", "-y", help="Do not ask, unless instances run on the nodes; needs node names or --all."),
]
YesOn = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask, even without node names.")]
Submit = Annotated[bool, typer.Option("--submit", help="Print the job's number and do not wait for its end.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Read the BMCs and say what would change; send nothing.")]
Delay = Annotated[
    float, typer.Option("--power-delay", min=0, max=3600, metavar="SECONDS", help="Between two times ten nodes.")
]
IgnoreStatus = Annotated[
    bool, typer.Option("--ignore-status", help="Do not take the nodes out of service once they are off.")
]
LATER = "{} left service: afterwards `roundsman node power on` and `roundsman node online` bring it back."


@power.command(epilog="Example: roundsman node power on node3 node4")
def on(
    ctx: typer.Context,
    names: Names = None,
    *,
    power_delay: Delay = 2.0,
    everything: All = False,
    force: Force = False,
    yes: YesOn = False,
    dry_run: DryRun = False,
    submit: Submit = False,
    form: output.Option = output.Format.TABLE,
) -> None:
    """Power nodes on, ten at a time; success is the state read back."""
    _refuse_unnamed(names, everything=everything, force=force and not dry_run, yes=False)
    with client.find_daemon(ctx) as daemon:
        chosen = names or _capable(daemon)
        if not (names or force or dry_run):
            questions.confirm(_question("on", chosen), yes=yes)
        body = {"command": "on", "nodes": chosen, "power_delay": power_delay}
        _follow(daemon, _submitted(daemon, body, dry_run=dry_run), submit=submit, form=form)


@power.command(epilog="Example: roundsman node power off node3 node4 --yes")
def off(
    ctx: typer.Context,
    names: Names = None,
    *,
    ignore_status: IgnoreStatus = False,
    everything: All = False,
    force: Force = False,
    yes: Yes = False,
    dry_run: DryRun = False,
    submit: Submit = False,
    form: output.Option = output.Format.TABLE,
) -> None:
    """Power nodes off and mark them offline. Nodes that still run instances require typing `yes`.

    A forced off is sent even to a node that reads off: once its BMC has taken that, the node is known to be off, and
    what a person stated by `node confirm-off` ends.

    Power a dead node off before it is set offline: if it is known to be off only later, its DRBD instances may fail
    over only with --ignore-consistency.
    """
    _refuse_unnamed(names, everything=everything, force=force and not dry_run, yes=yes and not dry_run)
    with client.find_daemon(ctx) as daemon:
        body = _taking(daemon, "off", names, force=force, yes=yes, dry_run=dry_run)
        wanted = {**body, "offline": not ignore_status}
        _follow(daemon, _submitted(daemon, wanted, dry_run=dry_run), submit=submit, form=form)


@power.command(epilog="Example: roundsman node power cycle node3")
def cycle(
    ctx: typer.Context,
    names: Names = None,
    *,
    everything: All = False,
    force: Force = False,
    yes: Yes = False,
    dry_run: DryRun = False,
    submit: Submit = False,
    form: output.Option = output.Format.TABLE,
) -> None:
    """Power nodes off and on again. Nodes that still run instances require typing `yes`."""
    _refuse_unnamed(names, everything=everything, force=force and not dry_run, yes=yes and not dry_run)
    with client.find_daemon(ctx) as daemon:
        body = _taking(daemon, "cycle", names, force=force, yes=yes, dry_run=dry_run)
        _follow(daemon, _submitted(daemon, body, dry_run=dry_run), submit=submit, form=form)


@power.command(epilog="Example: roundsman node power status")
def status(
    ctx: typer.Context, names: Names = None, *, submit: Submit = False, form: output.Option = output.Format.TABLE
) -> None:
    """Read the power state of nodes from their BMCs; what is on record stays as it is."""
    with client.find_daemon(ctx) as daemon:
        body = {"command": "status", "nodes": names or _capable(daemon)}
        _follow(daemon, _submitted(daemon, body, dry_run=False), submit=submit, form=form)


def health(
    ctx: typer.Context, names: Names = None, *, submit: Submit = False, form: output.Option = output.Format.TABLE
) -> None:
    """Read the health of nodes from their BMCs: fans, temperatures, power supplies."""
    with client.find_daemon(ctx) as daemon:
        job = daemon.put("2", "health", body={"nodes": names or _capable(daemon)})
        _follow(daemon, job, submit=submit, form=form)


def _refuse_unnamed(names: list[str] | None, *, everything: bool, force: bool, yes: bool) -> None:
    """Refuse options that suppress the question while all nodes are meant only because none is named.

    Raises:
        Refused: names and --all are missing, or both are given.
    """
    if names and everything:
        raise errors.Refused("give node names or --all, not both")
    if (force or yes) and not names and not everything:
        flag = "--force" if force else "--yes"
        raise errors.Refused(f"{flag} without node names is refused: name the nodes, or add --all for all of them")


def _capable(daemon: client.Daemon, *, but_the_master: bool = False) -> list[str]:
    """The names of all nodes that are not opted out.

    Raises:
        Refused: there is none.
    """
    found = [node for node in daemon.get("1", "nodes") if node["powered"] is not None]
    masters = [node["name"] for node in found if node["role"] == "master"] if but_the_master else []
    if masters:
        output.warning(f"roundsman: {masters[0]} is the master and keeps its power")
    names = [node["name"] for node in found if node["name"] not in masters]
    if not names:
        raise errors.Refused("no node supports OOB commands: set the parameter oob_program of the cluster or of nodes")
    return names


def _question(command: str, names: Sequence[str]) -> str:
    return f"Do you really want to power {command} the following nodes: {', '.join(names)}?"


def _taking(
    daemon: client.Daemon, command: str, names: list[str] | None, *, force: bool, yes: bool, dry_run: bool
) -> dict[str, Any]:
    """The body of a request that takes power, once it is confirmed: who types yes knows which instances stop."""
    chosen = names or _capable(daemon, but_the_master=True)
    running = {} if force or dry_run else _running(daemon, chosen)
    if not running:
        questions.confirm(_question(command, chosen), yes=yes or force or dry_run)
        return {"command": command, "nodes": chosen, "force": force}
    for name, instances in running.items():
        output.warning(f"roundsman: {name} runs {', '.join(instances)}")
    output.warning(f"roundsman: {_question(command, chosen)}")
    questions.typed("yes", question=f"Type yes to power {command} all the same:", instead="--force")
    return {"command": command, "nodes": chosen, "force": True}


def _running(daemon: client.Daemon, names: Sequence[str]) -> dict[str, list[str]]:
    """The instances that run on each of these nodes, where any does; nobody is asked about nodes that do not serve.

    Raises:
        NotFound: there is no such node. Refused: it is opted out.
    """
    nodes = daemon.get("1", "nodes")
    known = {node[key]: node for node in nodes for key in ("uuid", "name")}
    for name in names:
        if name not in known:
            raise errors.NotFound(f"there is no node {name!r}")
        if known[name]["powered"] is None:
            raise errors.Refused(power_rules.NO_OOB.format(known[name]["name"]))
    found: dict[str, list[str]] = {known[name]["name"]: [] for name in names}
    for instance in daemon.get("1", "instances"):
        if instance["primary"] in found and instance["admin_state"] == "up":
            found[instance["primary"]].append(instance["name"])
    return {name: instances for name, instances in found.items() if instances}


def _submitted(daemon: client.Daemon, body: Mapping[str, Any], *, dry_run: bool) -> dict[str, Any]:
    job: dict[str, Any] = daemon.put("2", "power", body=body, **({"dry-run": 1} if dry_run else {}))
    return job


def _follow(daemon: client.Daemon, job: Mapping[str, Any], *, submit: bool, form: output.Format) -> None:
    """Follow the job and print its result for each node; exit with status 1 if any is not as requested."""
    if submit:
        output.line(str(job["id"]))
        return
    found = watching.until_ended(daemon, job["id"], quiet=form is output.Format.JSON)
    rows = next(iter(found.get("results", ())), None)
    if rows is None:
        why = f": {found['text']}" if found["text"] else ""
        raise errors.Failed(f"job {found['id']} ended as {found['status']}{why}")
    step = found["opcodes"][0]
    if form is output.Format.JSON:
        output.as_json(json.dumps(rows))
    else:
        _tell(step, rows)
        if len(found["opcodes"]) > 1 and found["status"] == "success":
            names = [found["names"][opcode["params"]["node"]] for opcode in found["opcodes"][1:]]
            output.line(LATER.format(wording.enumerated(names)))
    if found["status"] != "success":
        _tell_bad(found, step, rows)
        raise typer.Exit(1)


def _tell(step: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> None:
    command, is_check = step["params"].get("command"), step["params"].get("check")
    if step["kind"] == "health":
        items = [(row["name"], *item) for row in rows for item in row["items"] or [("", "UNKNOWN")]]
        output.table(("Node", "Item", "Status"), items)
    elif command == "status":
        output.table(("Node", "Power Status"), [(row["name"], row["after"]) for row in rows])
    else:
        is_forced = bool(step["params"].get("force"))
        told = [
            (
                row["name"],
                row["before"] if is_check else row["after"],
                _foreseen(row, is_forced=is_forced) if is_check else _verdict(row),
            )
            for row in rows
        ]
        output.table(("Node", "Power Status", "Result"), told)


def _verdict(row: Mapping[str, Any]) -> str:
    if not row["confirmed"]:
        return "NOT CONFIRMED"
    return power_record.verdict(power_rules.parse_outcome(row))


def _foreseen(row: Mapping[str, Any], *, is_forced: bool) -> str:
    if not row["confirmed"]:
        return "would not be done"
    if row["command"] == "cycle":
        return "would be off and on again"
    if row["before"] != row["after"]:
        return f"would be {row['after']}"
    return power_record.SENT_AGAIN if is_forced and row["command"] == "off" else "nothing to do"


def _tell_bad(found: Mapping[str, Any], step: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> None:
    bad = [row for row in rows if row["reason"] is not None]
    if not bad:
        output.alarm(f"job {found['id']} ended as {found['status']}: {found['text']}")
        return
    is_read = step["kind"] == "health" or step["params"].get("command") == "status"
    output.alarm(f"{'UNKNOWN' if is_read else 'NOT CONFIRMED'}: {len(bad)} of {len(rows)} nodes")
    for row in bad:
        output.alarm(f"  {row['name']}: {row['text']} ({row['reason']})")
