"""`roundsman lab`: a whole cluster of simulated nodes on this machine, without root."""

from __future__ import annotations

import json
import shutil
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...plugins.module_utils.domain.values import errors, tree
from ...plugins.plugin_utils import daemon_client
from ...plugins.plugin_utils.cluster import cluster as clusters
from ..lab import building, checker, processes, standing_faults, world
from . import places

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

app = typer.Typer(help="A cluster of simulated nodes on this machine, without root.", no_args_is_help=True)

MOST_WITH_AGENTS = 100
NOTHING_LOST = "no acknowledged write was lost"
ASKED = "instances that are down and open incidents were checked against `roundsman explain`"
NOT_ASKED = (
    "instances that are down and open incidents were not checked against `roundsman explain`: roundsmand does not run"
)

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


def find(ctx: typer.Context, given: Path | None, *, strict: bool = False) -> world.Lab:
    """The lab that a command means; `strict`: of several none, though only one runs."""
    folder = places.lab(ctx, given, runs=None if strict else _runs)
    if not places.is_lab(folder):
        raise errors.NotFound(f"there is no lab in {folder}: make one with `roundsman lab up --dir {folder}`")
    return world.Lab(folder.resolve())


def _runs(folder: Path) -> bool:
    return processes.is_running(world.Lab(folder.resolve()), "daemon")


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
    agents: Annotated[
        bool, typer.Option("--agents/--no-agents", help="Run the node agent on each node, and poll by agents.")
    ] = True,
) -> None:
    """Make a lab and start its BMCs, its nodes' agents and its daemon; a lab that is there already is started again."""
    folder = places.given(ctx, given) or places.new_lab()
    if places.is_lab(folder):
        lab = world.Lab(folder.resolve())
        _agree(ctx, lab, folder)
        building.write_missing_host_variables(lab)
        if not processes.is_running(lab, "daemon"):
            building.write_missing_disks(lab)
    else:
        if agents and nodes > MOST_WITH_AGENTS:
            raise errors.Refused(f"agents of more than {MOST_WITH_AGENTS} nodes take too much memory: add --no-agents")
        ports = {
            "http": port or processes.free_port(),
            "bmc": bmc_port or processes.free_port(socket.SOCK_DGRAM),
            **({"agent": processes.free_port()} if agents else {}),
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
    processes.start_agents(lab)
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
    lab = find(ctx, folder, strict=True)
    processes.down(lab)
    if remove:
        shutil.rmtree(lab.folder)
    typer.echo(f"The processes of the lab in {lab.folder} have ended{', and the folder is removed' if remove else ''}.")


@app.command(epilog="Example: roundsman lab status -o json")
def status(
    ctx: typer.Context,
    folder: LiveFolder = None,
    output: Annotated[str, typer.Option("--output", "-o", help="table or json.")] = "table",
) -> None:
    """Show what is true in the simulated world: power, links, reports, faults, and whether the processes run."""
    lab = find(ctx, folder)
    rows: list[dict[str, Any]] = [
        {
            "node": node.name,
            "power": "on" if node.is_powered() else "off",
            "reached": node.answers(),
            "diagnosis": node.diagnosis.read_text().strip(),
            "bmc_faults": sorted(node.faults()),
            "faults": [fault.text for fault in standing_faults.standing(node)],
        }
        for node in lab.nodes()
    ]
    names = ("daemon", "bmcs", *(("agents",) if lab.agent_port else ()))
    running = {name: processes.is_running(lab, name) for name in names}
    if output == "json":
        typer.echo(json.dumps({"processes": running, "nodes": rows}))
        return
    typer.echo("  ".join(f"{name}: {'runs' if runs else 'stopped'}" for name, runs in running.items()))
    for row in rows:
        reached = "" if row["reached"] else "  not reached"
        faults = f"  {' '.join(row['faults'])}" if row["faults"] else ""
        typer.echo(f"{row['node']:10} {row['power']:4} {row['diagnosis']}{reached}{faults}")


@app.command(epilog="Example: roundsman lab check")
def check(ctx: typer.Context, folder: LiveFolder = None) -> None:
    """Prove from the nodes' journals that nothing was lost or done twice; for a lab at rest.

    Every acknowledged write that is gone is counted, in writes and seconds; a loss is wrong unless it was stated, and
    within failover_max_loss or accepted by a person. No instance stayed down that could run elsewhere, none ran twice,
    no newest replica was destroyed, no opcode ran twice; what is down or open has a reason or a next step
    in `roundsman explain`: that is checked only while the daemon runs.
    """
    lab = find(ctx, folder)
    is_asked = _runs(lab.folder)
    wrong = checker.check(lab, explain=_explain(lab) if is_asked else None)
    for sentence in wrong:
        typer.echo(sentence)
    gone = checker.lost(lab)
    for loss in gone:
        if not loss.problem:
            typer.echo(loss.text)
    if not wrong:
        writes = (
            f"{sum(loss.writes for loss in gone)} acknowledged writes are gone, all as allowed"
            if gone
            else NOTHING_LOST
        )
        typer.echo(f"{writes}; no instance was lost or ran twice, and each opcode ran once")
    typer.echo(ASKED if is_asked else NOT_ASKED)
    if wrong:
        raise typer.Exit(1)


def _explain(lab: world.Lab) -> Callable[[str], Mapping[str, Any]]:
    def explained(node: str) -> Mapping[str, Any]:
        with daemon_client.connected(tree.Tree(lab.controller).socket, seconds=60) as client:
            told: Mapping[str, Any] = client.get(f"/1/explain/{node}").raise_for_status().json()
            return told

    return explained
