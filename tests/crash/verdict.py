"""What must hold when the storm is over: by the nodes' journals, the queue, the locks, the incidents and the log."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from ansible_collections.roundsman.cluster.plugins.module_utils.hypervisor import fake

from tests.crash import victims
from tests.integration import states

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.integration import labs

DEFECTS = ("this is a defect", "was never retrieved", "was destroyed but it is pending", "Exception in thread")


def unfinished(lab: labs.Running) -> list[int]:
    """The jobs that have not ended."""
    return [job["id"] for job in lab.get("/1/jobs") if job["status"] not in states.FINAL]


def rest(lab: labs.Running) -> None:
    """Wait until everything has ended: each time that a job ends, the patience is new.

    Raises:
        AssertionError: no job ended within the time that a lab is given, although some are unfinished.
    """
    daemon = lab.where.pid_file.read_text()
    while not _is_at_rest(lab):
        before = unfinished(lab)
        lab.until(functools.partial(_goes_on, before=before), f"one of the jobs {before} ends")
    assert lab.where.pid_file.read_text() == daemon, "the daemon ended by itself"


def start_what_is_down(lab: labs.Running) -> None:
    """Start the instances that were lost between stop and start, as a person does who reads what their jobs say.

    Raises:
        AssertionError: no job tells of one of them.
    """
    cluster = lab.cluster()
    told = " ".join(step["text"] for job in lab.get("/1/jobs") for step in job["opcodes"])
    running = {name for node in lab.lab.nodes() for name in fake.Driver(node.root, opcode="").running()}
    for one in cluster.instances.values():
        if one.is_up and one.name not in running:
            assert f"{one.name} runs on none of" in told, f"{one.name} is down, and no job says so"
            job = lab.put(f"/2/instances/{one.name}/startup").json()
            ended = states.job_ended(lab, job)
            assert ended["status"] == "success", ended["text"]


def wrong(lab: labs.Running) -> list[str]:
    """Everything that is wrong in a lab at rest, one sentence each."""
    return [*lab.wrong(), *_left_over(lab), *_power(lab), *_defects(lab)]


def _goes_on(lab: labs.Running, *, before: list[int]) -> bool:
    return unfinished(lab) != before or _is_at_rest(lab)


def _is_at_rest(lab: labs.Running) -> bool:
    if unfinished(lab):
        return False
    is_open = any(one["repair-status"] in {"noted", "pending"} for one in lab.get("/1/status"))
    return not is_open or not lab.get("/1/plan")["jobs"]


def _left_over(lab: labs.Running) -> Iterator[str]:
    for lock in lab.get("/2/locks"):
        yield from (f"{lock['name']} is held by {one['owner']}" for one in lock["owners"])
        yield from (f"{lock['name']} is waited for by {one['owner']}" for one in lock["waiting"])
    yield from (f"job {job} is stuck" for job in unfinished(lab))
    for kind in (victims.Victim.OPCODE, victims.Victim.GUARD):
        yield from (f"process {pid} of the {kind.value} is left" for pid in victims.alive(lab, kind))


def _power(lab: labs.Running) -> Iterator[str]:
    for one in lab.cluster().nodes.values():
        if one.powered != lab.lab.node(one.name).is_powered():
            yield f"{one.name} is recorded as powered {'on' if one.powered else 'off'}, and is not"


def _defects(lab: labs.Running) -> Iterator[str]:
    for line in (lab.where.log / "daemon.log").read_text(errors="replace").splitlines():
        if any(defect in line for defect in DEFECTS):
            yield f"the daemon says: {line}"
