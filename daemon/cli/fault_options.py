"""The options of `roundsman lab break`, one for each fault, and those that `fix` shares with it."""

from __future__ import annotations

from typing import Annotated

import typer

from ..lab import breaking, chassis

Peers = Annotated[
    list[str] | None,
    typer.Option("--link", metavar="NODE2", help="Cut the replication link to this node, or end that cut; repeatable."),
]
Disks = Annotated[
    list[str] | None,
    typer.Option("--disk", metavar="INSTANCE", help="The disk below this instance's replica on the node; repeatable."),
]
IgnoreStops = Annotated[
    list[str] | None,
    typer.Option(
        "--ignore-stop",
        metavar="INSTANCE",
        help="The guest of this instance ignores soft stops; replaces a --slow-stop of the same guest. Repeatable.",
    ),
]
Autostarts = Annotated[
    list[str] | None,
    typer.Option("--autostart", metavar="INSTANCE", help="The node starts this instance at each boot; repeatable."),
]
Status = Annotated[
    str | None,
    typer.Option(
        help="Status in the node's report: live-repair, evacuate or evacuate-failover; "
        "Ok is healthy, anything else is a problem of the node. Default, if no other fault is named: evacuate."
    ),
]
Details = Annotated[
    str | None, typer.Option(metavar="JSON", help="Details in the node's report: any JSON value (default: null).")
]
Command = Annotated[
    str | None,
    typer.Option(help="Repair command in the node's report (default for live-repair: lab-repair; otherwise none)."),
]
Hang = Annotated[
    bool, typer.Option("--hang", help="Commands start on the node and never finish; its agent does not answer.")
]
Silent = Annotated[
    bool, typer.Option("--silent", help="Cut the management link; replication continues (`lab cut` cuts both).")
]
Agent = Annotated[
    bool, typer.Option("--agent", help="Cut only the node's agent off: its port is closed, and SSH works.")
]
Ssh = Annotated[bool, typer.Option("--ssh", help="Cut only SSH off: nobody logs in, and the agent answers.")]
Replication = Annotated[
    bool, typer.Option("--replication", help="Cut all replication links of the node; it is reached.")
]
Loss = Annotated[
    float | None, typer.Option(metavar="PERCENT", help="Percent of the packets to the node's agent that are lost.")
]
Lies = Annotated[
    bool, typer.Option("--lies", help="The agent claims for ever that all replicas of the node are in sync now.")
]
Clock = Annotated[
    float | None, typer.Option(metavar="SECONDS", help="Seconds that the node's clock is ahead; negative: behind.")
]
Full = Annotated[bool, typer.Option("--full", help="Fill the volume groups of the node.")]
SlowResync = Annotated[int | None, typer.Option(metavar="KIB", help="KiB per second that resyncs of the node copy.")]
Garbage = Annotated[
    str | None,
    typer.Option(
        metavar="HOW",
        help="Corrupt the node's answers: garbage `before` or `instead` of each answer, or `cut` it short.",
    ),
]
Late = Annotated[
    float | None, typer.Option(metavar="SECONDS", help="Seconds by which each answer of the node is delayed.")
]
SlowStop = Annotated[
    list[str] | None,
    typer.Option(
        metavar="INSTANCE[=SECONDS]",
        help="Seconds that the guest of this instance takes for a soft stop, wherever it runs "
        f"(default: {breaking.SLOW_STOP:g}); replaces an --ignore-stop of the same guest. Repeatable.",
    ),
]
Crash = Annotated[
    list[str] | None, typer.Option(metavar="INSTANCE", help="Crash this instance, which runs on the node.")
]
UserShutdown = Annotated[
    list[str] | None,
    typer.Option(metavar="INSTANCE", help="Shut down this instance, which runs on the node, as its user would."),
]
Migration = Annotated[
    str | None,
    typer.Option(
        metavar="PHASE",
        help="Let migrations from the node fail: `before` anything moved, `during` the copy of memory, `after` the "
        "hand-over (the instance runs on the target), or `paused` (the target reboots during the hand-over).",
    ),
]
Bmc = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FAULT",
        help=f"Fault of the node's BMC: {', '.join(chassis.FAULTS)}, late=SECONDS, of=NODE "
        "(it is that node's BMC), or of a sensor, such as Fan1=critical. Repeatable.",
    ),
]
Panic = Annotated[
    bool, typer.Option("--panic", help="Panic the kernel: guests and links are gone, the power stays on.")
]
Reboot = Annotated[bool, typer.Option("--reboot", help="Reboot the node: everything on it ends.")]
BootSeconds = Annotated[
    float | None,
    typer.Option(metavar="SECONDS", help=f"Seconds that the --reboot takes (default: {breaking.BOOT_SECONDS:g})."),
]
Power = Annotated[bool, typer.Option("--power", help="Cut the node's power: everything on it ends.")]
Rack = Annotated[
    list[str] | None,
    typer.Option(metavar="NODE2", help="Cut the power of the node and of this one, BMCs included; repeatable."),
]
Returns = Annotated[
    float | None,
    typer.Option(metavar="SECONDS", help="Seconds after each loss of its power when it powers on by itself."),
]
