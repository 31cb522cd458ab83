"""A copy of a controller is distinguished from the original, and the judge reads the folders of both."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.daemon.jobs import store as job_store
from ansible_collections.roundsman.cluster.daemon.jobs import values
from ansible_collections.roundsman.cluster.daemon.lab import checker
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent.epochs import Epoch, Order
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import tree
from ansible_collections.roundsman.cluster.plugins.plugin_utils import controller_epoch

from tests.chaos import machines
from tests.chaos.chronicle import Chronicle
from tests.chaos.machines import Machine, Seat
from tests.chaos.turns import NUMBERS, Turns
from tests.unit.daemon import twins

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ansible_collections.roundsman.cluster.daemon.lab import world

TAG = {"of": "cluster", "object": "", "tags": ["seen"]}


@pytest.fixture
def lab(tmp_path: Path) -> world.Lab:
    return twins.lab(tmp_path, pairs=[("node2", "node3")])


@pytest.fixture
def chronicle(tmp_path: Path) -> Iterator[Chronicle]:
    made = Chronicle(tmp_path / "chaos.log")
    yield made
    made.close()


def save(root: Path, number: int, *, status: values.Status = values.Status.QUEUED) -> values.Job:
    job = values.Job(
        number, (values.Opcode("tags_set", TAG, status=status, started=float(status is not values.Status.QUEUED)),)
    )
    job_store.Store(tree.Tree(root).queue).save(job)
    return job


def copied(lab: world.Lab, chronicle: Chronicle, turns: Turns) -> tuple[Machine, Machine]:
    tree.Tree(lab.controller).log.mkdir(parents=True, exist_ok=True)
    first = Machine(lab.controller, number=0, chronicle=chronicle)
    return first, machines.copy(first, number=1, known=turns, chronicle=chronicle)


def test_jobs_of_a_copy_have_numbers_of_their_own(lab: world.Lab, chronicle: Chronicle) -> None:
    save(lab.controller, 7)
    save(lab.controller, 8, status=values.Status.SUCCESS)
    turns = Turns()

    _, second = copied(lab, chronicle, turns)

    assert job_store.Store(second.where.queue).highest_id() == NUMBERS
    assert turns.shared == {7}
    assert "../copy1" in (lab.folder / "inventory-copy1/roundsman.yml").read_text()


def test_of_a_job_that_both_have_the_judge_takes_the_one_that_was_done(lab: world.Lab, chronicle: Chronicle) -> None:
    queued = save(lab.controller, 7)
    first, second = copied(lab, chronicle, Turns())
    done = dataclasses.replace(queued.opcodes[0], status=values.Status.SUCCESS, started=1.0)
    job_store.Store(second.where.queue).save(dataclasses.replace(queued, opcodes=(done,)))
    for machine, line in ((first, "2026-11-29 10:00:02,000 b"), (second, "2026-11-29 10:00:01,000 a")):
        machine.where.audit_log.write_text(f"2026-11-29 10:00:00,000 both\n{line}\n")

    seat = Seat(lab.folder, first.root, (first.root, second.root))

    assert set(checker.jobs(seat)) == {7, NUMBERS}
    assert checker.jobs(seat)[7].status is values.Status.SUCCESS
    assert [line.split()[-1] for line in checker._audit_log(seat).splitlines()] == ["both", "a", "b"]
    assert set(checker.jobs(lab)) == {7}


def test_a_job_that_had_not_ended_is_of_the_one_that_began_it(lab: world.Lab, chronicle: Chronicle) -> None:
    for number in (7, 8, 9):
        save(lab.controller, number)
    turns = Turns()
    first, second = copied(lab, chronicle, turns)
    for machine, number, began in ((first, 7, 5.0), (second, 8, 6.0), (first, 9, 5.0), (second, 9, 6.0)):
        opcode = values.Opcode("tags_set", TAG, status=values.Status.SUCCESS, started=began)
        job_store.Store(machine.where.queue).save(values.Job(number, (opcode,)))

    turns.find_owners([first.root, second.root])

    assert turns.owners == {"7/0": 0, "8/0": 1}


def test_the_epoch_in_a_copy_is_that_of_the_original(lab: world.Lab, chronicle: Chronicle) -> None:
    order = Order(Epoch(4, "ours"), "0c1d2e3f-0000-4000-8000-0000000000ee", 1)
    controller_epoch.write(tree.Tree(lab.controller), order)

    first, second = copied(lab, chronicle, Turns())

    assert (first.epoch, second.epoch) == (4, 0)
    assert not second.is_up
    assert machines.leader([first, second]) is None
