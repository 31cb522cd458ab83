"""The disk of the controller is full: requests are refused, nothing is lost, and work goes on when there is room."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.chaos import small_disk

from . import labs, states

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


pytestmark = pytest.mark.slow


@pytest.fixture
def full_lab(lab: Callable[..., labs.Running]) -> Iterator[labs.Running]:
    """A lab whose controller keeps its state on a disk of its own."""
    if reason := small_disk.why_not():
        pytest.skip(f"no small disk can be mounted here: {reason}")
    one = lab(nodes=4, instances=8)
    one.stop()
    with small_disk.under(one.where.lib):
        one.start()
        yield one
        labs.down(one)


def test_a_full_disk_refuses_requests_and_loses_nothing(full_lab: labs.Running) -> None:
    one, before = full_lab, full_lab.cluster()
    small_disk.fill(one.where.lib)
    for path, body in (
        ("/2/nodes/node2/tags?tag=one", None),
        ("/2/nodes/node2/role", "drained"),
        ("/2/modify", {"round_interval": 7}),
        ("/2/pause", {"reason": "no room"}),
    ):
        answer = one.put(path, body)
        assert answer.status_code == 507, answer.text
        assert "No space left on device" in answer.json()["detail"]
    assert one.cluster() == before
    assert one.get("/1/jobs") == []
    assert one.ask("GET", "/1/health").status_code == 503

    small_disk.free(one.where.lib)
    one.until(lambda _: one.ask("GET", "/1/health").status_code == 200, "the health sees that there is room again")
    job = one.put("/2/nodes/node2/tags?tag=one").json()
    assert states.job_ended(one, job)["status"] == "success"
    assert one.cluster().node("node2").tags == ("one",)


def test_a_round_goes_on_when_there_is_room_again(full_lab: labs.Running) -> None:
    one = full_lab
    labs.drop(one, "broken.json", labs.report(one, "node2", '{"status": "evacuate"}'))
    one.until(lambda _: states.running(one, "migrate") or states.running(one, "failover"), "the evacuation is at work")

    def is_refused(_: labs.Running) -> bool:
        small_disk.fill(one.where.lib)
        return "No space left on device" in one.told()

    one.until(is_refused, "something cannot be written")
    small_disk.free(one.where.lib)
    one.until(one.ended("node2"), "the incident ends")
    one.until(states.at_rest, "every job has ended")
    assert one.wrong() == []
