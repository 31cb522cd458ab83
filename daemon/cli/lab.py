"""`roundsman lab`: a whole cluster of simulated nodes on this machine, without root."""

from __future__ import annotations

import json
import shutil
import socket
from pathlib import Path
from typing import Annotated

import typer

from ...plugins.module_utils.domain import cluster as clusters
from ...plugins.module_utils.domain import errors, json_values
from ..lab import building, checker, processes, world
from . import places

app = typer.Typer(help="A cluster of simulated nodes on this machine, without root.", no_args_is_help=True)

NEXT_POLL = "the daemon hears of it with its next poll"
NewFolder = Annotated[
    Path | None,
    typer.Option("--dir", "-d", help=f"The lab's folder. Default: the global --dir, else {places.NEW}."),
]
Folder = Annotated[
    Path | None,
    typer.Option(
        "--dir", "-d", help=f"The lab's folder. Default: the global --dir, else the only lab below {places.LABS}."
    ),
]
LiveFolder = Annotated[
    Path | None,
    typer.Option(
        "--dir",
        "-d",
        help=f"The lab's folder. Default: the global --dir, else the only (live) lab below {places.LABS}.",
    ),
]
Node = Annotated[str, typer.Argument(help="The name of the node, such as node3.")]


def _lab(ctx: typer.Context, given: Path | None, *, strict: bool = False) -> world.Lab:
    """The lab that a command means; `strict`: of several none, though only one runs."""
    folder = places.lab(ctx, given, runs=None if strict else _runs)
    if not places.is_lab(folder):
        raise errors.NotFound(f"there is no lab in {folder}: make one with `roundsman lab up --dir {folder}`")
    return world.Lab(folder.resolve())


def _runs(folder: Path) -> bool:
    return processes.is_running(world.Lab(folder.resolve()), "daemon")


def _node(ctx: typer.Context, folder: Path | None, name: str) -> world.LabNode:
    lab = _lab(ctx, folder)
    if name not in lab.settings()["nodes"]:
        raise errors.NotFound(f"there is no node {name!r} in the lab {lab.folder}")
    return lab.node(name)


def _agree(ctx: typer.Context, lab: world.Lab, folder: Path) -> None:
    made = building.options(lab)
    given = {name: value for name, value in ctx.params.items() if name in made and _is_given(ctx, name)}
    # Port 0 asks for any port, and the lab has one.
    others = [name for name, value in given.items() if value != made[name] and (value or "port" not in name)]
    if others:
        names = ", ".join("--" + name.replace("_", "-") for name in others)
        raise errors.Refused(
            f"there is a lab in {folder} already: bring it down with --remove, or leave these options out: {names}"
        )


def _is_given(ctx: typer.Context, name: str) -> bool:
    source = ctx.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


@app.command(epilog="Example: roundsman lab up --nodes 6 --instances 15 --dir .lab/mine")
def up(
    ctx: typer.Context,
    *,
    nodes: Annotated[int, typer.Option(help="How many nodes to make.", min=1, max=1000)] = 6,
    instances: Annotated[int, typer.Option(help="How many instances to make.", min=0, max=20000)] = 15,
    given: NewFolder = None,
    port: Annotated[int, typer.Option(help="The port of the status page; 0 takes a free one.")] = 0,
    bmc_port: Annotated[int, typer.Option(help="The port of the BMC simulators; 0 takes a free one.")] = 0,
    migration_seconds: Annotated[float, typer.Option(help="How long a live migration takes.", min=0)] = 0.0,
    diagnose_interval: Annotated[
        float, typer.Option(help="Seconds between two polls; 0 turns them off.", min=0)
    ] = 15.0,
) -> None:
    """Make a lab and start its BMC simulators and its daemon; a lab that is there already is started again."""
    folder = places.given(ctx, given) or places.NEW
    if places.is_lab(folder):
        lab = world.Lab(folder.resolve())
        _agree(ctx, lab, folder)
        building.write_missing_host_variables(lab)
    else:
        ports = {
            "http": port or processes.free_port(),
            "bmc": bmc_port or processes.free_port(socket.SOCK_DGRAM),
        }
        settings = clusters.Settings(
            diagnose_command="lab-diagnose",
            diagnose_interval=diagnose_interval,
            power_off_evacuated=True,
        )
        lab = building.build(
            folder,
            nodes=nodes,
            instances=instances,
            ports=ports,
            settings=settings,
            migration_seconds=migration_seconds,
        )
    address = f"http://127.0.0.1:{lab.settings()['ports']['http']}"
    typer.echo(address)
    processes.start_bmcs(lab)
    processes.start_daemon(lab)
    typer.echo(f"{len(lab.settings()['nodes'])} simulated nodes in {lab.folder}; the page: {address}/ui")


@app.command(epilog="Example: roundsman lab down --dir .lab/mine --remove")
def down(
    ctx: typer.Context,
    *,
    folder: Folder = None,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the lab's folder too.")] = False,
) -> None:
    """End the processes of a lab; its state stays, unless it is removed."""
    lab = _lab(ctx, folder, strict=True)
    processes.down(lab)
    if remove:
        shutil.rmtree(lab.folder)


@app.command(epilog="Example: roundsman lab status -o json")
def status(
    ctx: typer.Context,
    folder: LiveFolder = None,
    output: Annotated[str, typer.Option("--output", "-o", help="table or json.")] = "table",
) -> None:
    """Show what is true in the simulated world: power, links, diagnoses, and whether the processes run."""
    lab = _lab(ctx, folder)
    rows = [
        {
            "node": node.name,
            "power": "on" if node.is_powered() else "off",
            "reached": node.wire.exists(),
            "diagnosis": node.diagnosis.read_text().strip(),
            "bmc_faults": sorted(node.faults()),
        }
        for node in lab.nodes()
    ]
    running = {name: processes.is_running(lab, name) for name in ("daemon", "bmcs")}
    if output == "json":
        typer.echo(json.dumps({"processes": running, "nodes": rows}))
        return
    typer.echo("  ".join(f"{name}: {'runs' if runs else 'stopped'}" for name, runs in running.items()))
    for row in rows:
        reached = "" if row["reached"] else "  not reached"
        typer.echo(f"{row['node']:10} {row['power']:4} {row['diagnosis']}{reached}")


@app.command("break", epilog="""Example: roundsman lab break node3 --status evacuate --details '{"disk":"sdb"}'""")
def break_(
    ctx: typer.Context,
    node: Node,
    *,
    status: Annotated[
        str,
        typer.Option(
            help="What the node asks for: live-repair, evacuate or evacuate-failover; "
            "Ok is health, and anything else is a problem of the node."
        ),
    ] = "evacuate",
    details: Annotated[str, typer.Option(help="Any JSON value, passed through as it is.")] = "null",
    command: Annotated[str, typer.Option(help="The repair command; a live-repair uses lab-repair by default.")] = "",
    folder: LiveFolder = None,
) -> None:
    """Change what a node's diagnose command prints from now on."""
    json_values.parse(details)
    chosen = command or (world.REPAIR_COMMAND if status == "live-repair" else "")
    extra = f', "command": {json.dumps(chosen)}' if chosen else ""
    said = f'{{"status": {json.dumps(status)}{extra}, "details": {details}}}'
    _node(ctx, folder, node).say(said)
    typer.echo(f"{node}: its diagnose command prints {said}; {NEXT_POLL}")


@app.command(epilog="Example: roundsman lab mend node3")
def mend(ctx: typer.Context, node: Node, folder: LiveFolder = None) -> None:
    """Make a node healthy: its commands are there, it reports Ok, its link and its BMC work. Its power stays."""
    found = _node(ctx, folder, node)
    building.write_commands(found)
    found.say(world.OK)
    found.set_faults([])
    found.cut(is_cut=False)
    power = "" if found.is_powered() else ", its power is off"
    typer.echo(f"{node}: its diagnose command prints {world.OK}, its link and its BMC work{power}; {NEXT_POLL}")


@app.command(epilog="Example: roundsman lab cut node3")
def cut(ctx: typer.Context, node: Node, folder: LiveFolder = None) -> None:
    """Cut a node's link: it runs on, and nobody reaches it."""
    _node(ctx, folder, node).cut(is_cut=True)
    typer.echo(f"{node}: its link is cut, what runs there runs on; {NEXT_POLL}")


@app.command(epilog="Example: roundsman lab check")
def check(ctx: typer.Context, folder: LiveFolder = None) -> None:
    """Prove from the nodes' journals that no instance was lost or ran twice and each opcode ran once."""
    wrong = checker.check(_lab(ctx, folder))
    for sentence in wrong:
        typer.echo(sentence)
    if wrong:
        raise typer.Exit(1)
    typer.echo("no instance was lost or ran twice, and each opcode ran once")
