"""`roundsman node`: the nodes, their roles and their power."""

from __future__ import annotations

from typing import Annotated

import typer

from . import client, completion, jobs, output, parameters, questions, wording

app = typer.Typer(help="Nodes: their roles and their power.", no_args_is_help=True)
power = typer.Typer(help="Power, through the node's BMC.", no_args_is_help=True)
app.add_typer(power, name="power")

Name = Annotated[str, typer.Argument(metavar="NODE", help="The node's name.", autocompletion=completion.nodes)]
Force = Annotated[bool, typer.Option("--force", help="Skip the checks that protect instances.")]
Submit = Annotated[bool, typer.Option("--submit", help="Print the job's number and do not wait for its end.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


@app.command("list", epilog="Example: roundsman node list -o json")
def list_(ctx: typer.Context, *, form: output.Option = output.Format.TABLE) -> None:
    """List the nodes with their role, health and power."""
    with client.of(ctx) as daemon:
        if form is output.Format.JSON:
            output.as_json(daemon.text("1", "nodes"))
            return
        found = daemon.get("1", "nodes")
    headers = ("NODE", "GROUP", "ROLE", "HEALTH", "POWER", "MEMORY", "PRIMARIES", "COPIES")
    rows = [
        (
            one["name"],
            one["group"],
            one["role"],
            wording.health(one),
            wording.power(one),
            wording.memory(one),
            len(one["primaries"]),
            len(one["secondaries"]),
        )
        for one in found
    ]
    output.table(headers, rows, empty="There are no nodes.")


@app.command(epilog="Example: roundsman node info node3")
def info(ctx: typer.Context, name: Name, *, form: output.Option = output.Format.TABLE) -> None:
    """Show one node."""
    with client.of(ctx) as daemon:
        text = daemon.text("1", "nodes")
    found = output.selected(text, name=name, kind="node")
    if form is output.Format.JSON:
        output.as_json(found.text)
        return
    one = found.value
    problem, unreachable = one["problem"], one["unreachable"]
    output.facts(
        [
            ("Node", one["name"]),
            ("UUID", one["uuid"]),
            ("Group", one["group"]),
            ("Role", one["role"]),
            ("Health", wording.health(one)),
            *([("Problem", problem["text"])] if problem else []),
            *([("Unreachable", unreachable["text"])] if unreachable else []),
            ("Power", wording.power(one)),
            ("Memory", wording.memory(one)),
            ("Primaries", " ".join(one["primaries"])),
            ("Copies of", " ".join(one["secondaries"])),
            ("Tags", " ".join(one["tags"])),
        ]
    )


@power.command(epilog="Example: roundsman node power on node3")
def on(ctx: typer.Context, name: Name, *, force: Force = False, submit: Submit = False) -> None:
    """Power a node on; success is the state read back."""
    _power(ctx, name, "on", force=force, submit=submit)


@power.command(epilog="Example: roundsman node power off node3 --yes")
def off(ctx: typer.Context, name: Name, *, force: Force = False, yes: Yes = False, submit: Submit = False) -> None:
    """Power a node off; it must run no instance, unless forced."""
    questions.confirm(f"Power {name} off?", yes=yes)
    _power(ctx, name, "off", force=force, submit=submit)


@power.command(epilog="Example: roundsman node power cycle node3")
def cycle(ctx: typer.Context, name: Name, *, force: Force = False, yes: Yes = False, submit: Submit = False) -> None:
    """Power a node off and on again; it must run no instance, unless forced."""
    questions.confirm(f"Power-cycle {name}?", yes=yes)
    _power(ctx, name, "cycle", force=force, submit=submit)


@power.command(epilog="Example: roundsman node power status node3")
def status(ctx: typer.Context, name: Name, *, force: Force = False, submit: Submit = False) -> None:
    """Read a node's power state from its BMC."""
    _power(ctx, name, "status", force=force, submit=submit)


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
    """Take a node out of service: nothing but its BMC is contacted any more."""
    _role(ctx, name, "offline", force=force, submit=submit)


@app.command(epilog="Example: roundsman node online node3")
def online(ctx: typer.Context, name: Name, *, force: Force = False, submit: Submit = False) -> None:
    """Bring a mended node back: its power is confirmed and it must report Ok, unless forced."""
    _role(ctx, name, "online", force=force, submit=submit)


@app.command(epilog="Example: roundsman node add node4 primary_ip=192.0.2.4 mtotal=65536 dtotal=1000000 ctotal=16")
def add(
    ctx: typer.Context,
    name: str,
    given: parameters.Given = [],  # noqa: B006 - Typer's way to say that there may be none
    *,
    submit: Submit = False,
    dry_run: parameters.DryRun = False,
) -> None:
    """Add a node; sizes in MiB, `hostvars.NAME=VALUE` are the Ansible variables with which it is reached."""
    fields = [f"name={name}", *given]
    parameters.modify(ctx, "nodes", given=fields, method="POST", submit=submit, dry_run=dry_run)


@app.command(epilog="Example: roundsman node modify node3 oob_program=default vm_capable=no")
def modify(
    ctx: typer.Context,
    name: Name,
    given: parameters.Given,
    *,
    submit: Submit = False,
    dry_run: parameters.DryRun = False,
    form: output.Option = output.Format.TABLE,
) -> None:
    """Set parameters of a node: its group, addresses, sizes, flags, oob_program or host variables."""
    path = ("nodes", name, "modify")
    parameters.modify(ctx, *path, given=given, method="POST", submit=submit, dry_run=dry_run, form=form)


@app.command(epilog="Example: roundsman node remove node4")
def remove(ctx: typer.Context, name: Name, *, yes: Yes = False, submit: Submit = False) -> None:
    """Take an empty node out of the cluster."""
    questions.confirm(f"Remove {name} from the cluster?", yes=yes)
    with client.of(ctx) as daemon:
        jobs.submitted(daemon, daemon.delete("2", "nodes", name), submit=submit)


def _power(ctx: typer.Context, name: str, command: str, *, force: bool, submit: bool) -> None:
    with client.of(ctx) as daemon:
        job = daemon.put("2", "nodes", name, "power", body={"command": command, "force": force})
        jobs.submitted(daemon, job, submit=submit)


def _role(ctx: typer.Context, name: str, role: str, *, force: bool, submit: bool) -> None:
    with client.of(ctx) as daemon:
        job = daemon.put("2", "nodes", name, "role", body=role, force=int(force))
        jobs.submitted(daemon, job, submit=submit)
