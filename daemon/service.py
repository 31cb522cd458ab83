"""The parts of the running daemon, wired together; what HTTP resources act on."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from ..plugins.plugin_utils import ansible_runs, findings, report_originals, run_group, unsynced
from ..plugins.plugin_utils.settings import host_variables
from .abnormal_ends import AbnormalEnds, ReadOnly
from .configuration import Configuration
from .failures import Failures
from .jobs import submission
from .jobs.ports import Ports
from .jobs.process import Processes, inherited
from .jobs.queue import Queue
from .jobs.store import Store
from .locks.desk import Desk
from .maintenance import parts, ssh_greetings
from .maintenance.agents import Agents
from .maintenance.copying import Copying
from .maintenance.dead_nodes import DeadNodes
from .maintenance.early_answers import EarlyAnswers
from .maintenance.history import History
from .maintenance.leadership import Leadership
from .maintenance.left_behind import LeftBehind
from .maintenance.polling import Poll
from .maintenance.power_readings import PowerReadings, Reader
from .maintenance.replicas import Replicas
from .maintenance.reports import Intake
from .maintenance.rounds import Rounds
from .maintenance.ssh_votes import SshVotes
from .maintenance.suspects import Suspects
from .maintenance.unfinished_moves import UnfinishedMoves
from .news import News
from .warm.keeping import Keeper, shim_folder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..plugins.module_utils.domain.values import tree
    from ..plugins.plugin_utils.cluster import cluster as clusters


LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Service:
    """Everything that one daemon consists of."""

    where: tree.Tree
    configuration: Configuration
    desk: Desk
    queue: Queue
    intake: Intake
    history: History
    rounds: Rounds
    poll: Poll
    agents: Agents
    suspects: Suspects
    readings: PowerReadings
    early_answers: EarlyAnswers
    dead: DeadNodes
    replicas: Replicas
    left_behind: LeftBehind
    unfinished_moves: UnfinishedMoves
    news: News
    failures: Failures
    leadership: Leadership
    copying: Copying
    read_only: ReadOnly
    warm: Keeper | None


def assemble(
    where: tree.Tree,
    *,
    limit: int,
    is_warm: bool = False,
    archive_after: float = 0,
    archive_keep: float = 0,
    copies: Sequence[str] = (),
) -> Service:
    """Load all state and wire the parts; nothing runs yet. With `is_warm` runs have Ansible kept warm for them.

    Raises:
        StoreFailed: some state is missing or damaged.
    """
    clock = time.time
    news = News()
    failures = Failures(clock=clock, on_change=news.tell)

    def changed() -> None:
        news.tell()
        queue.look()
        copying.wake()
        # While maintenance is held a fence that waits for a lock is taken back.
        _wake(left_behind, unfinished_moves, *([dead] if configuration.current.maintenance.is_held else []))

    def heard() -> None:
        news.tell()
        suspects.wake()
        replicas.wake()
        dead.wake()
        _wake(left_behind, unfinished_moves)

    def is_left_alone(node: str) -> bool:
        return dead.is_left_alone(node)

    def polled() -> None:
        dead.wake()
        _wake(left_behind, unfinished_moves)

    def ended() -> None:
        rounds.wake()
        dead.wake()
        replicas.wake()
        _wake(left_behind, unfinished_moves)

    configuration = Configuration(where, clock=clock, on_change=changed, failures=failures)
    _warn_of_ignored(configuration.current)
    desk = Desk(where.locks, clock=clock, failures=failures)
    desk.restore()
    intake = Intake(where, clock=clock, cluster=lambda: configuration.current, on_change=heard, failures=failures)
    processes = Processes(oom_kills=run_group.oom_kills())
    environment = ansible_runs.environment(where, first=(shim_folder(where),) if is_warm else ())
    store = Store(where.queue)
    leadership = Leadership(
        where,
        configuration,
        is_at_work=lambda: queue.has_runs(),  # noqa: PLW0108 - the queue is made with what follows
        failures=failures,
        reported=intake.reported_boot,
        read_power=Reader(where.bmc_credentials, environment),
        over_ssh=SshVotes(processes, folder=where.lib, environment=environment),
    )
    copying = Copying(where, configuration, names=copies, epoch=lambda: leadership.epoch, on_change=news.tell)
    ports = Ports(
        store,
        desk,
        processes,
        configuration,
        intake,
        environment,
        clock,
        failures,
        failed=leadership.note_refusal,
        clear=leadership.clear,
    )
    queue = Queue(
        ports,
        limit=lambda: configuration.current.cluster.max_running_jobs or limit,
        archive_after=archive_after,
        archive_keep=archive_keep,
        on_change=news.tell,
        on_end=ended,
    )
    queue.load()
    queue.keep_numbers(submission.named_numbers(configuration.current))
    history = History(where.rounds, failures=failures)
    agents = Agents(
        configuration,
        spool=where.spool,
        key=where.hmac_key,
        clock=clock,
        seen=intake.seen,
        on_poll=polled,
        on_miss=lambda: suspects.wake(),  # noqa: PLW0108 - they are made with what follows
        greets=partial(ssh_greetings.greets, root=where.root),
    )
    suspects = Suspects(configuration, agents, tracks=lambda: intake.tracks, on_change=polled, failures=failures)
    replicas = Replicas(configuration, queue, intake, clock=clock, failures=failures)
    readings = PowerReadings(
        Reader(where.bmc_credentials, environment),
        is_left_alone=is_left_alone,
        on_change=polled,
        failures=failures,
    )
    dead = DeadNodes(
        configuration,
        queue,
        intake,
        agents,
        suspects.silences,
        readings=readings,
        isolation=leadership.isolation,
        clock=clock,
        on_change=ended,
        failures=failures,
    )
    left_behind = LeftBehind(configuration, queue, intake, alive=dead.alive, clock=clock, failures=failures)
    unfinished_moves = UnfinishedMoves(configuration, queue, intake, clock=clock, failures=failures)
    rounds = Rounds(
        configuration,
        queue,
        intake,
        history,
        clock=clock,
        dead=dead.observed,
        cpus=agents.busy_cpus,
        failures=failures,
        originals=report_originals.Originals(where.report_originals),
    )
    poll = Poll(configuration, processes, agents, folder=where.lib, environment=environment, failures=failures)
    warm = Keeper(where, environment={**inherited(), **environment}, failures=failures) if is_warm else None
    read_only = ReadOnly(AbnormalEnds(where.abnormal_ends), failed_disk=unsynced.pending(where))
    return Service(
        where=where,
        configuration=configuration,
        desk=desk,
        queue=queue,
        intake=intake,
        history=history,
        rounds=rounds,
        poll=poll,
        agents=agents,
        suspects=suspects,
        readings=readings,
        early_answers=EarlyAnswers(configuration, agents, key=where.hmac_key, failures=failures),
        dead=dead,
        replicas=replicas,
        left_behind=left_behind,
        unfinished_moves=unfinished_moves,
        news=news,
        failures=failures,
        leadership=leadership,
        copying=copying,
        read_only=read_only,
        warm=warm,
    )


def _wake(*woken: parts.Part) -> None:
    for part in woken:
        part.wake()


def _warn_of_ignored(cluster: clusters.Cluster) -> None:
    """Log the host variables that no run uses and the filters that match no job, as an earlier version took them."""
    for node in cluster.nodes.values():
        if ignored := host_variables.ignored(node.hostvars):
            LOG.warning("%s", findings.ignored_text(node.name, ignored))
    for job_filter in cluster.filters.values():
        if job_filter.problem is not None:
            LOG.warning(
                "filter %s matches no job: %s; run `roundsman filter replace %s` with another pattern, or "
                "`roundsman filter delete %s`",
                job_filter.uuid,
                job_filter.problem,
                job_filter.uuid,
                job_filter.uuid,
            )
