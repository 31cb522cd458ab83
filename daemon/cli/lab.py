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

app = typer.Typer(help="A cluster of simulated nodes on this machine, without root.", no_args_is_help=True)

DEFAULT = Path(".lab/default")
Folder = Annotated[Path, typer.Option("--dir", "-d", help="The folder of the lab.", show_default=True)]
Node = Annotated[str, typer.Argument(help="The name of the node, such as node3.")]


def _lab(folder: Path) -> world.Lab:
    if not (folder / "lab.json").exists():
        raise errors.NotFound(f"there is no lab in {folder}: make one with `roundsman lab up --dir {folder}`")
    return world.Lab(folder.resolve())


def _node(folder: Path, name: str) -> world.LabNode:
    lab = _lab(folder)
    if name not in lab.settings()["nodes"]:
        raise errors.NotFound(f"there is no node {name!r} in the lab {folder}")
    return lab.node(name)


@app.command(epilog="Example: roundsman lab up --nodes 6 --instances 15 --dir .lab/mine")
def up(
    *,
    nodes: Annotated[int, typer.Option(help="How many nodes to make.", min=1, max=1000)] = 6,
    instances: Annotated[int, typer.Option(help="How many instances to make.", min=0, max=20000)] = 15,
    folder: Folder = DEFAULT,
    port: Annotated[int, typer.Option(help="The port of the status page; 0 takes a free one.")] = 0,
    bmc_port: Annotated[int, typer.Option(help="The port of the BMC simulators; 0 takes a free one.")] = 0,
    migration_seconds: Annotated[float, typer.Option(help="How long a live migration takes.", min=0)] = 0.0,
    diagnose_interval: Annotated[
        float, typer.Option(help="Seconds between two polls; 0 turns them off.", min=0)
    ] = 15.0,
) -> None:
    """Make a lab and start its BMC simulators and its daemon; a lab that is there already is started again."""
    if (folder / "lab.json").exists():
        lab = _lab(folder)
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
    typer.echo(f"http://127.0.0.1:{lab.settings()['ports']['http']}")
    processes.start_bmcs(lab)
    processes.start_daemon(lab)
    typer.echo(f"{len(lab.settings()['nodes'])} simulated nodes in {lab.folder}; the page is at /ui")


@app.command(epilog="Example: roundsman lab down --dir .lab/mine --remove")
def down(
    folder: Folder = DEFAULT,
    *,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the lab's folder too.")] = False,
) -> None:
    """End the processes of a lab; its state stays, unless it is removed."""
    lab = _lab(folder)
    processes.down(lab)
    if remove:
        shutil.rmtree(lab.folder)


@app.command(epilog="Example: roundsman lab status -o json")
def status(
    folder: Folder = DEFAULT,
    output: Annotated[str, typer.Option("--output", "-o", help="table or json.")] = "table",
) -> None:
    """Show what is true in the simulated world: power, links, diagnoses, and whether the processes run."""
    lab = _lab(folder)
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
    node: Node,
    status: Annotated[
        str, typer.Option(help="What the node asks for: live-repair, evacuate or evacuate-failover.")
    ] = "evacuate",
    details: Annotated[str, typer.Option(help="Any JSON value, passed through as it is.")] = "null",
    command: Annotated[str, typer.Option(help="The repair command; a live-repair uses lab-repair by default.")] = "",
    folder: Folder = DEFAULT,
) -> None:
    """Change what a node's diagnose command prints from now on."""
    json_values.parse(details)
    chosen = command or (world.REPAIR_COMMAND if status == "live-repair" else "")
    extra = f', "command": {json.dumps(chosen)}' if chosen else ""
    _node(folder, node).say(f'{{"status": {json.dumps(status)}{extra}, "details": {details}}}')


@app.command(epilog="Example: roundsman lab mend node3")
def mend(node: Node, folder: Folder = DEFAULT) -> None:
    """Make a node healthy: it reports Ok, its link and its BMC work. Its power stays as it is."""
    found = _node(folder, node)
    found.say(world.OK)
    found.set_faults([])
    found.cut(is_cut=False)


@app.command(epilog="Example: roundsman lab cut node3")
def cut(node: Node, folder: Folder = DEFAULT) -> None:
    """Cut a node's link: it runs on, and nobody reaches it."""
    _node(folder, node).cut(is_cut=True)


@app.command(epilog="Example: roundsman lab check")
def check(folder: Folder = DEFAULT) -> None:
    """Prove from the nodes' journals that no instance was lost or ran twice and each opcode ran once."""
    wrong = checker.check(_lab(folder))
    for sentence in wrong:
        typer.echo(sentence)
    if wrong:
        raise typer.Exit(1)
    typer.echo("no instance was lost or ran twice, and each opcode ran once")
