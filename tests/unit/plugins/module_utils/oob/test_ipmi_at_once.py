"""Many BMCs in one call: each with its own deadline, none waiting for another, and nothing left behind."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import resource
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.daemon.lab import chassis, wire
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.power import power
from ansible_collections.roundsman.cluster.plugins.module_utils.oob import ipmi, operation

from tests.unit.plugins.module_utils.oob import virtual

if TYPE_CHECKING:
    from collections.abc import Iterator

OFF, CYCLE = power.Command.OFF, power.Command.CYCLE
NET = 250


def addresses(count: int) -> list[str]:
    return [f"127.9.{number // NET}.{number % NET + 1}" for number in range(count)]


def descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_a_thousand_bmcs_are_switched_off_with_one_command_each() -> None:
    async def work() -> tuple[list[power.Outcome], list[list[bool]], int, int]:
        with virtual.rack() as rack:
            nodes = [rack.add(address) for address in addresses(1000)]
            targets = [rack.target(address) for address in addresses(1000)]
            outcomes = await ipmi.serve(targets, command=OFF, deadline=30.0)
            await asyncio.sleep(virtual.TRAVEL)
            return outcomes, [node.history for node in nodes], rack.count(0x00, 0x02, b"\x00"), rack.session_count()

    outcomes, histories, sent, sessions = virtual.run(work())
    assert [outcome.name for outcome in outcomes] == addresses(1000)
    assert all(outcome.confirmed and outcome.attempts == 1 for outcome in outcomes)
    assert (histories, sent, sessions) == ([[False]] * 1000, 1000, 0)


def test_dead_bmcs_among_five_hundred_keep_nobody_waiting() -> None:
    dead = set(addresses(500)[::20])

    async def work() -> tuple[list[power.Outcome], float]:
        with virtual.rack(conditions=wire.Conditions(delay=0.005, loss=0.005, seed=1)) as rack:
            for address in addresses(500):
                rack.add(address, *((chassis.DEAD,) if address in dead else ()))
            began = rack.loop.time()
            targets = [rack.target(address) for address in addresses(500)]
            outcomes = await ipmi.serve(targets, command=OFF, deadline=5.0)
            return outcomes, rack.loop.time() - began

    outcomes, seconds = virtual.run(work())
    assert {outcome.name for outcome in outcomes if not outcome.confirmed} == dead
    assert {(one.reason, one.seconds, one.sent) for one in outcomes if one.name in dead} == {("timeout", 5.0, False)}
    assert seconds == pytest.approx(5.0, abs=0.01)


def test_where_there_are_fewer_sockets_than_bmcs_each_has_its_whole_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ipmi, "_sockets", lambda _: 2)

    async def work() -> tuple[list[power.Outcome], float]:
        with virtual.rack() as rack:
            for address in addresses(4):
                rack.add(address, chassis.DEAD)
            began = rack.loop.time()
            targets = [rack.target(address) for address in addresses(4)]
            return await ipmi.serve(targets, command=OFF, deadline=3.0), rack.loop.time() - began

    outcomes, seconds = virtual.run(work())
    assert [outcome.seconds for outcome in outcomes] == [3.0] * 4
    assert seconds == pytest.approx(6.0, abs=0.01)


@pytest.fixture
def file_limit() -> Iterator[int]:
    """Few files may be open; as many as the machine lets can be asked for."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    few = len(list(Path("/proc/self/fd").iterdir())) + 50
    resource.setrlimit(resource.RLIMIT_NOFILE, (few, hard))
    yield hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_the_limit_of_open_files_is_raised_as_far_as_it_goes(file_limit: int) -> None:
    wanted = 1000 if file_limit == resource.RLIM_INFINITY else min(1000, file_limit - 400)
    assert ipmi._sockets(wanted) == wanted
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > wanted


@pytest.mark.parametrize("fault", [chassis.DEAD, chassis.STUBBORN, chassis.BUSY])
@pytest.mark.parametrize("deadline", [0.3, 1.0, 2.7, 10.0])
def test_no_trouble_outlasts_the_deadline(fault: str, deadline: float) -> None:
    told = virtual.at_one(OFF, fault, deadline=deadline)
    assert not told.outcome.confirmed
    assert told.outcome.seconds <= deadline


def test_a_bmc_that_answers_nothing_but_the_first_question_is_given_up_at_the_deadline() -> None:
    def prepare(rack: virtual.Rack) -> None:
        places = itertools.count()
        rack.loses = lambda _: next(places) > 0

    told = virtual.at_one(OFF, prepare=prepare, deadline=4.0)
    assert (told.outcome.reason, told.outcome.seconds) == ("timeout", 4.0)


# The whole of an off takes 7 ms, each way 1 ms; at 2.5 ms the login is half done.
@pytest.mark.parametrize("milliseconds", [0.0, 0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5])
def test_whoever_is_cancelled_leaves_no_session_and_no_socket(milliseconds: float) -> None:
    async def work() -> tuple[int, int]:
        before = descriptors()
        with virtual.rack() as rack:
            some = addresses(5)
            for address in some:
                rack.add(address)
            running = asyncio.ensure_future(
                ipmi.serve([rack.target(address) for address in some], command=OFF, deadline=30.0)
            )
            await asyncio.sleep(milliseconds / 1000)
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running
            assert running.cancelled()
            await asyncio.sleep(virtual.TRAVEL)
            left = rack.session_count()
        return left, descriptors() - before

    sessions, opened = virtual.run(work())
    # A session whose number is still on its way is known to the BMC only, and forgotten by it.
    assert sessions == (5 if milliseconds == 0.5 else 0)
    assert opened <= 2  # the pipe by which the simulator would be woken


def test_a_driver_that_will_not_be_cancelled_does_not_hold_up_the_verdict() -> None:
    class Stuck:
        async def state(self) -> power.State:
            while True:
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.sleep(3600)
                if asyncio.get_running_loop().time() > until:
                    return power.State.ON

        async def send(self, command: power.Command, /) -> None:
            raise AssertionError(command)

    until = 0.0

    async def work() -> tuple[power.Outcome, float]:
        nonlocal until
        began = asyncio.get_running_loop().time()
        until = began + 50.0
        outcome = await operation.within(Stuck(), name="node1", command=OFF, deadline=3.0)
        return outcome, asyncio.get_running_loop().time() - began

    outcome, seconds = virtual.run(work())
    assert (outcome.reason, outcome.sent) == ("timeout", False)
    assert seconds <= 3.0 + operation.LONGEST_MARGIN
