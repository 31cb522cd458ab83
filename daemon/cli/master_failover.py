"""`roundsman cluster master-failover`: the master role moves to the node of this machine."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from ...plugins.module_utils.domain.values import errors, tree
from ...plugins.plugin_utils import daemon_client
from . import client, output, questions

if TYPE_CHECKING:
    from collections.abc import Sequence

DAEMON = __package__.rpartition(".")[0] if __package__ else ""
Node = Annotated[str, typer.Argument(metavar="NODE", help="The node of this machine, which becomes the master.")]
Off = Annotated[
    bool, typer.Option("--confirm-off", help="State that the machine of the old master is off and stays off.")
]
Restored = Annotated[
    bool, typer.Option("--restored", help="State that no newer configuration exists: the rest was lost.")
]
Discards = Annotated[
    bool, typer.Option("--discard-copies", help="With --restored: newer copies on nodes are lost, too.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only ask the nodes, and print what would be done.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def master_failover(
    ctx: typer.Context,
    node: Node,
    *,
    confirm_off: Off = False,
    restored: Restored = False,
    discard_copies: Discards = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Make this machine's node the master; roundsmand is stopped here, and the configuration was imported.

    More than half of the nodes have to follow it, none of which may have heard of another controller in the last three
    minutes. An old master does not vote if its BMC reads off, or by --confirm-off.
    """
    where = tree.Tree(client.find_daemon(ctx).root)
    if daemon_client.answers(where.socket):
        raise errors.Refused("roundsmand runs here: stop it first, with `systemctl stop roundsmand`")
    said = {"--confirm-off": confirm_off, "--restored": restored, "--discard-copies": discard_copies}
    if discard_copies and not restored:
        raise errors.InvalidInput("--discard-copies is for --restored")
    given = [word for word, is_said in said.items() if is_said]
    _run(where, [node, *given, "--dry-run"])
    if dry_run:
        return
    questions.confirm(f"Make {node} the master?", yes=yes)
    _run(where, [node, *given])
    output.line("Start roundsmand and roundsman-rapi here. Keep those on the old master stopped: disable their units.")


def _run(where: tree.Tree, words: Sequence[str]) -> None:
    """Run the daemon's program for it, which writes the audit log, and show what it prints.

    Raises:
        typer.Exit: the role does not move.
    """
    command = [sys.executable, "-Pm", DAEMON, "--root", str(where.root), "--master-failover", *words]
    ended = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=False)
    lines = [line.removeprefix("roundsmand: ") for line in ended.stdout.splitlines()]
    for line in lines:
        output.line(f"{line[:1].upper()}{line[1:]}.")
    if ended.returncode:
        raise typer.Exit(1)
