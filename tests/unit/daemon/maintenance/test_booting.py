from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.roundsman.cluster.daemon.jobs import values
from ansible_collections.roundsman.cluster.daemon.maintenance import booting
from ansible_collections.roundsman.cluster.plugins.plugin_utils.silent_nodes import dead_nodes

NOW = 1_700_000_000.0


def _opcode(*, ended: float, status: values.Status = values.Status.SUCCESS, **params: object) -> values.Opcode:
    params = {"node": "n3", "command": "on", **params}
    return values.Opcode("power", params, status=status, started=NOW - 60, ended=ended)


def _reason(opcode: values.Opcode, *, answered: float = 0.0) -> str:
    known = booting.powered_on([values.Job(900, (opcode,))], now=NOW)
    return booting.reason(known.get("n3", 0.0), dead_nodes.Silence(9, NOW, answered=answered), now=NOW)


@pytest.mark.parametrize("command", ["on", "cycle"])
def test_a_node_that_was_commanded_on_has_time_to_boot_until_it_answers(command: str) -> None:
    on = _opcode(ended=NOW - 30, command=command)
    assert _reason(on) == "it was commanded on 30 s ago: it has 600 s to boot before it is fenced"
    assert _reason(on, answered=NOW - 90)
    assert not _reason(on, answered=NOW - 10)
    assert not _reason(dataclasses.replace(on, ended=NOW - booting.BOOT))


@pytest.mark.parametrize("status", [values.Status.SUCCESS, values.Status.ERROR, values.Status.CANCELED])
def test_it_has_this_time_however_the_job_ended_as_one_bmc_of_many_makes_it_an_error(status: values.Status) -> None:
    assert _reason(_opcode(ended=NOW - 30, status=status))


def test_it_has_this_time_while_the_job_still_runs() -> None:
    assert _reason(_opcode(ended=0.0, status=values.Status.RUNNING))


def test_a_job_that_did_not_begin_or_only_looked_has_powered_nothing_on() -> None:
    assert not _reason(dataclasses.replace(_opcode(ended=NOW - 30, status=values.Status.CANCELED), started=0.0))
    assert not _reason(_opcode(ended=NOW - 30, check=True))
    assert not _reason(_opcode(ended=NOW - 30, command="off"))


def test_the_last_on_counts() -> None:
    jobs = [values.Job(number, (_opcode(ended=at),)) for number, at in ((1, NOW - 10), (2, NOW - 50))]
    assert booting.powered_on(jobs, now=NOW) == {"n3": NOW - 10}
