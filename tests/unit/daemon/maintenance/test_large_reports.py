"""Large reports: an abbreviation in the configuration, the whole in a file, and never the one in place of the other."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from ansible_collections.roundsman.cluster.daemon.api import views
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent import diagnosis
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils import report_originals
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes, incidents, tagging
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import document, store

from tests.unit.daemon import twins

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

    from ansible_collections.roundsman.cluster.daemon import service
    from ansible_collections.roundsman.cluster.daemon.lab import world

    Act = Callable[[service.Service, twins.Processes], Coroutine[Any, Any, None]]

NUMBERS = '"big":123456789012345678901234567890,"e":1e400,"long":0.10000000000000000000000000001'


def large(status: str, *, command: str = "", size: int = 900 * 1024, more: str = "") -> str:
    """A report with numbers that no float holds."""
    asked = f'"command":"{command}",' if command else ""
    return f'{{"status":"{status}",{asked}"details":{{{NUMBERS},"text":"é{"x" * size}{more}"}}}}'


EVACUATE = large("evacuate")
REPAIR = large("live-repair", command="lab-repair")


@pytest.fixture
def lab(tmp_path: Path) -> world.Lab:
    return twins.lab(tmp_path, pairs=[("node2", "node3"), ("node3", "node2"), ("node2", "node4")])


def act(lab: world.Lab, monkeypatch: pytest.MonkeyPatch, scenario: Act, **outcomes: str) -> None:
    async def acting() -> None:
        running, twin = twins.assemble(lab, monkeypatch, outcomes=outcomes)
        running.queue.resume()
        await scenario(running, twin)
        await running.queue.stop()

    asyncio.run(acting())


def incident(running: service.Service, name: str = "node2") -> incidents.Incident:
    cluster = running.configuration.current
    (found,) = [one for one in cluster.maintenance.incidents if one.node == cluster.node(name).uuid]
    return found


def originals(running: service.Service) -> list[str]:
    folder = running.where.reports / "originals"
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


def inputs(twin: twins.Processes) -> list[str]:
    """What the repair commands that ran were given."""
    return [spec.files["input.json"] for spec in twin.specs.values() if spec.kind == "repair_command"]


def test_two_large_reports_leave_configuration_status_rounds_and_jobs_small(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(running: service.Service, twin: twins.Processes) -> None:
        before = running.where.config.stat().st_size
        twins.report(lab, running, "node2", EVACUATE)
        twins.report(lab, running, "node3", REPAIR)
        await twins.settle(running)
        cluster = running.configuration.current
        assert {one.repair_status.value for one in cluster.maintenance.incidents} == {"completed"}
        assert running.where.config.stat().st_size < before + 32 * 1024
        assert len(orjson.dumps(views.status(cluster))) < 16 * 1024
        assert len(orjson.dumps(views.reports(cluster, running.intake, poll_problem=""))) < 16 * 1024
        for folder in (running.where.rounds, running.where.queue):
            sizes = {path: path.stat().st_size for path in folder.rglob("*") if path.is_file()}
            # The run of the repair command holds the whole report, which the command reads.
            assert [path.name for path, size in sizes.items() if size >= 64 * 1024] in ([], ["input.json"])
        assert inputs(twin) == [REPAIR]

    act(lab, monkeypatch, scenario)


def test_what_stands_in_the_configuration_says_what_it_is(lab: world.Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(running: service.Service, _twin: twins.Processes) -> None:
        twins.report(lab, running, "node3", REPAIR)
        await running.rounds.step()
        told = orjson.loads(orjson.dumps(views.status(running.configuration.current)))[0]
        digest = diagnosis.parse(REPAIR).digest
        assert (told["original"]["status"], told["original"]["command"]) == ("live-repair", "lab-repair")
        assert told["original"]["details"]["digest"] == told["original_digest"] == digest
        assert told["original"]["details"]["bytes"] == len(REPAIR.encode())
        assert REPAIR.startswith(told["original"]["details"]["beginning"])
        assert "/1/incidents/ID/original" in told["original"]["details"]["abbreviated"]
        assert report_originals.read(running.where.report_originals, digest) == REPAIR

    act(lab, monkeypatch, scenario)


def test_a_report_of_four_kibibytes_stands_there_as_it_is(lab: world.Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    said = large("evacuate", size=0)
    said = said.replace('"text":"é"', f'"text":"é{"x" * (diagnosis.LARGE - len(said.encode()))}"')
    assert len(said.encode()) == diagnosis.LARGE

    async def scenario(running: service.Service, _twin: twins.Processes) -> None:
        twins.report(lab, running, "node2", said)
        await running.rounds.step()
        assert (incident(running).original, incident(running).digest) == (said, "")
        assert originals(running) == []

    act(lab, monkeypatch, scenario)


def test_the_whole_is_durable_before_the_incident_and_is_removed_after_it(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[int, list[str]]] = []
    write = store.write

    async def scenario(running: service.Service, _twin: twins.Processes) -> None:
        def noted(path: Path, cluster: Any) -> None:
            seen.append((len(cluster.maintenance.incidents), originals(running)))
            write(path, cluster)

        monkeypatch.setattr(store, "write", noted)
        twins.report(lab, running, "node2", large("live-repair"))
        await twins.settle(running)
        digest = diagnosis.parse(large("live-repair")).digest
        assert seen[0] == (1, [f"{digest}.json"])
        await running.configuration.commit(
            lambda head: (
                [tagging.Tagged("node", incident(running).node, incident(running).tag, present=False)] if head else []
            )
        )
        twins.report(lab, running, "node2", '{"status":"Ok"}')
        await twins.settle(running)
        await running.rounds.step()
        assert running.configuration.current.maintenance.incidents == ()
        assert originals(running) == []

    act(lab, monkeypatch, scenario)


def test_the_same_value_is_the_same_incident_and_another_is_not(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = large("evacuate", size=9000)
    value = first.removeprefix('{"status":"evacuate",').removesuffix("}")
    reordered = f'{{{value},"status":"evacuate"}}'

    async def scenario(running: service.Service, twin: twins.Processes) -> None:
        twins.report(lab, running, "node2", first)
        await twins.settle(running)
        known, count = incident(running).uuid, len(twin.ran)
        twins.report(lab, running, "node2", reordered)
        await twins.settle(running)
        assert (incident(running).uuid, len(twin.ran)) == (known, count)

    act(lab, monkeypatch, scenario)
    other = diagnosis.parse(large("evacuate", size=9000, more="!"))
    noted = incidents.note(diagnosis.parse(first), node="n", uuid="u", now=1.0)
    assert incidents.holds(noted, diagnosis.parse(reordered))
    assert not incidents.holds(noted, other)
    assert not incidents.holds(noted, diagnosis.parse(noted.original)), "who reports the abbreviation reports another"


def test_an_incident_of_an_earlier_version_has_the_whole_and_stays_the_same_event(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(running: service.Service, twin: twins.Processes) -> None:
        node = running.configuration.current.node("node3").uuid
        noted = incidents.note(diagnosis.parse(REPAIR), node=node, uuid="1234-5678", now=1.0)
        old = dataclasses.replace(noted, original=REPAIR, digest="")
        await running.configuration.commit(lambda _head: [changes.IncidentStands(old)])
        raw = orjson.loads(document.dump(running.configuration.current))
        del raw["maintenance"]["incidents"][0]["digest"]
        assert document.load(orjson.dumps(raw)) == running.configuration.current
        twins.report(lab, running, "node3", REPAIR)
        await twins.settle(running)
        assert (incident(running, "node3").uuid, incident(running, "node3").repair_status.value) == (
            "1234-5678",
            "completed",
        )
        assert inputs(twin) == [REPAIR]

    act(lab, monkeypatch, scenario)


@pytest.mark.parametrize("damage", ["lost", "cut"])
def test_without_the_whole_no_repair_runs_and_the_incident_says_why(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    """As after a restore on another machine: the configuration is there, and `reports/` is not."""

    async def noting(running: service.Service, _twin: twins.Processes) -> None:
        twins.report(lab, running, "node3", REPAIR)
        await running.rounds.step()
        assert incident(running, "node3").repair_status.value == "noted"
        for path in running.where.reports.glob("*.json"):
            path.unlink()
        (whole,) = running.where.report_originals.iterdir()
        if damage == "lost":
            whole.unlink()
        else:
            whole.write_bytes(whole.read_bytes()[:5000])

    async def restored(running: service.Service, twin: twins.Processes) -> None:
        await twins.settle(running)
        failed = incident(running, "node3")
        assert failed.repair_status.value == "failed"
        assert "the whole report" in failed.reason
        assert ("is not on this controller" if damage == "lost" else "is damaged") in failed.reason
        assert "roundsman incident ack" in failed.reason
        assert inputs(twin) == []
        await running.configuration.commit(
            lambda _head: [tagging.Tagged("node", failed.node, failed.tag, present=False)]
        )
        twins.report(lab, running, "node3", REPAIR)
        await twins.settle(running)
        assert incident(running, "node3").repair_status.value == "completed"
        assert inputs(twin) == [REPAIR]

    act(lab, monkeypatch, noting)
    act(lab, monkeypatch, restored)


def test_without_the_whole_an_evacuation_goes_on(lab: world.Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    async def noting(running: service.Service, _twin: twins.Processes) -> None:
        twins.report(lab, running, "node2", EVACUATE)
        await running.rounds.step()
        for path in (*running.where.reports.glob("*.json"), *running.where.report_originals.iterdir()):
            path.unlink()

    async def restored(running: service.Service, _twin: twins.Processes) -> None:
        await twins.settle(running)
        assert incident(running).repair_status.value == "completed"

    act(lab, monkeypatch, noting)
    act(lab, monkeypatch, restored)


def test_while_the_whole_cannot_be_written_no_incident_is_noted(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(running: service.Service, _twin: twins.Processes) -> None:
        running.where.report_originals.write_text("no folder")
        twins.report(lab, running, "node2", EVACUATE)
        with pytest.raises((errors.StoreFailed, OSError)):
            await running.rounds.step()
        assert running.rounds.preview().jobs == ()
        assert running.configuration.current.maintenance.incidents == ()
        running.where.report_originals.unlink()
        await running.rounds.step()
        assert incident(running).digest

    act(lab, monkeypatch, scenario)


def test_a_repair_command_that_is_too_long_stays_refused_and_short(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(running: service.Service, twin: twins.Processes) -> None:
        twins.report(lab, running, "node3", large("live-repair", command="a" * 100_000, size=0))
        await twins.settle(running)
        assert incident(running, "node3").repair_status.value == "failed"
        assert "is no file name of a whitelist" in incident(running, "node3").reason
        assert running.where.config.stat().st_size < 64 * 1024
        assert inputs(twin) == []

    act(lab, monkeypatch, scenario)


def test_of_incidents_that_are_over_the_newest_of_each_node_keep_the_whole() -> None:
    told = diagnosis.parse(EVACUATE)
    first = incidents.note(told, node="n1", uuid="open", now=1.0)
    over = [
        dataclasses.replace(
            first, uuid=str(number), digest=f"{number:064}", repair_status=incidents.RepairStatus.FAILED, mtime=number
        )
        for number in range(25)
    ]
    other = dataclasses.replace(over[0], node="n2")
    assert incidents.digests_in_use([first, *over]) == {first.digest, *(f"{one:064}" for one in range(15, 25))}
    assert other.digest in incidents.digests_in_use([first, *over, other])


@pytest.mark.parametrize("digest", ["../../hmac", "A" * 64, "a" * 63, "a" * 64 + "\n"])
def test_a_digest_is_no_path(tmp_path: Path, digest: str) -> None:
    with pytest.raises(errors.NotFound, match="not the digest"):
        report_originals.read(tmp_path, digest)
