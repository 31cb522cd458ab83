"""`roundsman config`: the whole configuration as a document, taken out, taken over, and what it was before."""

from __future__ import annotations

import dataclasses
import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...plugins.module_utils.domain import errors, tree
from ...plugins.plugin_utils import daemon_client, sealed_json
from ...plugins.plugin_utils.config import document, history, store
from . import client, output, questions, wording

if TYPE_CHECKING:
    from ...plugins.module_utils.domain import cluster as clusters

app = typer.Typer(help="The configuration as a document.", no_args_is_help=True)
File = Annotated[Path | None, typer.Argument(metavar="FILE", help="The document; standard output without it.")]
Given = Annotated[Path, typer.Argument(metavar="FILE", help="The document; its checksum need not fit any more.")]
Version = Annotated[int | None, typer.Option("--version", help="A version of `roundsman config history`.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Force = Annotated[bool, typer.Option("--force", help="Even while jobs run that rely on the configuration.")]


@app.command(epilog="Example: roundsman config export --version 41 before.json")
def export(ctx: typer.Context, file: File = None, *, version: Version = None) -> None:
    """Write the configuration, or an earlier version of it, as a JSON document; it works without the daemon too."""
    path = _where(ctx).config
    data = (path if version is None else history.get(path, version).path).read_bytes()
    document.unseal(data)
    if file is None:
        output.as_json(data.decode())
    else:
        file.write_bytes(data)


@app.command("import", epilog="Example: roundsman config import edited.json")
def import_(ctx: typer.Context, file: Given, *, yes: Yes = False, force: Force = False) -> None:
    """Take over a configuration that was exported, and perhaps edited; nothing is changed unless all of it is right."""
    text = sealed_json.opened(file.read_bytes())
    wanted = document.load(text)
    where = _where(ctx)
    for line in differences(_known(where), wanted):
        output.line(line)
    questions.confirm(f"Take over the configuration in {file}?", yes=yes)
    if daemon_client.answers(where.socket):
        with client.of(ctx) as daemon:
            answer = daemon.put("2", "config", body=json.loads(text), **({"force": True} if force else {}))
        output.line(f"The configuration is version {answer['serial_no']} now.")
        return
    with store.locked(where, "roundsman config import"):
        serials = [one.serial_no for one in history.versions(where.config)]
        if (known := _known(where)) is not None:
            serials.append(known.serial_no)
        wanted = dataclasses.replace(wanted, serial_no=max([wanted.serial_no, *serials]) + 1, mtime=time.time())
        store.write(where.config, wanted)
    output.line(f"The configuration is version {wanted.serial_no} now; no daemon runs.")


@app.command("history", epilog="Example: roundsman config history -o json")
def history_(ctx: typer.Context, *, form: output.Option = output.Format.TABLE) -> None:
    """List the versions that are kept: the newest ones, and one an hour for a day."""
    known = history.versions(_where(ctx).config)
    if form is output.Format.JSON:
        rows = [{"serial_no": one.serial_no, "time": one.time, "size": one.size} for one in known]
        output.as_json(json.dumps(rows))
        return
    now = time.time()
    cells = [(one.serial_no, f"{wording.age(one.time, now=now)} ago", one.size) for one in known]
    output.table(("Version", "Committed", "Bytes"), cells, empty="No version is kept.")


def differences(before: clusters.Cluster | None, after: clusters.Cluster) -> list[str]:
    """What another configuration means, in a few lines."""
    if before is None:
        return [f"new: {len(after.nodes)} nodes, {len(after.instances)} instances"]
    lines = []
    for name in ("nodegroups", "nodes", "instances", "filters"):
        counted = Counter(_compared(getattr(before, name), getattr(after, name)))
        if told := ", ".join(f"{counted[how]} {how}" for how in ("added", "changed", "removed") if counted[how]):
            lines.append(f"{name}: {told}")
    lines += [name for name in ("cluster", "maintenance") if getattr(before, name) != getattr(after, name)]
    return lines or ["nothing differs"]


def _compared(before: Any, after: Any) -> list[str]:
    found = ["added" for one in after if one not in before] + ["removed" for one in before if one not in after]
    return found + ["changed" for one in after if one in before and before[one] != after[one]]


def _known(where: tree.Tree) -> clusters.Cluster | None:
    try:
        return store.read(where.config)
    except errors.StoreFailed as error:
        sys.stderr.write(f"roundsman: {error}\n")
        return None


def _where(ctx: typer.Context) -> tree.Tree:
    return tree.Tree(client.of(ctx).root)
