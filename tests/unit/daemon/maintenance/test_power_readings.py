"""Reading the power of suspects, in virtual time, at BMCs that answer, hang, or change their minds."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.daemon import bmc_reader, failures
from ansible_collections.roundsman.cluster.daemon.maintenance import power_readings
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.power import power
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors

from tests.unit.plugins.module_utils.oob import virtual

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

ON, OFF, UNKNOWN = power.State.ON, power.State.OFF, power.State.UNKNOWN
SECONDS = 1.0
"""What a BMC takes to answer."""


class Bmcs:
    """BMCs that read as `states` says (off by default), each after its time, and what is asked of them."""

    def __init__(self) -> None:
        self.states: dict[str, power.State] = {}
        self.seconds: dict[str, float] = {}
        self.asked: list[tuple[float, str]] = []
        self.started: list[float] = []
        self.in_flight: set[str] = set()
        self.most = 0
        self.failure = ""
        self.busy: set[str] = set()
        self.changes = 0
        self.late = 0.0
        self.failures = failures.Failures()
        self.readings = power_readings.PowerReadings(
            self.read,
            is_left_alone=lambda node: node in self.busy,
            on_change=self._changed,
            clock=lambda: asyncio.get_running_loop().time() + self.late,
            failures=self.failures,
        )

    def _changed(self) -> None:
        self.changes += 1

    async def read(self, nodes: Mapping[str, str]) -> AsyncIterator[power.Outcome]:
        began = asyncio.get_running_loop().time()
        self.started.append(began)
        if self.failure:
            raise errors.Failed(self.failure)
        assert not self.in_flight & nodes.keys(), "one question at a time for each BMC"
        self.in_flight |= nodes.keys()
        self.most = max(self.most, len(self.in_flight))
        self.asked += [(began, name) for name in nodes]
        try:
            for name in sorted(nodes, key=lambda name: self.seconds.get(name, SECONDS)):
                await asyncio.sleep(began + self.seconds.get(name, SECONDS) - asyncio.get_running_loop().time())
                self.in_flight.discard(name)
                if self.seconds.get(name, SECONDS) < bmc_reader.LIMIT:
                    yield power.judge(
                        power.Command.STATUS, name=name, before=self.states.get(name, OFF), seconds=SECONDS
                    )
        finally:
            self.in_flight -= nodes.keys()

    def watch(self, *names: str, since: float = 1.0, alive_at: float = 0.0) -> None:
        self.readings.watch({name: power_readings.Target(name, "ipmi", since, alive_at) for name in names})

    def times(self, name: str) -> list[float]:
        return [at - 1000.0 for at, asked in self.asked if asked == name]

    @contextlib.asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        work = asyncio.ensure_future(self.readings.run())
        try:
            yield
        finally:
            work.cancel()
            (ended,) = await asyncio.gather(work, return_exceptions=True)
            assert isinstance(ended, asyncio.CancelledError), ended


def test_a_bmc_is_read_at_once_and_again_ten_seconds_after_each_answer() -> None:
    async def scenario() -> None:
        bmcs = Bmcs()
        async with bmcs.at_work():
            bmcs.watch("node3")
            assert bmcs.readings.state("node3") is None
            await asyncio.sleep(35)
            assert bmcs.times("node3") == pytest.approx([0, 11, 22, 33], abs=0.1)
            assert bmcs.readings.state("node3") is OFF
            assert bmcs.changes == 1, "nothing new is no news"

    virtual.run(scenario())


def test_a_bmc_that_hangs_is_asked_again_when_its_time_is_over_and_holds_up_no_other() -> None:
    async def scenario() -> None:
        bmcs = Bmcs()
        bmcs.seconds["node2"] = bmc_reader.LIMIT
        async with bmcs.at_work():
            bmcs.watch("node2", "node3")
            await asyncio.sleep(155)
            assert bmcs.times("node2") == pytest.approx([0, 75, 150], abs=2)
            assert len(bmcs.times("node3")) >= 13
            assert bmcs.readings.state("node2") is UNKNOWN

    virtual.run(scenario())


@pytest.mark.parametrize("other", [ON, UNKNOWN])
def test_a_bmc_that_changes_its_answer_is_news_each_time(other: power.State) -> None:
    async def scenario() -> None:
        bmcs = Bmcs()
        async with bmcs.at_work():
            bmcs.watch("node3")
            await asyncio.sleep(15)
            bmcs.states["node3"] = other
            await asyncio.sleep(11)
            assert bmcs.readings.state("node3") is other
            bmcs.states["node3"] = OFF
            await asyncio.sleep(11)
            assert bmcs.readings.state("node3") is OFF
            assert bmcs.changes == 3

    virtual.run(scenario())


def test_three_hundred_bmcs_are_read_thirty_two_at_once_by_few_processes() -> None:
    async def scenario() -> None:
        bmcs = Bmcs()
        names = [f"node{number}" for number in range(300)]
        async with bmcs.at_work():
            bmcs.watch(*names)
            await asyncio.sleep(60)
            assert bmcs.most <= bmc_reader.AT_ONCE
            assert len(bmcs.started) <= 60 / power_readings.PAUSE + 1
            assert {bmcs.readings.state(name) for name in names} == {OFF}

    virtual.run(scenario())


@pytest.mark.parametrize("sign", [{"since": 2.0}, {"since": 0.0}, {"alive_at": 7.0}])
def test_a_sign_of_life_ends_what_was_read_and_what_is_being_read(sign: dict[str, float]) -> None:
    async def scenario() -> None:
        bmcs = Bmcs()
        async with bmcs.at_work():
            bmcs.watch("node3")
            await asyncio.sleep(11.5)  # the second question is on its way
            bmcs.watch("node3", **{"since": 1.0, **sign})
            assert bmcs.readings.state("node3") is None
            await asyncio.sleep(1)
            assert bmcs.readings.state("node3") is None, "it was asked before"
            await asyncio.sleep(2)
            assert bmcs.readings.state("node3") is OFF

    virtual.run(scenario())


def test_a_suspect_that_misses_its_first_question_keeps_what_was_read() -> None:
    async def scenario() -> None:
        bmcs = Bmcs()
        async with bmcs.at_work():
            bmcs.watch("node3", since=0.0)  # a peer has lost it
            await asyncio.sleep(5)
            bmcs.watch("node3", since=5.0)
            assert bmcs.readings.state("node3") is OFF

    virtual.run(scenario())


def test_a_node_whose_power_is_commanded_is_not_read_and_what_its_job_read_counts() -> None:
    async def scenario() -> None:
        bmcs = Bmcs()
        sent = [power.Attempt(power.Answer.ACCEPTED)]
        off = power.judge(
            power.Command.CONFIRM_OFF, name="node3", before=OFF, seen=[OFF, OFF], attempts=sent, seconds=9
        )
        async with bmcs.at_work():
            bmcs.watch("node3")
            await asyncio.sleep(5)
            bmcs.busy.add("node3")
            await asyncio.sleep(20)
            assert len(bmcs.times("node3")) == 1
            bmcs.readings.commanded("node3", off)
            assert bmcs.readings.state("node3") is OFF
            bmcs.busy.clear()
            await asyncio.sleep(5)
            on = power.judge(power.Command.CONFIRM_OFF, name="node3", before=OFF, seen=[ON], attempts=sent, seconds=9)
            bmcs.readings.commanded("node3", on)
            assert bmcs.readings.state("node3") is ON

    virtual.run(scenario())


@contextlib.asynccontextmanager
async def failing() -> AsyncIterator[Bmcs]:
    """BMCs that were to be read, and whose reader has failed."""
    bmcs = Bmcs()
    bmcs.failure = "bmc.json: Permission denied"
    async with bmcs.at_work():
        bmcs.watch("node3")
        await asyncio.sleep(5)
        yield bmcs


def test_a_reader_that_fails_is_reported_and_tried_again() -> None:
    async def scenario() -> None:
        async with failing() as bmcs:
            assert bmcs.readings.state("node3") is UNKNOWN
            assert "Permission denied" in str(bmcs.failures.listed())
            bmcs.failure = ""
            await asyncio.sleep(10)
            assert bmcs.readings.state("node3") is OFF
            assert bmcs.failures.listed() == []

    virtual.run(scenario())


def test_a_reader_that_failed_fails_no_more_once_nothing_is_to_be_read() -> None:
    async def scenario() -> None:
        async with failing() as bmcs:
            assert bmcs.failures.listed()
            bmcs.watch()
            assert bmcs.failures.listed() == []

    virtual.run(scenario())


def test_what_was_read_before_this_process_was_suspended_counts_for_nothing() -> None:
    async def scenario() -> None:
        bmcs = Bmcs()
        async with bmcs.at_work():
            bmcs.watch("node3")
            await asyncio.sleep(11.5)  # the second question is on its way
            bmcs.late = 600.0
            assert bmcs.readings.state("node3") is None
            await asyncio.sleep(1)
            assert bmcs.readings.state("node3") is UNKNOWN, "its answer lay there for ten minutes"
            await asyncio.sleep(11)
            assert bmcs.readings.state("node3") is OFF

    virtual.run(scenario())


def test_nothing_is_read_that_is_not_watched_any_more() -> None:
    async def scenario() -> None:
        bmcs = Bmcs()
        async with bmcs.at_work():
            bmcs.watch("node2", "node3")
            await asyncio.sleep(5)
            bmcs.watch("node2")
            await asyncio.sleep(30)
            assert len(bmcs.times("node3")) == 1
            bmcs.watch()
            before = len(bmcs.asked)
            await asyncio.sleep(60)
            assert len(bmcs.asked) == before
            assert bmcs.readings.state("node2") is None

    virtual.run(scenario())


HANGS = "#!/bin/sh\nsleep 60\n"
READS_OFF = "#!/bin/sh\n" + """echo '{"powered": false}'\n"""


def program(folder: Path, name: str, text: str) -> str:
    """A helper program that root has listed."""
    path = folder / name
    path.write_text(text)
    path.chmod(0o755)
    listed = folder / "oob-programs"
    listed.mkdir(mode=0o755, exist_ok=True)
    (listed / name).symlink_to(path)
    return str(path)


def test_a_process_reads_nodes_side_by_side_and_gives_each_answer_as_it_comes(tmp_path: Path) -> None:
    """Helper programs, a node that the credentials file does not know, and one whose program hangs."""
    (tmp_path / "bmc.json").write_text("{}")
    (tmp_path / "bmc.json").chmod(0o600)
    nodes = {
        "node1": program(tmp_path, "hangs", HANGS),
        "node2": program(tmp_path, "off", READS_OFF),
        "node3": "ipmi",
    }

    async def scenario() -> None:
        found = {}
        answers = power_readings.Reader(tmp_path / "bmc.json", {})(nodes)
        async for outcome in answers:
            found[outcome.name] = outcome.after
            if len(found) == len(nodes) - 1:
                break
        assert found == {"node2": OFF, "node3": UNKNOWN}, "the one that hangs is waited for by nobody"
        assert isinstance(answers, AsyncGenerator)
        await answers.aclose()

    asyncio.run(scenario())


def test_a_credentials_file_that_others_can_read_is_a_failure_of_the_part(tmp_path: Path) -> None:
    (tmp_path / "bmc.json").write_text("{}")
    (tmp_path / "bmc.json").chmod(0o644)

    async def scenario() -> None:
        with pytest.raises(errors.Failed, match=r"bmc\.json"):
            async for _ in power_readings.Reader(tmp_path / "bmc.json", {})({"node3": "ipmi"}):
                pass

    asyncio.run(scenario())
