"""`roundsman config`: the whole configuration as a document, taken out, taken over, and what it was before."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...plugins.module_utils.domain.agent import copies
from ...plugins.module_utils.domain.values import errors, tree
from ...plugins.plugin_utils import daemon_client, durable_files, sealed_json, secret_files
from ...plugins.plugin_utils.config import differences, document, history, import_rules, store, used_values
from . import by_hand_audit, client, configuration, output, questions, wording

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ...plugins.plugin_utils.cluster import cluster as clusters

app = typer.Typer(help="The configuration as a document.", no_args_is_help=True)
File = Annotated[
    Path | None, typer.Argument(metavar="FILE", help="The document; standard output without it, or with -.")
]
Given = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        help="Configuration file to import, whose checksum is not verified, or a candidate's copy, whose seal is.",
    ),
]
Version = Annotated[int | None, typer.Option("--version", help="A version of `roundsman config history`.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Force = Annotated[bool, typer.Option("--force", help="Even while jobs run that rely on the configuration.")]
Replace = Annotated[bool, typer.Option("--force", help="Replace a file that is there already.")]
Last = Annotated[int | None, typer.Option("--last", min=1, metavar="N", help="Only the newest N versions.")]
SAME = "nothing differs"
NAMED = 3
"""Of more objects of one kind only the number is told."""


@app.command(epilog="Example: roundsman config export --version 41 before.json")
def export(ctx: typer.Context, file: File = None, *, version: Version = None, force: Replace = False) -> None:
    """Write the configuration, or an earlier version of it, as a JSON document; it works without the daemon too.

    The file is for its owner only: the document describes the whole cluster.
    """
    data = configuration.data(client.find_daemon(ctx), version=version)
    document.unseal(data)
    if file is None or file == Path("-"):
        output.as_json(data.decode())
        return
    if os.path.lexists(file) and not (force and file.is_file()):
        raise errors.Refused(f"{file} is there already: {'it is no file' if force else 'use --force to replace it'}")
    durable_files.replace(file, data, mode=secret_files.PRIVATE)


@app.command(
    "import",
    epilog="Example: roundsman config import edited.json; on a candidate for the master role: roundsman config import "
    f"/{copies.FILE}",
)
def import_(ctx: typer.Context, file: Given, *, yes: Yes = False, force: Force = False) -> None:
    """Take over a configuration that was exported, and perhaps edited; nothing is changed unless all of it is right.

    A backup, that is any document but an export of the present configuration, pauses maintenance: check where instances
    run, then run `roundsman resume`.
    """
    where = _where(ctx)
    text = sealed_json.opened(_document(file, where))
    wanted = import_rules.load(text, is_lab=where.lab_file.is_file())
    known = _known(client.find_daemon(ctx), warns=True)
    preview = _preview(known, wanted)
    for line in preview:
        output.line(line)
    if preview == [SAME]:
        return
    for line in used_values.preview(known, wanted):
        output.line(f"New: {line}")
    if not store.is_present_state(wanted, known):
        present = "there is no present configuration" if known is None else f"the present one is {known.serial_no}"
        told = f"The document is version {wanted.serial_no}, {present}"
        output.line(f"{told}: maintenance will be paused until `roundsman resume`.", style="bold yellow")
    client.notice(ctx).tell(where.root, lambda: (known or wanted).cluster.cluster_name)
    questions.confirm(f"Take over the configuration in {file}?", yes=yes)
    if daemon_client.answers(where.socket):
        with client.find_daemon(ctx) as daemon:
            answer = daemon.put("2", "config", body=json.loads(text), **({"force": True} if force else {}))
        output.line(f"The configuration is version {answer['serial_no']} now.")
        _print_pause(wanted, answer["paused"], is_backup=not store.is_present_state(wanted, known))
        return
    with store.locked(where, "roundsman config import"):
        serials = [version.serial_no for version in history.versions(where.config)]
        if (known := _known(client.find_daemon(ctx), warns=False)) is not None:
            serials.append(known.serial_no)
        # Not above the document's own on a new machine: a later version that nodes know of stays later.
        serial_no = max([wanted.serial_no, *(number + 1 for number in serials)])
        after = store.taken_over(wanted, before=known, serial_no=serial_no, now=time.time())
        store.write(where.config, after)
        audited = f"config import: version {after.serial_no}: {'; '.join(preview)}"
        by_hand_audit.append_import(where, audited, known, after)
    output.line(f"The configuration is version {after.serial_no} now; no daemon runs.")
    _print_pause(wanted, after.maintenance.settings.paused, is_backup=not store.is_present_state(wanted, known))


def _document(file: Path, where: tree.Tree) -> bytes:
    """The document in a file, or in the copy that a node kept, whose seal has to be of the cluster's key here.

    Raises:
        Refused: the key is not here. InvalidInput: the seal is another one's.
    """
    data = file.read_bytes()
    if not copies.is_copy(data):
        return data
    try:
        cluster_key = where.hmac_key.read_bytes()
    except OSError as error:
        raise errors.Refused(
            f"{where.hmac_key} cannot be read ({error.strerror}): put the cluster's key there first, by which the seal "
            f"of {file} is checked"
        ) from error
    try:
        text, stamp = copies.opened(data, cluster_key=cluster_key)
    except errors.InvalidInput as error:
        raise errors.InvalidInput(f"{file}: {error}") from error
    age = wording.age(stamp.made, now=time.time())
    output.line(f"A copy of version {stamp.serial}, made {age} ago; what was changed after that is not in it.")
    return text


def _print_pause(imported: clusters.Cluster, paused: str, *, is_backup: bool) -> None:
    """Print why maintenance is paused after an import, and what to do."""
    if not paused:
        return
    output.line(f"Maintenance is paused: {paused}.", style="bold yellow")
    if is_backup and paused != store.check_reason(imported):
        output.line("Before `roundsman resume`, check where instances run: the backup may be wrong about it.")


@app.command("history", epilog="Example: roundsman config history --last 3")
def history_(ctx: typer.Context, *, last: Last = None, form: output.Option = output.Format.TABLE) -> None:
    """List the versions that are kept, the newest and one an hour for a day, and what each changed."""
    daemon = client.find_daemon(ctx)
    found = _compared(daemon, configuration.versions(daemon), last=last)
    if form is output.Format.JSON:
        output.as_json(json.dumps([_row(version, changes) for version, changes in found]))
        return
    now = time.time()
    cells = [
        (version.serial_no, f"{wording.age(version.time, now=now)} ago", version.size, _summary(changes))
        for version, changes in found
    ]
    output.table(("Version", "Committed", "Bytes", "Changes"), cells, empty="No version is kept.")


Changes = list[differences.Difference] | str | None
"""What a version changed, or why that cannot be told; None when the version before it is not kept."""


def _compared(
    daemon: client.Daemon, known: Sequence[configuration.Version], *, last: int | None
) -> Iterator[tuple[configuration.Version, Changes]]:
    """The newest versions; of the documents two at a time are in memory."""
    listed = known if last is None else known[-last:]
    before: dict[str, Any] | None = None
    for version in known[-len(listed) - 1 :]:
        changes: Changes = None
        try:
            after = document.raw(configuration.data(daemon, version=version.serial_no))
        except (FileNotFoundError, errors.NotFound):
            continue  # it was removed in the meantime
        except errors.InvalidInput as error:
            after, changes = None, f"damaged: {error}"
        except errors.Refused:
            continue  # the daemon has removed it in the meantime
        if before is not None and after is not None:
            changes = differences.between(before, after)
        if version in listed:
            yield version, changes
        before = after


def _row(version: configuration.Version, changes: Changes) -> dict[str, Any]:
    told = {"serial_no": version.serial_no, "time": version.time, "size": version.size}
    if isinstance(changes, list):
        return {**told, "changes": [dataclasses.asdict(each) for each in changes], "problem": None}
    return {**told, "changes": None, "problem": changes}


def _summary(changes: Changes) -> str | None:
    return ("; ".join(map(_told, changes)) or "none") if isinstance(changes, list) else changes


def _preview(before: clusters.Cluster | None, after: clusters.Cluster) -> list[str]:
    """What another configuration means, in a few lines."""
    if before is None:
        return [f"new: {len(after.nodes)} nodes, {len(after.instances)} instances"]
    found = differences.between(json.loads(document.dump(before)), json.loads(document.dump(after)))
    return [_told(difference) for difference in found] or [SAME]


def _told(difference: differences.Difference) -> str:
    if "" in difference.changed:
        return f"{difference.kind} ({', '.join(difference.changed[''])})"
    parts = {"added": difference.added, "removed": difference.removed, "changed": tuple(difference.changed)}
    if sum(map(len, parts.values())) > NAMED:
        return f"{difference.kind}: " + ", ".join(f"{len(names)} {how}" for how, names in parts.items() if names)
    told = [f"{name} {how}" for how in ("added", "removed") for name in parts[how]]
    told += [f"{name} ({', '.join(fields)})" for name, fields in difference.changed.items()]
    return f"{difference.kind}: {', '.join(told)}"


def _known(daemon: client.Daemon, *, warns: bool) -> clusters.Cluster | None:
    """The present configuration; None on a new machine, and where it cannot be read, of which this may warn."""
    try:
        return configuration.cluster(daemon)
    except errors.StoreFailed as error:
        # The advice of a machine without a cluster is what is being done.
        if warns and not str(error).endswith(store.NO_CLUSTER):
            sys.stderr.write(f"roundsman: {error}\n")
        return None


def _where(ctx: typer.Context) -> tree.Tree:
    return tree.Tree(client.find_daemon(ctx).root)
