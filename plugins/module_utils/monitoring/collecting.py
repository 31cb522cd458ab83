"""Each collector in a thread of its own, at its own interval: one that hangs holds up only itself."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Callable, Dict

from ..domain.agent import collected, reports
from ..domain.disks import replicas
from ..domain.values import errors
from ..storage import replica_facts
from . import registry

if TYPE_CHECKING:
    from .. import node_settings
    from . import observing, publishing

LOG = logging.getLogger("roundsman-agent")
AGAIN = 60.0
"""Seconds after which the report of a collector that hangs is signed again."""
PATIENCE = 90.0
"""Seconds beyond the interval, and the limit of diagnose commands, after which a collector is said to hang."""


class _Collecting:
    """One collector at work."""

    def __init__(
        self,
        subject: collected.Subject,
        *,
        look: Callable[[], observing.Surroundings],
        published: publishing.Reports,
    ) -> None:
        self._subject = subject
        self._look = look
        self._published = published
        self._collect = registry.COLLECTORS[subject]()
        self._awake = threading.Event()
        self._stopped = False
        self.began = time.monotonic()
        self.is_busy = False
        self.named, self.hanging = 0.0, ""
        # No thread that hangs keeps the agent from ending.
        threading.Thread(target=self._run, name=subject.name, daemon=True).start()

    def wake(self) -> None:
        self._awake.set()

    def stop(self) -> None:
        self._stopped = True
        self._awake.set()

    def _run(self) -> None:
        while not self._stopped:
            self._awake.clear()
            began = time.monotonic()
            where = self._look()
            self.began, self.is_busy = began, True
            said = self._said(where)
            self.is_busy, self.hanging = False, ""
            if not self._stopped:
                command, facts = "", replicas.UNKNOWN
                if self._subject is collected.DIAGNOSE:
                    command = where.settings.diagnose_command
                    facts = replica_facts.read(where.root, hypervisor=where.settings.hypervisor)
                publish(self._published, self._subject, said, node=where.node, command=command, facts=facts)
            self._awake.wait(max(0.0, began + self._interval() - time.monotonic()))

    def _interval(self) -> float:
        # One that was turned off meanwhile is stopped at once.
        return self._look().settings.intervals[self._subject.name] or PATIENCE

    def _said(self, where: observing.Surroundings) -> observing.Said:
        try:
            return self._collect(where)
        except (errors.CommandFailed, errors.CommandRefused) as e:
            return reports.problem(e.reason, text=str(e))
        except errors.RoundsmanError as e:
            return reports.problem("failed", text=str(e))
        except Exception as e:  # whatever a collector stumbles over is told in its report
            LOG.exception("the collector %s failed", self._subject.name)
            return reports.problem("broken", text=repr(e))


class Collectors:
    """All collectors that are turned on."""

    def __init__(self, look: Callable[[], observing.Surroundings], published: publishing.Reports) -> None:
        self._look = look
        self._published = published
        self._at_work: Dict[collected.Subject, _Collecting] = {}

    def follow(self) -> None:
        """Begin and end collectors as the settings say, and have those that go on look at once.

        Raises: errors.StoreFailed if it cannot be told which there are.
        """
        intervals = self._look().settings.intervals
        wanted = {subject for subject in registry.COLLECTORS if intervals[subject.name]}
        for subject in set(self._at_work) - wanted:
            self._at_work.pop(subject).stop()
        self._published.list(wanted)
        for known in self._at_work.values():
            known.wake()
        for subject in wanted - set(self._at_work):
            self._at_work[subject] = _Collecting(subject, look=self._look, published=self._published)

    def diagnose_anew(self) -> None:
        """Have the node diagnosed, and its replicas reported, without waiting for the next time."""
        diagnosing = self._at_work.get(collected.DIAGNOSE)
        if diagnosing is not None:
            diagnosing.wake()

    def name_hanging(self) -> None:
        """Let the report of a collector that hangs say so, in the same words again and again: it is a sign of life."""
        where, now = self._look(), time.monotonic()
        for subject, collector in self._at_work.items():
            limit = where.settings.intervals[subject.name] + where.node.diagnose_time_limit + PATIENCE
            is_named = bool(collector.hanging) and now - collector.named < AGAIN
            if collector.is_busy and not is_named and now - collector.began > limit:
                first = "the collector has not ended for {:.0f} s".format(now - collector.began)
                collector.named, collector.hanging = now, collector.hanging or first
                publish(self._published, subject, collected.Problem("hanging", collector.hanging), node=where.node)


def publish(
    published: publishing.Reports,
    subject: collected.Subject,
    said: observing.Said,
    *,
    node: node_settings.Settings,
    command: str = "",
    facts: replicas.NodeFacts = replicas.UNKNOWN,
) -> None:
    """Publish a report; without a key or room there is none, which the log says."""
    try:
        published.publish(subject, said, node=node, command=command, facts=facts)
    except errors.RoundsmanError as e:
        LOG.error("no report of %s: %s", subject.name, e)  # noqa: TRY400 - foreseen: the text says all
