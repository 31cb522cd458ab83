from __future__ import annotations

import pytest
from ansible_collections.roundsman.cluster.daemon.jobs import values
from ansible_collections.roundsman.cluster.daemon.maintenance import booting
from ansible_collections.roundsman.cluster.plugins.module_utils.domain import dead_nodes

NOW = 1_700_000_000.0


@pytest.mark.parametrize("command", ["on", "cycle"])
def test_a_node_that_was_powered_on_has_time_to_boot_until_it_answers(command: str) -> None:
    def reason(*, ended: float, answered: float = 0.0, status: values.Status = values.Status.SUCCESS) -> str:
        opcode = values.Opcode("power", {"node": "n3", "command": command}, status=status, ended=ended)
        known = booting.powered_on([values.Job(900, (opcode,))], now=NOW)
        return booting.reason(known.get("n3", 0.0), dead_nodes.Silence(9, NOW, answered=answered), now=NOW)

    assert reason(ended=NOW - 30) == "it was powered on 30 s ago: it has 600 s to boot before it is fenced"
    assert reason(ended=NOW - 30, answered=NOW - 90)
    assert not reason(ended=NOW - 30, answered=NOW - 10)
    assert not reason(ended=NOW - booting.BOOT)
    assert not reason(ended=NOW - 30, status=values.Status.ERROR)


def test_the_last_on_counts() -> None:
    jobs = [
        values.Job(
            number, (values.Opcode("power", {"node": "n3", "command": "on"}, status=values.Status.SUCCESS, ended=at),)
        )
        for number, at in ((1, NOW - 10), (2, NOW - 50))
    ]
    assert booting.powered_on(jobs, now=NOW) == {"n3": NOW - 10}
