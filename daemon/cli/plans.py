"""`roundsman plan show` and `submit`, and what all commands that plan do with what they found."""

from __future__ import annotations

import json
import math
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...plugins.module_utils.domain.values import errors
from ...plugins.plugin_utils import durable_files, plan_documents
from ...plugins.plugin_utils.rounds import as_cluster, moving
from . import client, output, planned, questions, watching, wording

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ...plugins.plugin_utils.placement.plan import Plan

HELP = "Show what a round would do now, in which order, and what is refused; below it are plans that were kept."
app = typer.Typer(help=HELP, invoke_without_command=True)
File = Annotated[Path, typer.Argument(metavar="FILE", help="A plan that a command kept with --save.")]


@app.command(epilog="Example: roundsman plan show balance.plan -o commands")
def show(file: File, *, form: planned.Output = planned.Format.TABLE) -> None:
    """Show a plan that was kept; no cluster is asked."""
    tell(_read(file), form=form, empty="It has no moves.")


@app.command(epilog="Example: roundsman plan submit balance.plan")
def submit(
    ctx: typer.Context,
    file: File,
    *,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not ask before a plan that ignores consistency.")
    ] = False,
    submit: planned.Submit = False,
) -> None:
    """Run a plan that was kept, unless the cluster has changed since, and wait for the end of its jobs."""
    found = _read(file)
    if found.ignore_consistency:
        questions.confirm(questions.STALE_RISK.format("the instances of this plan"), yes=yes)
    run(ctx, found, submit=submit, form=planned.Format.TABLE)


def _read(file: Path) -> plan_documents.Document:
    try:
        return plan_documents.read(file.read_bytes())
    except errors.InvalidInput as error:
        raise errors.InvalidInput(f"{file}: {error}") from error


def depart(
    ctx: typer.Context,
    source: planned.Source,
    plan: Plan,
    *,
    command: str,
    failover: bool,
    asked: planned.Asked,
    ignore_consistency: bool = False,
    max_loss: int | None = None,
) -> None:
    """Carry out what leaves nodes or a group.

    Raises:
        Exit: with status 1, something stays.
    """
    scores = planned.scores(source, plan)
    made = planned.document(
        source,
        plan,
        scores,
        command=command,
        failover=failover,
        ignore_consistency=ignore_consistency,
        max_loss=max_loss,
    )
    carry_out(ctx, made, asked=asked, empty="Nothing has to move.")
    if made.kept:
        raise typer.Exit(1)


def carry_out(
    ctx: typer.Context,
    found: plan_documents.Document,
    *,
    asked: planned.Asked,
    empty: str,
) -> None:
    """Keep a plan, show it and, if it is to be, run it."""
    if asked.save is not None:
        durable_files.replace(asked.save, plan_documents.write(found))
    if asked.runs and found.moves:
        run(ctx, found, submit=asked.submit, form=asked.form, empty=empty)
    else:
        tell(found, form=asked.form, empty=empty)


def run(
    ctx: typer.Context, found: plan_documents.Document, *, submit: bool, form: planned.Format, empty: str = ""
) -> None:
    """Have the daemon run a plan, show it, and wait until all its jobs have ended.

    Raises:
        Refused: it is for another cluster. Failed: the cluster has changed since, or not every job succeeded.
    """
    with client.find_daemon(ctx) as daemon:
        number = daemon.send("POST", "2", "plans", body={"document": plan_documents.write(found).decode()})
        if form is planned.Format.JSON:
            output.as_json(json.dumps({**json.loads(plan_documents.text(found)), "job": number}))
        else:
            tell(found, form=form, empty=empty)
        if not submit:
            _follow(daemon, number, quiet=form is not planned.Format.TABLE)
        elif form is planned.Format.TABLE:
            output.line(str(number))


def _follow(daemon: client.Daemon, number: int, *, quiet: bool) -> None:
    first = watching.until_ended(daemon, number, quiet=quiet)
    if first["status"] != "success":
        raise errors.Failed(first["text"] or f"job {number} ended as {first['status']}")
    made = [job for _, job in daemon.get("2", "jobs", number)["opresult"][0]["jobs"]]
    failed = 0
    for job in made:
        ended = watching.until_ended(daemon, job, quiet=quiet)
        told = f"Job {job}: {wording.job(ended)}: {ended['status']}"
        if ended["status"] != "success":
            output.alarm(f"{told}: {ended['text']}" if ended["text"] else told)
            failed += 1
        elif not quiet:
            # What was lost is what a person must read, of all that a move says.
            lost = [step["text"] for step in ended["opcodes"] if step["kind"] == "failover" and step["text"]]
            output.line(f"{told} ({'; '.join(lost)})" if lost else told)
    if failed:
        raise errors.Failed(f"{failed} of {len(made)} moves did not succeed")


def tell(found: plan_documents.Document, *, form: planned.Format, empty: str) -> None:
    """Print a plan in one of three forms; commands are ours, and Ganeti's for a cluster of a text."""
    if form is planned.Format.JSON:
        output.as_json(plan_documents.text(found))
    elif form is planned.Format.COMMANDS:
        for line in _commands(found):
            output.line(line)
    else:
        _table(found, empty=empty)


def action_words(action: str, *, failover: bool) -> str:
    """The steps of a move, such as `f r:node3`, in words."""
    over = "fail over" if failover else "migrate"
    words = {"f": over, "fa": f"{over} to ", "r": "replica to "}
    steps = [step.partition(":") for step in action.split()]
    return ", then ".join(f"{words[kind]}{node}" for kind, _, node in steps)


def is_scored(command: str) -> bool:
    """Whether the command of a plan is about how even the nodes are."""
    return command.split()[:2] == ["roundsman", "balance"]


def _table(found: plan_documents.Document, *, empty: str) -> None:
    rows = [
        (
            number,
            move.instance,
            f"{move.primary}:{move.secondary or ''}".rstrip(":"),
            action_words(move.action, failover=found.failover),
            f"{move.data_gib:.1f}",
        )
        for number, move in enumerate(found.moves, start=1)
    ]
    output.table(("", "INSTANCE", "NODES THEN", "ACTION", "GIB"), rows, empty="" if found.kept else empty)
    if is_scored(found.command):
        output.line(f"Score {found.initial_score:.8f} -> {found.final_score:.8f}")
    if rows:
        hours, minutes = divmod(math.ceil(found.seconds / 60), 60)
        output.line(f"Moves: {len(rows)}, one after the other at most {len(found.waves)}")
        output.line(f"Data to copy: {found.data_gib:.1f} GiB, expected to take {hours} h {minutes:02d} min")
    moved = {move.instance for move in found.moves}
    for kept in found.kept:
        cure = f". What would unblock it: {kept.unblock}" if kept.unblock else ""
        output.line(f"{kept.instance}{'' if kept.instance in moved else ' stays'}: {kept.text}{cure}")
    for note in found.notes:
        output.line(f"Note: {note}")


def _ignored(opcode: Mapping[str, str], *, found: plan_documents.Document) -> list[str]:
    if opcode["kind"] != "failover":
        return []
    # Ganeti's command has no such option.
    is_ours = found.max_loss is not None and found.cluster != as_cluster.NAME
    loss = ["--max-loss", f"{found.max_loss}s"] if is_ours else []
    return [*(["--ignore-consistency"] if found.ignore_consistency else []), *loss]


def _commands(found: plan_documents.Document) -> Iterator[str]:
    command = of_ganeti if found.cluster == as_cluster.NAME else of_ours
    there = list(zip(found.moves, found.jobs, strict=True))
    for number in range(len(found.waves)):
        yield f"# wave {number + 1} of {len(found.waves)}: these may run side by side"
        for move, job in there:
            if move.wave == number:
                # A pair moves to its secondary replica; a single one is told where to go.
                is_pair = move.secondary is not None
                yield from (
                    shlex.join([*command(opcode, is_pair=is_pair), *_ignored(opcode, found=found)])
                    for opcode in job.opcodes
                )
    for kept in found.kept:
        yield f"# {kept.instance}: {kept.text}"


def of_ganeti(opcode: Mapping[str, str], *, is_pair: bool) -> list[str]:
    """Ganeti's command for a step, with names for UUIDs; a pair needs no target."""
    kind, instance = opcode["kind"], opcode["instance"]
    if kind == moving.REPLACE:
        return ["gnt-instance", "replace-disks", "-n", opcode["new"], instance]
    return ["gnt-instance", kind, "-f", *([] if is_pair else ["-n", opcode["target"]]), instance]


def of_ours(opcode: Mapping[str, str], *, is_pair: bool) -> list[str]:
    """Our command for a step, with names for UUIDs; a pair needs no target."""
    kind, instance = opcode["kind"], opcode["instance"]
    if kind == moving.REPLACE:
        return ["roundsman", "instance", "replace-disks", instance, "--to", opcode["new"]]
    return ["roundsman", "instance", kind, instance, *([] if is_pair else ["--to", opcode["target"]])]
