from __future__ import annotations

import gc
import socket
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.daemon.lab import chassis
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.power import power
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.module_utils.oob import drivers, ipmi, ipmi_session

from tests.unit.daemon.lab import simulated
from tests.unit.plugins.module_utils.oob import virtual

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

FIRST, SECOND, THIRD = "127.0.8.1", "127.0.8.2", "127.0.8.3"
ON, OFF, UNKNOWN = power.State.ON, power.State.OFF, power.State.UNKNOWN


@pytest.fixture
def rack() -> Iterator[simulated.Rack]:
    with simulated.running() as rack:
        yield rack


def target(rack: simulated.Rack, address: str, **changes: str) -> power.Target:
    login = {"username": simulated.USERNAME, "password": simulated.PASSWORD, **changes}
    return power.Target(name=address, driver="ipmi", address=address, port=rack.port, **login)


def run(rack: simulated.Rack, command: power.Command, *addresses: str, deadline: float = 60.0) -> list[power.Outcome]:
    targets = [target(rack, address) for address in addresses]
    return drivers.run(targets, command=command, deadline=deadline)


@pytest.mark.parametrize("suite", [3, 17])
def test_a_node_is_switched_off_and_read_back(rack: simulated.Rack, suite: int) -> None:
    node = rack.add(FIRST, suites=(suite,))
    [outcome] = run(rack, power.Command.OFF, FIRST)
    assert (outcome.ok, outcome.changed, outcome.before, outcome.after) == (True, True, ON, OFF)
    assert node.history == [False]


def test_a_node_is_switched_on_and_read_back(rack: simulated.Rack) -> None:
    node = rack.add(FIRST, on=False)
    [outcome] = run(rack, power.Command.ON, FIRST)
    assert (outcome.ok, outcome.before, outcome.after) == (True, OFF, ON)
    assert node.powered()


def test_a_node_that_is_already_off_is_sent_nothing(rack: simulated.Rack) -> None:
    node = rack.add(FIRST, on=False)
    [outcome] = run(rack, power.Command.OFF, FIRST)
    assert (outcome.ok, outcome.sent, outcome.changed) == (True, False, False)
    assert node.history == []


def test_a_cycle_is_confirmed_when_the_node_was_seen_off_and_on(rack: simulated.Rack) -> None:
    node = rack.add(FIRST)
    [outcome] = run(rack, power.Command.CYCLE, FIRST)
    assert (outcome.ok, outcome.changed, outcome.attempts) == (True, True, 1)
    assert node.history == [False, True]


@pytest.mark.parametrize("command", [power.Command.FENCE, power.Command.CONFIRM_OFF])
def test_an_off_that_is_answered_with_d5_is_a_fence_once_it_reads_off_twice(command: power.Command) -> None:
    outcome = virtual.at_one(command, chassis.STRICT, on=False).outcome
    assert (outcome.confirmed, outcome.sent, outcome.changed) == (True, True, False)


@pytest.mark.parametrize("fault", [chassis.STRICT, chassis.REFUSING])
def test_an_error_of_a_bmc_that_reads_on_is_no_fence(fault: str) -> None:
    outcome = virtual.at_one(power.Command.FENCE, fault, chassis.LYING, on=False).outcome
    assert (outcome.confirmed, outcome.after, outcome.reason) == (False, ON, "refused")


@pytest.mark.parametrize("command", [power.Command.FENCE, power.Command.CONFIRM_OFF])
@pytest.mark.parametrize(
    ("fault", "reason"), [(chassis.BUSY, "busy"), (chassis.REFUSING, "refused"), (chassis.MUTE, "timeout")]
)
def test_a_node_that_reads_off_and_whose_bmc_took_no_off_is_not_fenced(
    command: power.Command, fault: str, reason: str
) -> None:
    told = virtual.at_one(command, fault, chassis.STUBBORN, chassis.LYING)
    assert (told.outcome.before, told.outcome.confirmed, told.outcome.reason) == (OFF, False, reason)
    assert told.history == [], "the node is on"


def test_an_off_whose_answer_is_always_lost_is_no_fence_and_says_why() -> None:
    told = virtual.at_one(power.Command.FENCE, chassis.MUTE)
    assert (told.outcome.confirmed, told.outcome.before, told.outcome.reason) == (False, ON, "timeout")
    assert set(told.history) == {False}, "it is off, but a BMC that restarts reads off, too"
    assert told.outcome.text is not None
    assert "accepted no command to power off (the answer to the command was lost)" in told.outcome.text


@pytest.mark.parametrize("faults", [(), (chassis.STRICT,)], ids=["accepts", "already off"])
def test_an_off_whose_first_answer_is_lost_is_a_fence_in_the_second_try(faults: tuple[str, ...]) -> None:
    def prepare(rack: virtual.Rack) -> None:
        off = (*ipmi.CHASSIS_CONTROL, bytes((ipmi.CONTROLS[power.Command.OFF],)))

        def meddle(datagram: bytes, answer: bytes | None) -> Iterable[bytes]:
            # Its answers to the first off, which is sent again and again within its session.
            is_off = bool(rack.commands) and rack.commands[-1][1:] == off
            return () if is_off and rack.count(*off) <= ipmi_session.ASKS else virtual.unchanged(datagram, answer)

        rack.meddle = meddle

    outcome = virtual.at_one(power.Command.FENCE, *faults, prepare=prepare).outcome
    assert (outcome.confirmed, outcome.before, outcome.after, outcome.attempts) == (True, ON, OFF, 2)


def test_a_bmc_that_says_off_of_a_node_that_is_on_is_exposed_by_the_command_that_confirms() -> None:
    told = virtual.at_one(power.Command.CONFIRM_OFF, chassis.LYING)
    assert (told.outcome.before, told.outcome.after, told.outcome.confirmed) == (OFF, ON, False)
    assert told.history == [False]


def test_a_node_that_reads_on_keeps_its_power_when_it_is_to_be_confirmed_as_off() -> None:
    told = virtual.at_one(power.Command.CONFIRM_OFF)
    assert (told.outcome.confirmed, told.outcome.reason, told.history) == (False, "refused", [])


def test_a_cycle_whose_answer_is_lost_happens_once() -> None:
    told = virtual.at_one(power.Command.CYCLE, chassis.MUTE)
    assert (told.outcome.sent, told.outcome.attempts) == (True, 1)
    assert told.history == [False, True]


def test_a_cycle_without_effect_is_accepted_but_unconfirmed() -> None:
    outcome = virtual.at_one(power.Command.CYCLE, chassis.STUBBORN).outcome
    assert (outcome.ok, outcome.after, outcome.reason) == (False, ON, "unconfirmed")


@pytest.mark.parametrize("login", [{"password": "wrong"}, {"username": "nobody"}])
def test_a_wrong_login_is_told_from_a_dead_bmc(rack: simulated.Rack, login: dict[str, str]) -> None:
    rack.add(FIRST)
    [outcome] = drivers.run([target(rack, FIRST, **login)], command=power.Command.STATUS, deadline=60.0)
    assert (outcome.after, outcome.reason) == (UNKNOWN, "auth")


def test_a_bmc_without_a_common_cipher_suite_is_told_from_a_dead_one(rack: simulated.Rack) -> None:
    rack.add(FIRST, suites=())
    [outcome] = run(rack, power.Command.STATUS, FIRST)
    assert (outcome.after, outcome.reason) == (UNKNOWN, "cipher")


def test_a_port_where_nobody_listens_is_unreachable() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind((FIRST, 0))
        port = taken.getsockname()[1]
    nobody = power.Target(name="node1", driver="ipmi", address=FIRST, port=port)
    [outcome] = drivers.run([nobody], command=power.Command.STATUS, deadline=60.0)
    assert (outcome.after, outcome.reason) == (UNKNOWN, "unreachable")


def test_a_dead_bmc_is_unknown_at_its_deadline_and_the_others_are_served() -> None:
    async def work() -> tuple[list[power.Outcome], bool]:
        with virtual.rack() as rack:
            rack.add(FIRST, chassis.DEAD)
            served = rack.add(SECOND)
            targets = [rack.target(FIRST), rack.target(SECOND)]
            return await ipmi.serve(targets, command=power.Command.OFF, deadline=3.0), served.powered()

    (dead, other), is_on = virtual.run(work())
    assert (dead.after, dead.reason, dead.sent) == (UNKNOWN, "timeout", False)
    assert dead.text == "no verdict within 3 s"
    assert (other.ok, is_on) == (True, False)


def test_a_node_that_takes_its_time_is_waited_for() -> None:
    told = virtual.at_one(power.Command.OFF, chassis.SLOW, slow_time=12.0)
    assert (told.outcome.ok, told.outcome.attempts, told.history) == (True, 1, [False])
    assert told.outcome.seconds >= 12.0


def test_a_stubborn_node_is_not_off() -> None:
    outcome = virtual.at_one(power.Command.OFF, chassis.STUBBORN).outcome
    assert (outcome.ok, outcome.sent, outcome.after, outcome.reason) == (False, True, ON, "not_off")


def test_a_busy_bmc_is_asked_until_its_time_is_up() -> None:
    outcome = virtual.at_one(power.Command.OFF, chassis.BUSY).outcome
    assert (outcome.ok, outcome.reason, outcome.attempts > 1) == (False, "busy", True)


def test_bmcs_on_one_port_are_told_apart_by_address(rack: simulated.Rack) -> None:
    first, second, third = rack.add(FIRST), rack.add(SECOND), rack.add(THIRD)
    outcomes = run(rack, power.Command.OFF, THIRD, FIRST)
    assert [outcome.name for outcome in outcomes] == [THIRD, FIRST]
    assert (first.powered(), second.powered(), third.powered()) == (False, True, False)


@pytest.fixture
def usual() -> Iterator[tuple[int, int, int]]:
    """Thresholds of the garbage collector that nobody else sets."""
    before, mine = gc.get_threshold(), (701, 11, 12)
    gc.set_threshold(*mine)
    yield mine
    gc.set_threshold(*before)


def test_garbage_is_collected_rarely_while_bmcs_are_asked_and_as_usual_after_that(
    rack: simulated.Rack, usual: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def closing(bmc: ipmi.Bmc) -> None:
        seen.append(gc.get_threshold())
        close(bmc)

    close = ipmi.Bmc.close
    monkeypatch.setattr(ipmi.Bmc, "close", closing)
    rack.add(FIRST)
    run(rack, power.Command.OFF, FIRST)
    assert (seen, gc.get_threshold()) == ([(ipmi.NEW_OBJECTS, *usual[1:])], usual)


def test_an_unknown_driver_is_refused_before_anything_is_sent(rack: simulated.Rack) -> None:
    node = rack.add(FIRST)
    stranger = power.Target(name="node2", driver="telepathy", address=SECOND)
    with pytest.raises(errors.InvalidInput, match="telepathy"):
        drivers.run([target(rack, FIRST), stranger], command=power.Command.OFF)
    assert node.history == []


def test_a_name_given_twice_is_refused(rack: simulated.Rack) -> None:
    twice = [target(rack, FIRST), target(rack, FIRST)]
    with pytest.raises(errors.InvalidInput, match="twice"):
        drivers.run(twice, command=power.Command.STATUS)


def test_a_host_name_is_refused() -> None:
    named = power.Target(name="node1", driver="ipmi", address="bmc1.example")
    with pytest.raises(errors.InvalidInput, match="not an IP address"):
        ipmi.check(named)


@pytest.mark.parametrize(("field", "text"), [("username", "u" * 17), ("password", "p" * 21)])
def test_a_login_that_ipmi_cannot_carry_is_refused(field: str, text: str) -> None:
    login: dict[str, Any] = {field: text}
    one = power.Target(name="node1", driver="ipmi", address=FIRST, **login)
    with pytest.raises(errors.InvalidInput, match="at most"):
        ipmi.check(one)
