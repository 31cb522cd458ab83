"""`roundsman lab break`, `fix` and `cut`: what goes wrong in a lab, and how it ends."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from ...plugins.module_utils.domain import errors, json_values, tree
from ...plugins.plugin_utils.config import store
from ..lab import building, chassis, world
from . import lab

if TYPE_CHECKING:
    from ..lab import standing_faults

NEXT_POLL = "the daemon hears of it with its next poll"
SLOW_STOP = 30.0

BREAK_EXAMPLES = """Examples:

roundsman lab break node3 --status evacuate --details '{"disk":"sdb"}'

roundsman lab break node3 --link node4

roundsman lab break node3 --slow-stop instance7=60 --late 5

roundsman lab break node3 --reboot --boot-seconds 20

roundsman lab break node3 --bmc stale-off --power"""
FIX_EXAMPLES = """Examples:

roundsman lab fix

roundsman lab fix node3

roundsman lab fix node3 --link node4"""

Peers = Annotated[
    list[str] | None,
    typer.Option("--link", metavar="NODE2", help="The replication link to this node; may be given several times."),
]
Disks = Annotated[
    list[str] | None,
    typer.Option("--disk", metavar="INSTANCE", help="The disk below this instance's replica on the node."),
]
IgnoreStops = Annotated[
    list[str] | None,
    typer.Option("--ignore-stop", metavar="INSTANCE", help="The guest of this instance ignores a soft stop."),
]
Autostarts = Annotated[
    list[str] | None,
    typer.Option("--autostart", metavar="INSTANCE", help="The node itself starts this instance at each boot."),
]


def install(app: typer.Typer) -> None:
    """Give the labs their faults."""
    app.command("break", epilog=BREAK_EXAMPLES)(break_)
    app.command(epilog=FIX_EXAMPLES)(fix)
    app.command(epilog="Example: roundsman lab mend node3")(mend)
    app.command(epilog="Example: roundsman lab cut node3")(cut)


def break_(
    ctx: typer.Context,
    node: lab.Node,
    *,
    status: Annotated[
        str,
        typer.Option(
            help="What the node asks for: live-repair, evacuate or evacuate-failover; "
            "Ok is health, and anything else is a problem of the node. Default without any other fault: evacuate."
        ),
    ] = "",
    details: Annotated[str, typer.Option(help="Any JSON value, passed through as it is.")] = "null",
    command: Annotated[str, typer.Option(help="The repair command; a live-repair uses lab-repair by default.")] = "",
    link: Peers = None,
    disk: Disks = None,
    hang: Annotated[bool, typer.Option("--hang", help="Commands begin on the node and get no further.")] = False,
    silent: Annotated[
        bool, typer.Option("--silent", help="Cut the management link; replication goes on (`lab cut` cuts both).")
    ] = False,
    garbage: Annotated[
        str,
        typer.Option(
            metavar="HOW",
            help="Put garbage before each answer of the node or instead of it, or cut it: before, instead or cut.",
        ),
    ] = "",
    late: Annotated[
        float, typer.Option(metavar="SECONDS", help="Each answer of the node comes so many seconds late.", min=0)
    ] = 0.0,
    slow_stop: Annotated[
        list[str] | None,
        typer.Option(
            metavar="INSTANCE[=SECONDS]",
            help=f"The guest of this instance takes so many seconds for a soft stop (default: {SLOW_STOP:g}).",
        ),
    ] = None,
    ignore_stop: IgnoreStops = None,
    crash: Annotated[
        list[str] | None, typer.Option(metavar="INSTANCE", help="This instance, which runs on the node, crashes.")
    ] = None,
    user_shutdown: Annotated[
        list[str] | None,
        typer.Option(metavar="INSTANCE", help="This instance, which runs on the node, is shut down by its user."),
    ] = None,
    autostart: Autostarts = None,
    migration: Annotated[
        str,
        typer.Option(
            metavar="PHASE",
            help="Migrations from the node fail: before anything moved; during the copy; after the hand-over, when "
            "the instance runs on the target; or paused: the target reboots in the hand-over.",
        ),
    ] = "",
    bmc: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FAULT",
            help=f"A fault of the node's BMC: {', '.join(chassis.FAULTS)}, late=SECONDS, "
            "or of a sensor, such as Fan1=critical.",
        ),
    ] = None,
    reboot: Annotated[bool, typer.Option("--reboot", help="Reboot the node: what runs there dies.")] = False,
    boot_seconds: Annotated[float, typer.Option(help="Seconds for which a rebooting node is away.", min=0)] = 5.0,
    power: Annotated[bool, typer.Option("--power", help="Cut the node's power: what runs there dies.")] = False,
    folder: lab.LiveFolder = None,
) -> None:
    """Break a node: what it reports, its links, disks, instances, answers, BMC or power. `lab fix` is the way back."""
    where = lab.find(ctx, folder)
    found = lab.find_node(where, node)
    _check_nodes(where, node, link or [])
    stops = dict(_seconds(text) for text in slow_stop or [])
    _check_instances(where, [*(disk or []), *stops, *(ignore_stop or []), *(autostart or [])])
    _check_word("--garbage", garbage, world.GARBAGE)
    _check_word("--migration", migration, world.PHASES)
    for fault in bmc or []:
        chassis.check_fault(fault)
    said = [
        *_break_links(found, link or [], is_silent=silent),
        *_break_disks(found, disk or []),
        *_break_answers(found, hangs=hang, garbage=garbage, late=late),
        *_break_guests(found, stops, ignoring=ignore_stop or [], autostarts=autostart or []),
        *_break_migrations(found, migration),
        *_break_bmc(found, bmc or []),
        *_end_instances(found, crashed=crash or [], shut_down=user_shutdown or []),
        *_break_power(found, reboots=reboot, boot_seconds=boot_seconds, loses=power),
    ]
    if status or details != "null" or command or not said:
        said.append(_report(found, status or "evacuate", details=details, command=command))
    typer.echo(f"{node}: {'; '.join(said)}; {NEXT_POLL}")


def fix(
    ctx: typer.Context,
    node: Annotated[str, typer.Argument(help="The name of the node; without it all nodes are fixed.")] = "",
    *,
    status: Annotated[bool, typer.Option("--status", help="Only its report: Ok again.")] = False,
    link: Peers = None,
    disk: Disks = None,
    cut_: Annotated[bool, typer.Option("--cut", help="Only what `lab cut` did.")] = False,
    hang: Annotated[bool, typer.Option("--hang", help="Only that commands hang.")] = False,
    silent: Annotated[bool, typer.Option("--silent", help="Only the management link.")] = False,
    garbage: Annotated[bool, typer.Option("--garbage", help="Only the garbage in its answers.")] = False,
    late: Annotated[bool, typer.Option("--late", help="Only the delay of its answers.")] = False,
    slow_stop: Annotated[
        list[str] | None, typer.Option(metavar="INSTANCE", help="Only the slow soft stop of this instance.")
    ] = None,
    ignore_stop: IgnoreStops = None,
    autostart: Autostarts = None,
    migration: Annotated[bool, typer.Option("--migration", help="Only its migrations.")] = False,
    bmc: Annotated[list[str] | None, typer.Option(metavar="FAULT", help="Only this fault of its BMC.")] = None,
    reboot: Annotated[bool, typer.Option("--reboot", help="Only a reboot that is at work.")] = False,
    power: Annotated[bool, typer.Option("--power", help="Only the power that `lab break --power` cut.")] = False,
    folder: lab.LiveFolder = None,
) -> None:
    """End faults of a node or of all nodes: all of them, or those that the options name.

    Nodes that were powered off on purpose stay off, and instances that died stay down.
    """
    where = lab.find(ctx, folder)
    nodes = [lab.find_node(where, node)] if node else where.nodes()
    named = {"link": link, "disk": disk, "slow-stop": slow_stop, "ignore-stop": ignore_stop, "autostart": autostart}
    flags = {"cut": cut_, "hang": hang, "silent": silent, "garbage": garbage, "late": late, "migration": migration}
    flags |= {"reboot": reboot, "power": power}
    wanted = [(option, about) for option, names in {**named, "bmc": bmc}.items() for about in names or []]
    wanted += [(option, "") for option, is_wanted in flags.items() if is_wanted]
    for found in nodes:
        ended = [fault for option, about in wanted for fault in found.fix(option, about)]
        if not wanted and not status:
            ended = found.fix()
        if status or not wanted:
            building.write_commands(found)
            found.say(world.OK)
        typer.echo(f"{found.name}: {_fixed(found, ended, reports=status or not wanted)}; {NEXT_POLL}")


def mend(ctx: typer.Context, node: lab.Node, folder: lab.LiveFolder = None) -> None:
    """End all faults of a node: another name of `lab fix NODE`."""
    fix(ctx, node, folder=folder)


def cut(ctx: typer.Context, node: lab.Node, folder: lab.LiveFolder = None) -> None:
    """Cut all links of a node: it runs on, and nobody reaches it."""
    lab.find_node(lab.find(ctx, folder), node).cut(is_cut=True)
    typer.echo(f"{node}: its links are cut, what runs there runs on; {NEXT_POLL}")


def _report(node: world.LabNode, status: str, *, details: str, command: str) -> str:
    json_values.parse(details)
    chosen = command or (world.REPAIR_COMMAND if status == "live-repair" else "")
    extra = f', "command": {json.dumps(chosen)}' if chosen else ""
    printed = f'{{"status": {json.dumps(status)}{extra}, "details": {details}}}'
    node.say(printed)
    return f"its diagnose command prints {printed}"


def _break_links(node: world.LabNode, peers: list[str], *, is_silent: bool) -> list[str]:
    for peer in peers:
        node.cut_link(peer, is_cut=True)
    if is_silent:
        node.silence(is_silent=True)
    said = [f"its replication link to {peer} is cut" for peer in peers]
    return [*said, "its management link is cut, replication goes on"] if is_silent else said


def _break_disks(node: world.LabNode, instances: list[str]) -> list[str]:
    for instance in instances:
        node.lose_disk(instance, is_lost=True)
    return [f"the disk below its replica of {instance} fails" for instance in instances]


def _break_answers(node: world.LabNode, *, hangs: bool, garbage: str, late: float) -> list[str]:
    said = []
    if hangs:
        node.hang(is_hung=True)
        said.append("commands on it hang")
    if garbage:
        node.garble(garbage)
        said.append(f"its answers are garbage ({garbage})")
    if late:
        node.delay(late)
        said.append(f"its answers come {late:g} s late")
    return said


def _break_guests(
    node: world.LabNode, stops: dict[str, float], *, ignoring: list[str], autostarts: list[str]
) -> list[str]:
    for instance, seconds in stops.items():
        node.slow_stop(instance, seconds)
    for instance in ignoring:
        node.ignore_stop(instance, is_ignored=True)
    for instance in autostarts:
        node.autostart(instance, is_on=True)
    return [
        *(f"{instance} takes {seconds:g} s for a soft stop" for instance, seconds in stops.items()),
        *(f"{instance} ignores a soft stop" for instance in ignoring),
        *(f"it starts {instance} at each boot" for instance in autostarts),
    ]


def _break_migrations(node: world.LabNode, phase: str) -> list[str]:
    if phase:
        node.fail_migrations(phase)
    return [f"migrations from it fail ({phase})"] if phase else []


def _break_bmc(node: world.LabNode, faults: list[str]) -> list[str]:
    if not faults:
        return []
    node.set_faults(sorted(node.faults() | set(faults)))
    return [f"its BMC is {', '.join(sorted(node.faults()))}"]


def _break_power(node: world.LabNode, *, reboots: bool, boot_seconds: float, loses: bool) -> list[str]:
    said = []
    if reboots:
        node.reboot(seconds=boot_seconds)
        said.append(f"it reboots, which takes {boot_seconds:g} s")
    if loses:
        node.lose_power()
        said.append("its power is cut")
    return said


def _end_instances(node: world.LabNode, *, crashed: list[str], shut_down: list[str]) -> list[str]:
    said = []
    for name in crashed:
        if not node.crash(name):
            raise errors.NotFound(f"{name} does not run on {node.name}: only a running instance can crash")
        said.append(f"{name} has crashed")
    for name in shut_down:
        if not node.user_shutdown(name):
            raise errors.NotFound(f"{name} does not run on {node.name}: its user cannot shut it down there")
        said.append(f"{name} was shut down by its user")
    return said


def _fixed(node: world.LabNode, ended: list[standing_faults.Standing], *, reports: bool) -> str:
    said = [f"ended {' '.join(fault.text for fault in ended)}" if ended else "no such fault stood"]
    if reports:
        said = [*(said if ended else []), f"its diagnose command prints {world.OK}, its links and its BMC work"]
    return ", ".join([*said, *([] if node.is_powered() else ["its power is off"])])


def _seconds(text: str) -> tuple[str, float]:
    name, _, seconds = text.partition("=")
    try:
        return name, float(seconds) if seconds else SLOW_STOP
    except ValueError as error:
        raise errors.InvalidInput(f"--slow-stop {text}: {seconds!r} is no number of seconds") from error


def _check_nodes(where: world.Lab, node: str, peers: list[str]) -> None:
    for peer in peers:
        lab.find_node(where, peer)
        if peer == node:
            raise errors.InvalidInput(f"--link {peer}: a node has no link to itself; name another node")


def _check_instances(where: world.Lab, names: list[str]) -> None:
    known = {instance.name for instance in store.read(tree.Tree(where.controller).config).instances.values()}
    for name in names:
        if name not in known:
            raise errors.NotFound(f"there is no instance {name!r} in the lab {where.folder}")


def _check_word(option: str, word: str, words: tuple[str, ...]) -> None:
    if word and word not in words:
        raise errors.InvalidInput(f"{option} {word}: use one of {', '.join(words)}")
