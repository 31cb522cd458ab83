"""The driver `ipmi` against OpenIPMI's simulator, which offers cipher suite 3 only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.power import power
from ansible_collections.roundsman.cluster.plugins.module_utils.oob import drivers

from . import openipmi, peers

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ON, OFF = power.State.ON, power.State.OFF


@pytest.fixture
def bmc(tmp_path: Path) -> Iterator[openipmi.Bmc]:
    with openipmi.running(tmp_path, program=peers.program("ipmi_sim", package="openipmi")) as one:
        yield one


def run(bmc: openipmi.Bmc, command: power.Command, **login: str) -> power.Outcome:
    known = {"username": openipmi.USERNAME, "password": openipmi.PASSWORD, **login}
    target = power.Target(name="node1", driver="ipmi", address=openipmi.ADDRESS, port=bmc.port, **known)
    [outcome] = drivers.run([target], command=command, deadline=10.0)
    return outcome


def test_a_node_is_read_and_switched_off_and_on(bmc: openipmi.Bmc) -> None:
    assert run(bmc, power.Command.STATUS).after is ON
    off = run(bmc, power.Command.OFF)
    assert (off.confirmed, off.before, off.after, bmc.is_on) == (True, ON, OFF, False)
    on = run(bmc, power.Command.ON)
    assert (on.confirmed, on.before, on.after, bmc.is_on) == (True, OFF, ON, True)


@pytest.mark.parametrize("login", [{"password": "wrong"}, {"username": "nobody"}])
def test_a_wrong_login_is_told_as_one_and_changes_nothing(bmc: openipmi.Bmc, login: dict[str, str]) -> None:
    outcome = run(bmc, power.Command.OFF, **login)
    assert (outcome.confirmed, outcome.sent, outcome.reason, bmc.is_on) == (False, False, "auth", True)
