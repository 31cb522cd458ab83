"""What is killed half-way: the daemon at each point of a job's life, an opcode, both; and jobs that are canceled."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ansible_collections.roundsman.cluster.daemon.lab.simulator import fake

from . import elder
from .story import POINTS, Scenario, kill_opcode

if TYPE_CHECKING:
    from pathlib import Path

    from .story import Story

MIGRATE = "/2/instances/instance1/migrate"
STOP = "/2/instances/instance1/shutdown"
JOB = 1
"""The job that each of these runs is about, its first."""


def at_point(point: str, story: Story) -> None:
    story.kill_at(point, "PUT", MIGRATE, {})
    story.start_daemon()
    story.await_end(JOB)


def while_an_opcode_runs(story: Story) -> None:
    story.submit("PUT", MIGRATE, {})
    _await_migration(story)
    story.kill_daemon()
    story.start_daemon()
    story.await_end(JOB)


def while_a_job_waits_for_locks(story: Story) -> None:
    story.submit("PUT", MIGRATE, {})
    _await_migration(story)
    waiting = story.submit("PUT", STOP, {})
    story.await_status(waiting, "waiting")
    story.kill_daemon()
    story.start_daemon()
    story.await_end(JOB)
    story.await_end(waiting)


def opcode_killed(story: Story) -> None:
    story.submit("PUT", MIGRATE, {})
    kill_opcode(story, _await_migration(story))
    story.await_end(JOB)


def opcode_lost_with_the_daemon(story: Story) -> None:
    story.submit("PUT", MIGRATE, {})
    run = _await_migration(story)
    story.kill_daemon()
    kill_opcode(story, run)
    story.start_daemon()
    story.await_end(JOB)


def running_job_canceled(story: Story) -> None:
    story.submit("PUT", MIGRATE, {})
    _await_migration(story)
    waiting = story.submit("PUT", STOP, {})
    story.await_status(waiting, "waiting")
    story.call("DELETE", f"/2/jobs/{waiting}?")
    story.call("DELETE", f"/2/jobs/{JOB}?")
    story.await_end(JOB)


def evacuation_with_kills(story: Story) -> None:
    story.report("node2", {"status": "evacuate"})
    _await_migration(story)
    story.kill_daemon()
    story.start_daemon()
    story.await_running("replace_disks")
    story.kill_daemon()
    story.start_daemon()
    story.await_incident("node2", "completed", "failed")


def adopted_by_a_later_daemon(story: Story) -> None:
    """The lab and its first daemon may be another checkout's; the second daemon is this one's."""
    story.submit("PUT", MIGRATE, {})
    _await_migration(story)
    waiting = story.submit("PUT", STOP, {})
    story.await_status(waiting, "waiting")
    story.kill_daemon()
    story.start_daemon()
    story.await_end(JOB)
    story.await_end(waiting)


def _await_migration(story: Story) -> Path:
    """Wait until the instance is on its way; the opcode's run folder."""
    run = story.await_running("migrate")
    moving = [node.root / fake.MIGRATING / "instance1.json" for node in story.lab.nodes()]
    story.until(lambda _: any(path.exists() for path in moving), "instance1 is on its way")
    return run


PAIR = (("node2", "node3"),)
NAMES = {
    "before-opcode-start": "killed_after_submission",
    "before-began": "killed_before_an_opcode_begins",
    "before-result": "killed_before_the_result",
    "before-settling": "killed_before_settling",
    "between-commits": "killed_between_commit_and_end",
}
SLOW = {"pairs": PAIR, "migration_seconds": 10.0}
STUCK = {"pairs": PAIR, "migration_seconds": 60.0}
ADOPTED = Scenario("adopted_by_a_later_daemon", adopted_by_a_later_daemon, start=elder.up)
SCENARIOS = (
    *(Scenario(NAMES[point], partial(at_point, point), (), {"pairs": PAIR}) for point in POINTS),
    Scenario("killed_while_an_opcode_runs", while_an_opcode_runs, (), SLOW),
    Scenario("killed_while_a_job_waits_for_locks", while_a_job_waits_for_locks, (), SLOW),
    Scenario("opcode_killed", opcode_killed, ("instance1",), STUCK),
    Scenario("opcode_lost_with_the_daemon", opcode_lost_with_the_daemon, ("instance1",), STUCK),
    Scenario("running_job_canceled", running_job_canceled, ("instance1",), STUCK),
    Scenario("evacuation_with_kills", evacuation_with_kills, ("node2",), SLOW),
    ADOPTED,
)
