from __future__ import annotations

import pytest
from ansible_collections.roundsman.cluster.daemon.jobs import values

S = values.Status
WORDS = {"q": S.QUEUED, "w": S.WAITING, "r": S.RUNNING, "s": S.SUCCESS, "e": S.ERROR, "c": S.CANCELED}


def job(statuses: str, *, canceling: bool = False) -> values.Job:
    opcodes = tuple(values.Opcode("test", {}, priority=5 - i, status=WORDS[one]) for i, one in enumerate(statuses))
    return values.Job(1, opcodes, canceling=canceling)


@pytest.mark.parametrize(
    ("statuses", "canceling", "status"),
    [
        ("qq", False, S.QUEUED),
        ("wq", False, S.WAITING),
        ("rq", False, S.RUNNING),
        ("sq", False, S.QUEUED),
        ("sw", False, S.WAITING),
        ("sr", False, S.RUNNING),
        ("ss", False, S.SUCCESS),
        ("ec", False, S.ERROR),
        ("se", False, S.ERROR),
        ("cc", False, S.CANCELED),
        ("sc", False, S.CANCELED),
        ("eq", False, S.CANCELING),
        ("qq", True, S.CANCELING),
        ("wq", True, S.CANCELING),
        ("rq", True, S.CANCELING),
        ("sq", True, S.CANCELING),
        ("ss", True, S.SUCCESS),
        ("sc", True, S.CANCELED),
    ],
)
def test_the_status_of_a_job_follows_from_its_opcodes(statuses: str, status: values.Status, *, canceling: bool) -> None:
    one = job(statuses, canceling=canceling)
    assert one.status is status
    assert one.is_final is (status in values.FINAL)


@pytest.mark.parametrize(("statuses", "priority"), [("qq", 5), ("sq", 4), ("ssr", 3), ("ss", 0)])
def test_the_priority_is_that_of_the_first_unfinished_opcode(statuses: str, priority: int) -> None:
    assert job(statuses).priority == priority


@pytest.mark.parametrize(
    ("statuses", "index"), [("qq", 0), ("rq", 0), ("sq", 1), ("ss", None), ("eq", None), ("cq", None)]
)
def test_after_an_opcode_that_ended_badly_no_other_is_started(statuses: str, index: int | None) -> None:
    assert job(statuses).next_opcode == index
