"""`roundsman lab break`, `fix` and `cut`: let a lab's node fail in some way, and end its faults."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ...plugins.module_utils.domain.values import errors
from ..lab import breaking, building, chassis, standing_faults, world
from . import fault_options, lab

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence


NEXT_POLL = "the daemon sees it at its next poll"

BREAK_EXAMPLES = """Examples:

roundsman lab break node3 --status evacuate --details '{"disk":"sdb"}'

roundsman lab break node3 --link node2

roundsman lab break node3 --slow-stop instance7=60 --late 5

roundsman lab break node3 --reboot --boot-seconds 20

roundsman lab break node3 --bmc stale-off --power"""
FIX_EXAMPLES = """Examples:

roundsman lab fix

roundsman lab fix node3

roundsman lab fix node3 --link node2"""


def install(app: typer.Typer) -> None:
    """Add the commands that break and fix nodes to `roundsman lab`."""
    app.command("break", epilog=BREAK_EXAMPLES)(break_)
    app.command(epilog=FIX_EXAMPLES)(fix)
    app.command(epilog="Example: roundsman lab cut node3")(cut)


def break_(
    ctx: typer.Context,
    node: lab.Node,
    *,
    status: fault_options.Status = None,
    details: fault_options.Details = None,
    command: fault_options.Command = None,
    link: fault_options.Peers = None,
    disk: fault_options.Disks = None,
    hang: fault_options.Hang = False,
    silent: fault_options.Silent = False,
    agent: fault_options.Agent = False,
    ssh: fault_options.Ssh = False,
    replication: fault_options.Replication = False,
    loss: fault_options.Loss = None,
    lies: fault_options.Lies = False,
    clock: fault_options.Clock = None,
    full: fault_options.Full = False,
    slow_resync: fault_options.SlowResync = None,
    garbage: fault_options.Garbage = None,
    late: fault_options.Late = None,
    slow_stop: fault_options.SlowStop = None,
    ignore_stop: fault_options.IgnoreStops = None,
    crash: fault_options.Crash = None,
    user_shutdown: fault_options.UserShutdown = None,
    autostart: fault_options.Autostarts = None,
    migration: fault_options.Migration = None,
    bmc: fault_options.Bmc = None,
    panic: fault_options.Panic = False,
    reboot: fault_options.Reboot = False,
    boot_seconds: fault_options.BootSeconds = None,
    power: fault_options.Power = False,
    rack: fault_options.Rack = None,
    returns: fault_options.Returns = None,
    folder: lab.LiveFolder = None,
) -> None:
    """Break a node: what it reports, its links, disks, instances, answers, BMC or power. `lab fix` ends the faults.

    All options are checked first: an invalid one (exit status 2), or an instance, replica or node that this lab does
    not have (exit status 1), changes nothing.
    """
    where = lab.find(ctx, folder)
    found = where.find_node(node)
    wanted = breaking.Wanted(
        status=status,
        details=details,
        command=command,
        link=_names(link),
        disk=_names(disk),
        hang=hang,
        silent=silent,
        agent=agent,
        ssh=ssh,
        replication=replication,
        loss=loss,
        lies=lies,
        clock=clock,
        full=full,
        slow_resync=slow_resync,
        returns=returns,
        rack=_names(rack),
        panic=panic,
        garbage=garbage,
        late=late,
        slow_stop=slow_stop or (),
        ignore_stop=ignore_stop or (),
        crash=crash or (),
        user_shutdown=user_shutdown or (),
        autostart=_names(autostart),
        migration=migration,
        bmc=bmc or (),
        reboot=reboot,
        boot_seconds=boot_seconds,
        power=power,
    )
    try:
        steps = breaking.plan(where, found, wanted)
    except errors.InvalidInput as error:
        raise _usage(error) from error
    for step in steps:
        step.apply()
    typer.echo(f"{node}: {'; '.join(step.text for step in steps)}; {NEXT_POLL}")


def fix(
    ctx: typer.Context,
    node: Annotated[str, typer.Argument(help="The name of the node. Default: all nodes.")] = "",
    *,
    status: Annotated[bool, typer.Option("--status", help="Only its report: back to Ok.")] = False,
    link: fault_options.Peers = None,
    disk: fault_options.Disks = None,
    cut_: Annotated[bool, typer.Option("--cut", help="Only the cut by `lab cut`.")] = False,
    hang: Annotated[bool, typer.Option("--hang", help="Only the hanging commands.")] = False,
    silent: Annotated[bool, typer.Option("--silent", help="Only the cut management link.")] = False,
    agent: Annotated[bool, typer.Option("--agent", help="Only the agent that is cut off.")] = False,
    ssh: Annotated[bool, typer.Option("--ssh", help="Only SSH that is cut off.")] = False,
    replication: Annotated[bool, typer.Option("--replication", help="Only the cut of all replication links.")] = False,
    loss: Annotated[bool, typer.Option("--loss", help="Only the loss of packets to its agent.")] = False,
    lies: Annotated[bool, typer.Option("--lies", help="Only the claims of its agent.")] = False,
    clock: Annotated[bool, typer.Option("--clock", help="Only its clock.")] = False,
    full: Annotated[bool, typer.Option("--full", help="Only the full volume groups.")] = False,
    slow_resync: Annotated[bool, typer.Option("--slow-resync", help="Only the slow resync.")] = False,
    returns: Annotated[bool, typer.Option("--returns", help="Only that it powers on by itself.")] = False,
    panic: Annotated[bool, typer.Option("--panic", help="Only the panic: reset the node.")] = False,
    garbage: Annotated[bool, typer.Option("--garbage", help="Only the garbage in its answers.")] = False,
    late: Annotated[bool, typer.Option("--late", help="Only the delay of its answers.")] = False,
    slow_stop: Annotated[
        list[str] | None, typer.Option(metavar="INSTANCE", help="Only the slow soft stop of this instance.")
    ] = None,
    ignore_stop: Annotated[
        list[str] | None, typer.Option(metavar="INSTANCE", help="Only the ignored soft stops of this instance.")
    ] = None,
    autostart: fault_options.Autostarts = None,
    migration: Annotated[bool, typer.Option("--migration", help="Only the failing migrations.")] = False,
    bmc: Annotated[list[str] | None, typer.Option(metavar="FAULT", help="Only this fault of its BMC.")] = None,
    reboot: Annotated[bool, typer.Option("--reboot", help="Only a reboot that is under way.")] = False,
    power: Annotated[bool, typer.Option("--power", help="Only the power cut by `lab break --power`.")] = False,
    folder: lab.LiveFolder = None,
) -> None:
    """End faults of a node or of all nodes: all of them, or those that the options name.

    A cut link can be fixed at either end. Nodes that were powered off on purpose stay off, and instances that ended
    stay down.
    """
    where = lab.find(ctx, folder)
    nodes = [where.find_node(node)] if node else where.nodes()
    named = {"link": link, "disk": disk, "slow-stop": slow_stop, "ignore-stop": ignore_stop, "autostart": autostart}
    flags = {
        "cut": cut_,
        "hang": hang,
        "silent": silent,
        "agent": agent,
        "garbage": garbage,
        "late": late,
        "migration": migration,
    }
    flags |= {"ssh": ssh, "replication": replication, "loss": loss, "lies": lies, "clock": clock, "full": full}
    flags |= {"slow-resync": slow_resync, "returns": returns, "panic": panic, "reboot": reboot, "power": power}
    wanted = [(option, _about(option, text)) for option, names in {**named, "bmc": bmc}.items() for text in names or []]
    _check(where, nodes, wanted)
    wanted += [(option, "") for option, is_wanted in flags.items() if is_wanted]
    for found in nodes:
        ended = [fault for option, about in wanted for fault in standing_faults.fix(found, option, about)]
        if not wanted and not status:
            ended = standing_faults.fix(found)
        if status or not wanted:
            building.write_commands(found)
            found.say(world.OK)
        typer.echo(f"{found.name}: {_fixed(found, ended, reports=status or not wanted)}")


def cut(ctx: typer.Context, node: lab.Node, folder: lab.LiveFolder = None) -> None:
    """Cut all links of a node, management and replication; its instances keep running."""
    lab.find(ctx, folder).find_node(node).cut(is_cut=True)
    typer.echo(f"{node}: its links are cut, its instances keep running; {NEXT_POLL}")


def _names(given: list[str] | None) -> Sequence[str]:
    """The names of a repeatable option, each once."""
    return tuple(dict.fromkeys(given or ()))


def _usage(error: errors.InvalidInput) -> Exception:
    """A usage error, unless the input is valid and only names what this lab does not have."""
    return error if isinstance(error, errors.NotFound) else typer.BadParameter(str(error))


def _about(option: str, text: str) -> str:
    """What a fault is about: `--slow-stop` may be given with its seconds, as `lab status` prints it."""
    return text.partition("=")[0] if option == "slow-stop" else text


def _check(where: world.Lab, nodes: Iterable[world.LabNode], wanted: Iterable[tuple[str, str]]) -> None:
    """Refuse a fault that cannot be; one that is active can be, though its instance was removed since."""
    active = {(fault.option, fault.about) for node in nodes for fault in standing_faults.standing(node)}
    for option, about in wanted:
        if (option, about) in active or (option, about) == ("bmc", chassis.LATE):
            continue
        CHECKS[option](where, about)


def _check_bmc(_: world.Lab, about: str) -> None:
    try:
        chassis.check_fault(about)
    except errors.InvalidInput as error:
        raise _usage(error) from error


def _check_instance(where: world.Lab, about: str) -> None:
    breaking.check_instances(where, [about])


CHECKS: Mapping[str, Callable[[world.Lab, str], object]] = {
    "link": lambda where, about: where.find_node(about),
    "bmc": _check_bmc,
    **dict.fromkeys(("disk", "slow-stop", "ignore-stop", "autostart"), _check_instance),
}
"""How it is checked what a fault is about, by each repeatable option of `fix`."""


def _fixed(node: world.LabNode, ended: list[standing_faults.Standing], *, reports: bool) -> str:
    parts = [f"ended {' '.join(fault.text for fault in ended)}"] if ended else []
    if reports:
        parts.append(f"its diagnose command prints {world.OK}")
    if not node.is_powered():
        parts.append("its power is off")
    if not ended and not reports:
        return "; ".join(["no such fault is active, nothing changed", *parts])
    return "; ".join([*parts, NEXT_POLL])
