"""`roundsman node`: the nodes, their roles, and a person's word that one has no power."""

from __future__ import annotations

import enum
import json
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...plugins.module_utils.domain.values import errors
from ...plugins.plugin_utils.disks import replica_texts
from . import client, completion, durations, jobs, node_joining, node_power, output, parameters, questions, wording

if TYPE_CHECKING:
    from collections.abc import Iterator

app = typer.Typer(help="Nodes: their roles and their power.", no_args_is_help=True)
app.add_typer(node_power.power, name="power")
app.command(epilog="Example: roundsman node health node3")(node_power.health)
app.command(
    epilog="Example: roundsman node add node4 -g rack2 primary_ip=192.0.2.4 mtotal=65536 hostvars.ansible_user=root; "
    "repaired: roundsman node add node4 --readd"
)(node_joining.add)

Name = Annotated[str, typer.Argument(metavar="NODE", help="The node's name.", autocompletion=completion.nodes)]
Names = Annotated[
    list[str] | None,
    typer.Argument(metavar="[NODE]…", help="The nodes' names; without any, all.", autocompletion=completion.nodes),
]
Force = Annotated[bool, typer.Option("--force", help="Skip the checks that protect instances.")]
Submit = Annotated[bool, typer.Option("--submit", help="Print the job's number and do not wait for its end.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


class YesNo(enum.Enum):
    """A flag as it is written on the command line."""

    YES = "yes"
    NO = "no"


@app.command(
    epilog="Example: roundsman node confirm-off node3; seen before: roundsman node confirm-off node3 --since "
    "'2026-03-01 14:05 UTC'"
)
def confirm_off(
    ctx: typer.Context,
    name: Name,
    *,
    since: durations.Since = None,
    undo: Annotated[
        bool, typer.Option("--undo", help="Take the statement back: the node may have power again.")
    ] = False,
    confirm: Annotated[str, typer.Option(metavar="NODE", help="The node's name again, instead of typing it.")] = "",
    submit: Submit = False,
) -> None:
    """State that you have seen that a node has no power and keeps none, which its BMC cannot say.

    Its instances may be started elsewhere then: should it run after all, they run twice and their disks are lost.
    What a failover may have lost is printed before; it needs --max-loss, as nothing but your word says since when the
    node is off. The statement ends when the node is powered on from here, when it reports or shows any other sign of
    life, or when it is taken back with --undo.
    """
    if undo and since is not None:
        raise typer.BadParameter("--since does not go with --undo")
    given = {} if since is None else {"since": since}
    with client.find_daemon(ctx) as daemon:
        if not undo:
            told = daemon.get("2", "nodes", name, "confirm-off", **given)
            for text in _consequences(told):
                output.warning(text)
        if not undo and confirm != name:
            question = f"Have you seen that {name} has no power, and will it stay so? Type its name:"
            questions.typed(name, question=question, instead=f"--confirm {name}")
        job = daemon.put("2", "nodes", name, "confirm-off", undo=int(undo), **given)
        jobs.submitted(daemon, job, submit=submit)


def _consequences(told: dict[str, Any]) -> Iterator[str]:
    """What a failover may lose once the node is stated to be off."""
    yield f"{told['node']} would be off since {replica_texts.clock(told['since'])} by the word of {told['by']}."
    for found in told["instances"]:
        loss = found["loss"] or "no number for the possible loss"
        why = f": {found['reason']}. What would unblock it: {found['unblock']}" if found["reason"] else ""
        yield f"  {found['instance']}: {loss}{why}."


@app.command("list", epilog="Example: roundsman node list -o json")
def list_(ctx: typer.Context, *, form: output.Option = output.Format.TABLE) -> None:
    """List the nodes with their role, health and power."""
    with client.find_daemon(ctx) as daemon:
        if form is output.Format.JSON:
            output.as_json(daemon.text("1", "nodes"))
            return
        found = daemon.get("1", "nodes")
    now, has_agents = time.time(), any(node["agent"] for node in found)
    headers = ("NODE", "GROUP", "ROLE", "HEALTH", "POWER", "MEMORY", "PRIMARIES", "COPIES")
    rows = [
        (
            node["name"],
            node["group"],
            node["role"],
            wording.health(node),
            wording.power(node),
            wording.memory(node),
            len(node["primaries"]),
            len(node["secondaries"]),
            *([wording.agent(node["agent"], now=now)] if has_agents else []),
        )
        for node in found
    ]
    output.table((*headers, *(["AGENT"] if has_agents else [])), rows, empty="There are no nodes.")


@app.command(epilog="Example: roundsman node info node3 node4")
def info(ctx: typer.Context, names: Names = None, *, form: output.Option = output.Format.TABLE) -> None:
    """Show nodes, all of them when none is named; as JSON one node is an object, and several are a list."""
    with client.find_daemon(ctx) as daemon:
        text = daemon.text("1", "nodes")
    wanted = names if names is not None else [node["name"] for node in json.loads(text)]
    found = [output.selected(text, name=name, kind="node") for name in dict.fromkeys(wanted)]
    if form is output.Format.JSON:
        written = [node.text for node in found]
        output.as_json(written[0] if names and len(written) == 1 else f"[{','.join(written)}]")
        return
    for place, node in enumerate(found):
        if place:
            output.line("")
        _facts(node.value)


def _facts(node: dict[str, Any]) -> None:
    problem, unreachable = node["problem"], node["unreachable"]
    output.facts(
        [
            ("Node", node["name"]),
            ("UUID", node["uuid"]),
            ("Group", node["group"]),
            ("Role", node["role"]),
            ("Health", wording.health(node)),
            *([("Refused", f"{node['refused']['text']}; {node['refused']['remedy']}")] if node["refused"] else []),
            *([("Diagnose command", node["diagnose_difference"])] if node["diagnose_difference"] else []),
            *([("Problem", problem["text"])] if problem else []),
            *([("Unreachable", unreachable["text"])] if unreachable else []),
            *([("Agent", wording.agent(node["agent"], now=time.time()))] if node["agent"] else []),
            *([("Powered", f"{wording.power(node)} (on record)")] if node["powered"] is not None else []),
            ("Memory", wording.memory(node)),
            ("Primaries", " ".join(node["primaries"])),
            ("Secondaries", " ".join(node["secondaries"])),
            *([("Left behind", " ".join(node["left_behind"]))] if node["left_behind"] else []),
            ("Tags", " ".join(node["tags"])),
        ]
    )


@app.command(epilog="Example: roundsman node drain node3")
def drain(ctx: typer.Context, name: Name, *, force: Force = False, submit: Submit = False) -> None:
    """Let no new instances go to a node."""
    _role(ctx, name, "drained", force=force, submit=submit)


@app.command(epilog="Example: roundsman node undrain node3")
def undrain(ctx: typer.Context, name: Name, *, force: Force = False, submit: Submit = False) -> None:
    """Let instances go to a drained node again."""
    _role(ctx, name, "undrained", force=force, submit=submit)


@app.command(epilog="Example: roundsman node offline node3")
def offline(ctx: typer.Context, name: Name, *, force: Force = False, submit: Submit = False) -> None:
    """Take a node out of service: nothing but its BMC is contacted any more.

    Power a dead node off first (`roundsman node power off NODE --force`, or `roundsman node confirm-off NODE`). If it
    is known to be off only after it was set offline, its DRBD instances may fail over only with --ignore-consistency.
    """
    _role(ctx, name, "offline", force=force, submit=submit)


@app.command(epilog="Example: roundsman node online node3")
def online(ctx: typer.Context, name: Name, *, force: Force = False, submit: Submit = False) -> None:
    """Bring a repaired node back: its power is confirmed and it must report Ok, unless forced.

    A node that still runs an instance whose primary is another node is refused, forced or not.
    """
    _role(ctx, name, "online", force=force, submit=submit)


@app.command("reset-report-floor", epilog="Example: roundsman node reset-report-floor node3")
def reset_report_floor(ctx: typer.Context, name: Name) -> None:
    """Accept a node's reports again after one that was dated ahead because a clock was wrong.

    Reports made before this moment stay refused, so no captured report is accepted again.
    """
    with client.find_daemon(ctx) as daemon:
        ahead = daemon.put("2", "nodes", name, "reset-report-floor")["seconds_ahead"]
    if ahead:
        output.line(f"The last report of {name} was dated {ahead:.0f} s ahead; reports made from now on count again.")
    else:
        output.line(f"The last report of {name} is not dated ahead; there is nothing to reset.")


@app.command(
    epilog="Example: roundsman node modify node3 oob_program=default vm_capable=no --powered no. Host variables are "
    "merged: hostvars.ansible_port=222 sets one and leaves the others, hostvars.ansible_port=default (or an empty "
    "value) removes it."
)
def modify(
    ctx: typer.Context,
    name: Name,
    given: parameters.Given = [],  # noqa: B006 - Typer's way to say that there may be none
    *,
    powered: Annotated[YesNo | None, typer.Option(help="The power state of record; the same as powered=…")] = None,
    submit: Submit = False,
    dry_run: parameters.DryRun = False,
    form: output.Option = output.Format.TABLE,
) -> None:
    """Set parameters of a node: group, addresses, sizes, flags, oob_program, powered (on record) or host variables.

    `exclusive_storage`, `spindle_count` and `cpu_speed` are inherited from group and cluster: so again by `default`.
    """
    if powered is not None:
        if any(parameter.startswith("powered=") for parameter in given):
            raise errors.InvalidInput("--powered and powered=… are the same: give one of them")
        given = [*given, f"powered={powered.value}"]
    path = ("nodes", name, "modify")
    parameters.modify(ctx, *path, given=given, method="POST", submit=submit, dry_run=dry_run, form=form)


@app.command(epilog="Example: roundsman node remove node4")
def remove(ctx: typer.Context, name: Name, *, yes: Yes = False, submit: Submit = False) -> None:
    """Take an empty node out of the cluster."""
    questions.confirm(f"Remove {name} from the cluster?", yes=yes)
    with client.find_daemon(ctx) as daemon:
        jobs.submitted(daemon, daemon.delete("2", "nodes", name), submit=submit)


def _role(ctx: typer.Context, name: str, role: str, *, force: bool, submit: bool) -> None:
    with client.find_daemon(ctx) as daemon:
        job = daemon.put("2", "nodes", name, "role", body=role, force=int(force))
        jobs.submitted(daemon, job, submit=submit)
