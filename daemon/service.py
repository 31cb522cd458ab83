"""The parts of the running daemon, wired together; what HTTP resources act on."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..plugins.plugin_utils import replication
from ..plugins.plugin_utils.connection_tries import SSH_ARGUMENTS
from .configuration import Configuration
from .jobs.ports import Ports
from .jobs.process import Processes, inherited
from .jobs.queue import Queue
from .jobs.store import Store
from .locks.desk import Desk
from .maintenance.history import History
from .maintenance.polling import Poll
from .maintenance.reports import Intake
from .maintenance.rounds import Rounds
from .news import News
from .warm.keeping import Keeper, shim_folder

if TYPE_CHECKING:
    from ..plugins.module_utils.domain import tree

# The folder whose `ansible_collections` this program was imported from, links and all.
COLLECTIONS = Path(__file__).absolute().parents[4]
SYSTEM_COLLECTIONS = "/usr/share/ansible/collections"


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
    news: News
    warm: Keeper | None


def assemble(
    where: tree.Tree, *, limit: int, is_warm: bool = False, archive_after: float = 0, archive_keep: float = 0
) -> Service:
    """Load all state and wire the parts; nothing runs yet. With `is_warm` runs have Ansible kept warm for them.

    Raises:
        StoreFailed: some state is missing or damaged.
    """
    clock = time.time
    news = News()

    def changed() -> None:
        news.tell()
        queue.look()

    replicated = replication.Replication(replication.NoReplica())
    configuration = Configuration(where, clock=clock, on_change=changed, replicated=replicated)
    desk = Desk(where.locks, clock=clock)
    desk.restore()
    intake = Intake(where, clock=clock, cluster=lambda: configuration.current, on_change=news.tell)
    processes = Processes()
    environment = run_environment(where, is_warm=is_warm)
    store = Store(where.queue, replicated=replicated)
    ports = Ports(store, desk, processes, configuration, intake, environment, clock)
    queue = Queue(
        ports,
        limit=lambda: configuration.current.cluster.max_running_jobs or limit,
        archive_after=archive_after,
        archive_keep=archive_keep,
        on_change=news.tell,
        on_end=lambda: rounds.wake(),  # noqa: PLW0108 - bound below
    )
    history = History(where.rounds)
    rounds = Rounds(configuration, queue, intake, history, clock=clock)
    poll = Poll(configuration, processes, folder=where.lib, environment=environment)
    warm = Keeper(where, environment={**inherited(), **environment}) if is_warm else None
    return Service(where, configuration, desk, queue, intake, history, rounds, poll, news, warm)


def run_environment(where: tree.Tree, *, is_warm: bool) -> dict[str, str]:
    """The environment of every run: our Ansible first, no discovery, nothing that depends on a terminal."""
    folders = [*([str(shim_folder(where))] if is_warm else []), str(Path(sys.executable).parent)]
    return {
        "PATH": ":".join([*folders, os.environ.get("PATH", os.defpath)]),
        "ROUNDSMAN_ROOT": str(where.root),
        "ANSIBLE_COLLECTIONS_PATH": f"{COLLECTIONS}:{os.environ.get('ANSIBLE_COLLECTIONS_PATH', SYSTEM_COLLECTIONS)}",
        "ANSIBLE_PIPELINING": "1",
        "ANSIBLE_GATHERING": "explicit",
        "ANSIBLE_INVENTORY_ENABLED": "ansible.builtin.yaml",
        "ANSIBLE_LOCALHOST_WARNING": "0",
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_HOME": str(where.run / "ansible"),
        "ANSIBLE_SSH_EXTRA_ARGS": f"{os.environ.get('ANSIBLE_SSH_EXTRA_ARGS', '')} {SSH_ARGUMENTS}".strip(),
    }
