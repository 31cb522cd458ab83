"""roundsmand: keeps one cluster healthy."""

from __future__ import annotations

import argparse
import asyncio
import errno
import functools
import logging
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ..plugins.module_utils.domain.values import errors, tree
from ..plugins.plugin_utils import (
    ansible_runs,
    durable_files,
    folders_of_others,
    installed_version,
    log_output,
    secret_files,
    unsynced,
)
from ..plugins.plugin_utils.config import store
from . import abnormal_ends, app, audit, failures, service, settings
from .jobs.process import Processes
from .maintenance import leadership, leading, master_failover, newer_copies
from .maintenance.ssh_votes import SshVotes
from .serving import not_leading, readiness

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..plugins.plugin_utils.cluster import cluster as clusters

LOG = logging.getLogger(__name__)
NO_WRITES = durable_files.NO_ROOM | {errno.EROFS}


def main() -> None:
    """Run the daemon in the foreground until it is told to stop."""
    options = _options()
    installed_version.hold()
    where = tree.Tree(options.root.resolve())
    if options.master_failover:
        sys.exit(_master_failover(where, options))
    # A lease on a spooled file that somebody opens again would otherwise end the daemon.
    signal.signal(signal.SIGIO, signal.SIG_IGN)
    try:
        if options.dry_run:
            # What root made would be the daemon's no more.
            folders_of_others.become_owner_of(where.lib)
        else:
            where.log.mkdir(mode=0o750, parents=True, exist_ok=True)
        audit_log = None if options.dry_run else where.audit_log
        log_output.install(level=options.log_level, file=options.log_file, audit=audit_log)
        _look_at_secrets(where)
        chosen = settings.read(where.daemon_settings)
        lock = store.open_lock(where)
        if options.dry_run:
            sys.exit(asyncio.run(_preview(where, chosen, options)))
        store.sign_lock(lock, _signature())
        _write_pid(where)
        not_leading.forget(where)
        _counted(where, chosen, options, lock)
    except errors.NotLeading as error:
        reason = failures.one_line(str(error))
        LOG.critical("roundsmand ends: %s", reason)
        not_leading.note(where, reason)
        sys.exit(not_leading.EXIT_STATUS)
    except (errors.RoundsmanError, OSError, failures.Defect) as error:
        sys.exit(f"roundsmand: {error}{remedy(error)}")


def _counted(where: tree.Tree, chosen: settings.Settings, options: argparse.Namespace, lock: int) -> None:
    """Run the daemon; an end by an unforeseen exception is recorded, a clean one begins a new count."""
    ends = abnormal_ends.AbnormalEnds(where.abnormal_ends)
    durable_files.on_unknown(lambda error: unsynced.note(where, error))
    try:
        asyncio.run(_run(where, chosen, options, lock))
    except errors.StateUnknown as error:
        ends.record(failures.one_line(str(error)))
        raise
    except (errors.RoundsmanError, OSError):
        raise
    except Exception as error:  # whatever it is, it is counted before it ends the daemon
        if not isinstance(error, failures.Defect):
            LOG.critical("roundsmand ended with an unforeseen exception", exc_info=error)
        ends.record(failures.one_line(str(error) if isinstance(error, failures.Defect) else repr(error)))
        raise
    ends.clear()


def remedy(error: Exception) -> str:
    """What helps where the disk does not let the daemon start, to be added to the reason."""
    if isinstance(error, OSError) and error.errno in NO_WRITES:
        return (
            "; make the disks of /var/lib/roundsman and /var/log/roundsman writable, with free space, and start again"
        )
    return ""


def _look_at_secrets(where: tree.Tree) -> None:
    try:
        secret_files.refuse_readable([where.hmac_key], most=secret_files.SHARED)
        secret_files.refuse_readable([where.bmc_credentials])
    except errors.Refused as refusal:
        LOG.critical("roundsmand does not start: %s", refusal)
        raise


async def _run(where: tree.Tree, chosen: settings.Settings, options: argparse.Namespace, lock: int) -> None:
    made = service.assemble(
        where,
        limit=chosen.max_running_jobs,
        is_warm=chosen.warm_ansible,
        archive_after=chosen.archive_after,
        archive_keep=chosen.archive_keep,
        copies=chosen.configuration_copies,
    )
    # After the lock: no other daemon works in this folder, and what its epoch has named is nobody else's.
    async with readiness.still_starting():
        if options.restored:
            await _look_at_copies(where, made.configuration.current, chosen, options)
        await made.leadership.begin(_statement(options), on_wait=functools.partial(_say_wait, lock))
    store.sign_lock(lock, _signature())
    cluster = made.configuration.current
    bind = options.bind or chosen.bind or cluster.node(cluster.cluster.master_node).primary_ip
    if not bind:
        raise errors.InvalidInput("the master node has no primary_ip: give the address to serve with --bind")
    port = chosen.port if options.port is None else options.port
    await app.serve(made, bind=bind, port=port, ready=options.ready_fd)


async def _look_at_copies(
    where: tree.Tree, cluster: clusters.Cluster, chosen: settings.Settings, options: argparse.Namespace
) -> None:
    """Say which copies on other nodes are newer than a configuration that was restored.

    Raises:
        NotLeading: there is one, and nobody said that it is lost.
    """
    found = await _found_copies(where, cluster, chosen, options)
    if silent := newer_copies.silent_text(found):
        LOG.warning("%s", silent)
    if refusal := _refused_for(found, cluster, options):
        raise errors.NotLeading(refusal)
    if lost := newer_copies.lost_text(found):
        audit.LOG.info("daemon %s: started with --discard-copies: %s", log_output.account(), lost)


async def _found_copies(
    where: tree.Tree, cluster: clusters.Cluster, chosen: settings.Settings, options: argparse.Namespace
) -> newer_copies.Found:
    if not options.restored:
        return newer_copies.Found({})
    return await newer_copies.look(where, cluster, chosen.configuration_copies)


def _refused_for(found: newer_copies.Found, cluster: clusters.Cluster, options: argparse.Namespace) -> str:
    return "" if options.discard_copies else newer_copies.text(found, serial=cluster.serial_no)


def _master_failover(where: tree.Tree, options: argparse.Namespace) -> int:
    """Move the master role to a node, and end; status and lines as of a dry run of a start."""
    account = log_output.account()
    try:
        log_output.install(level="warning", file=None)
        folders_of_others.become_owner_of(where.lib)
        with store.locked(where, "roundsmand --master-failover"):
            _look_at_secrets(where)
            chosen, cluster = settings.read(where.daemon_settings), store.read(where.config)
            found = asyncio.run(_found_copies(where, cluster, chosen, options))
            silent = [*filter(None, [newer_copies.silent_text(found)])]
            if refusal := _refused_for(found, cluster, options):
                return _printed(leading.Step.END, [refusal, *silent])
            failover = master_failover.run(
                where,
                options.master_failover,
                is_restored=options.restored,
                is_stated_off=options.confirm_off,
                dry_run=options.dry_run,
                over_ssh=SshVotes(Processes(), folder=where.lib, environment=ansible_runs.environment(where)),
            )
            step, said = asyncio.run(failover)
            lines = [*filter(None, [newer_copies.lost_text(found)]), *silent, *said]
            if not options.dry_run and step in {leading.Step.GO_ON, leading.Step.BEGIN}:
                audit.append_command(where, _stated(options, lines), account=account)
            return _printed(step, lines)
    except (errors.RoundsmanError, OSError) as error:
        sys.stderr.write(f"roundsmand: {failures.one_line(str(error))}\n")
        return 1


def _stated(options: argparse.Namespace, lines: Sequence[str]) -> str:
    """What a person said to move the master role, and what was done."""
    given = [
        ("--confirm-off", options.confirm_off),
        ("--restored", options.restored),
        ("--discard-copies", options.discard_copies),
    ]
    words = [options.master_failover, *(word for word, is_given in given if is_given)]
    *others, last = lines
    return f"cluster master-failover {' '.join(words)}: {'; '.join([last, *others])}"


async def _preview(where: tree.Tree, chosen: settings.Settings, options: argparse.Namespace) -> int:
    """Print what a start would do; returns 0 where it would lead, 11 where it would end, and 1 where it would wait."""
    made = service.assemble(where, limit=chosen.max_running_jobs)
    cluster = made.configuration.current
    found = await _found_copies(where, cluster, chosen, options)
    silent = [*filter(None, [newer_copies.silent_text(found)])]
    if refusal := _refused_for(found, cluster, options):
        return _printed(leading.Step.END, [f"it would end with exit status 11: {refusal}", *silent])
    step, lines = await made.leadership.preview(_statement(options))
    return _printed(step, [*lines, *filter(None, [newer_copies.lost_text(found)]), *silent])


def _printed(step: leading.Step, lines: Sequence[str]) -> int:
    for line in lines:
        sys.stdout.write(f"roundsmand: {failures.one_line(line)}\n")
    return {leading.Step.END: not_leading.EXIT_STATUS, leading.Step.WAIT: 1}.get(step, 0)


def _statement(options: argparse.Namespace) -> leadership.Statement:
    return leadership.Statement(no_voting=options.no_voting, is_restored=options.restored)


def _signature() -> str:
    return f"{store.DAEMON}{os.getpid()}"


def _say_wait(lock: int, reason: str) -> None:
    """Say it in the log, to systemd, and to plays by hand and commands, which find the lock held."""
    store.sign_lock(lock, f"{_signature()}, {store.WAITS}")
    text = f"roundsmand waits, and does nothing yet: {failures.one_line(reason)}"
    LOG.warning("%s", text)
    readiness.say(text)


def _write_pid(where: tree.Tree) -> None:
    where.livelocks.mkdir(mode=0o750, parents=True, exist_ok=True)
    where.pid_file.write_text(f"{os.getpid()}\n")


def _options(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="roundsmand",
        description="Keeps a cluster of virtualization nodes healthy: reads their reports and works in rounds.",
        epilog="example: roundsmand --root / --port 1816 --bind 192.0.2.1",
    )
    parser.add_argument(
        "--root", type=Path, default=Path("/"), help="the folder that holds etc, var and run (default: /)"
    )
    parser.add_argument("--port", type=int, help=f"the TCP port of the status pages (default: {settings.PORT})")
    parser.add_argument("--bind", help="the address of the status pages (default: the master's primary address)")
    parser.add_argument(
        "--log-level", default="info", choices=["debug", "info", "warning", "error"], help="(default: info)"
    )
    parser.add_argument("--log-file", type=Path, help="a file that the log goes to as well; it may be rotated")
    parser.add_argument("--ready-fd", type=int, help="a descriptor that is written to when the daemon serves")
    parser.add_argument(
        "--no-voting",
        action="store_true",
        help="lead though most nodes are silent; only with --yes-do-it, on the master, if no other controller works",
    )
    parser.add_argument("--yes-do-it", action="store_true", help="confirm --no-voting")
    parser.add_argument(
        "--restored",
        action="store_true",
        help="lead though nodes had a newer configuration: it is lost, and this one was restored from a backup",
    )
    parser.add_argument(
        "--discard-copies",
        action="store_true",
        help="with --restored: lead though a node keeps a newer copy of the configuration, which is lost then",
    )
    parser.add_argument("--dry-run", action="store_true", help="only ask the nodes, and print what a start would do")
    parser.add_argument(
        "--master-failover", metavar="NODE", help="make NODE the master, by the votes of the nodes, and end"
    )
    parser.add_argument(
        "--confirm-off", action="store_true", help="with --master-failover: state that the old master is off"
    )
    options = parser.parse_args(words)
    if options.master_failover and options.no_voting:
        parser.error("--master-failover needs votes: power on nodes first")
    if options.confirm_off and not options.master_failover:
        parser.error("--confirm-off is for --master-failover")
    if options.discard_copies and not options.restored:
        parser.error("--discard-copies is for --restored")
    if options.no_voting is not options.yes_do_it:
        parser.error("--no-voting and --yes-do-it are given together, or not at all")
    return options


if __name__ == "__main__":
    main()
