"""The driver `redfish` against the emulator of sushy-tools, over TLS."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.power import health, power
from ansible_collections.roundsman.cluster.plugins.module_utils.oob import drivers

from . import sushy

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.slow
ON, OFF, UNKNOWN = power.State.ON, power.State.OFF, power.State.UNKNOWN


@pytest.fixture(scope="module")
def bmc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sushy.Bmc]:
    """One for all tests: each switches the node as it needs it."""
    with sushy.running(tmp_path_factory.mktemp("sushy")) as one:
        yield one


def target(bmc: sushy.Bmc, **changes: Any) -> power.Target:
    login = {"username": sushy.USERNAME, "password": sushy.PASSWORD, "certificate": f"sha256:{bmc.fingerprint}"}
    known = {"address": sushy.ADDRESS, "port": bmc.port, **login, **changes}
    return power.Target(name="node1", driver="redfish", **known)


def run(one: power.Target, command: power.Command, *, deadline: float = 30.0) -> power.Outcome:
    [outcome] = drivers.run([one], command=command, deadline=deadline)
    return outcome


def test_a_node_is_read_and_switched_off_and_on(bmc: sushy.Bmc) -> None:
    run(target(bmc), power.Command.ON)
    assert run(target(bmc), power.Command.STATUS).after is ON
    off = run(target(bmc), power.Command.OFF)
    assert (off.confirmed, off.sent, off.before, off.after) == (True, True, ON, OFF)
    assert run(target(bmc), power.Command.STATUS).after is OFF
    on = run(target(bmc), power.Command.ON)
    assert (on.confirmed, on.sent, on.before, on.after) == (True, True, OFF, ON)


def test_a_node_that_is_already_off_is_sent_nothing(bmc: sushy.Bmc) -> None:
    run(target(bmc), power.Command.OFF)
    again = run(target(bmc), power.Command.OFF)
    assert (again.confirmed, again.sent, again.changed) == (True, False, False)


def test_a_node_is_shut_down_softly(bmc: sushy.Bmc) -> None:
    run(target(bmc), power.Command.ON)
    soft = run(target(bmc), power.Command.SOFT_OFF)
    assert (soft.confirmed, soft.sent, soft.after) == (True, True, OFF)


def test_a_cycle_is_sent_once_and_seen_off_and_on(bmc: sushy.Bmc) -> None:
    run(target(bmc), power.Command.ON)
    cycle = run(target(bmc), power.Command.CYCLE)
    assert (cycle.confirmed, cycle.attempts, cycle.after) == (True, 1, ON)


def test_a_node_that_is_off_is_not_cycled(bmc: sushy.Bmc) -> None:
    run(target(bmc), power.Command.OFF)
    cycle = run(target(bmc), power.Command.CYCLE)
    assert (cycle.sent, cycle.reason, cycle.after) == (False, "refused", OFF)


@pytest.mark.parametrize("login", [{"password": "wrong"}, {"username": "nobody"}])
def test_a_wrong_login_is_told_as_one_and_changes_nothing(bmc: sushy.Bmc, login: dict[str, str]) -> None:
    run(target(bmc), power.Command.ON)
    outcome = run(target(bmc, **login), power.Command.OFF)
    assert (outcome.after, outcome.sent, outcome.reason) == (UNKNOWN, False, "auth")
    assert run(target(bmc), power.Command.STATUS).after is ON


@pytest.mark.parametrize(
    ("certificate", "text"),
    [
        ("sha256:" + "0" * 64, "the BMC has another certificate than the one that is known"),
        ("", "nobody known vouches for the BMC's certificate: "),
    ],
)
def test_a_bmc_with_another_certificate_gets_no_login(bmc: sushy.Bmc, certificate: str, text: str) -> None:
    outcome = run(target(bmc, certificate=certificate), power.Command.OFF)
    assert (outcome.after, outcome.sent, outcome.reason) == (UNKNOWN, False, "auth")
    assert (outcome.text or "").startswith(text)


def test_any_certificate_is_taken_from_who_says_so(bmc: sushy.Bmc) -> None:
    assert run(target(bmc, certificate="any"), power.Command.STATUS).confirmed


def test_a_bmc_that_is_silent_is_a_timeout(bmc: sushy.Bmc) -> None:
    with socket.create_server((sushy.ADDRESS, 0)) as silent:
        outcome = run(target(bmc, port=silent.getsockname()[1]), power.Command.OFF, deadline=1.0)
    assert (outcome.after, outcome.sent, outcome.reason) == (UNKNOWN, False, "timeout")


def test_a_port_where_nobody_listens_is_unreachable(bmc: sushy.Bmc) -> None:
    with socket.create_server((sushy.ADDRESS, 0)) as gone:
        port = gone.getsockname()[1]
    outcome = run(target(bmc, port=port), power.Command.OFF)
    assert (outcome.after, outcome.reason) == (UNKNOWN, "unreachable")


def test_a_node_says_how_it_is(bmc: sushy.Bmc) -> None:
    [told] = drivers.health([target(bmc)])
    assert (told.status, told.items, told.reason) == (
        health.Status.OK,
        [health.Item("System", health.Status.OK)],
        None,
    )


def test_a_wrong_login_leaves_the_health_unknown(bmc: sushy.Bmc) -> None:
    [told] = drivers.health([target(bmc, password="wrong")])
    assert (told.status, told.reason, list(told.items)) == (health.Status.UNKNOWN, "auth", [])


def test_a_bmc_says_what_it_is(bmc: sushy.Bmc) -> None:
    [told] = drivers.describe([target(bmc)])
    assert (told.identity.manufacturer, told.identity.firmware) == ("Sushy Emulator", "1.00")
    assert told.supports == ("status", "on", "off", "cycle", "soft_off", "health")
