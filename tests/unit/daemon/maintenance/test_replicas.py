"""Pairs that part, in a whole service whose opcodes are a twin's: what is committed, and which replica is outdated."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.daemon.api import replica_views
from ansible_collections.roundsman.cluster.daemon.maintenance import agents
from ansible_collections.roundsman.cluster.daemon.maintenance import replicas as outdating
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks import replicas
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks.drbd import Connection, Disk, Role
from ansible_collections.roundsman.cluster.plugins.plugin_utils import durable_files, replica_evidence
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import (
    changes,
    known_off,
    left_replicas,
    membership,
)
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import store
from ansible_collections.roundsman.cluster.plugins.plugin_utils.settings import addresses

from tests.unit.daemon import twins

if TYPE_CHECKING:
    from pathlib import Path

    from ansible_collections.roundsman.cluster.daemon import service
    from ansible_collections.roundsman.cluster.daemon.lab import world
    from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters

OK = '{"status":"Ok"}'
NAME = "instance1"


@pytest.fixture(name="lab")
def fixture_lab(tmp_path: Path) -> world.Lab:
    return twins.lab(tmp_path, pairs=[("node2", "node3"), ("node3", "node4")])


class Pair:
    """A service, and the reports of the two nodes of instance1."""

    def __init__(self, lab: world.Lab, monkeypatch: pytest.MonkeyPatch, **outcomes: str) -> None:
        self._lab = lab
        self.service, self.twin = twins.assemble(lab, monkeypatch, outcomes=outcomes)
        self.now = 1000.0
        monkeypatch.setattr(self.service.replicas, "_monotonic", lambda: self.now)

    async def hear(self, node: str, *, lost: bool = False, boot_id: str = "", **changed: Any) -> None:
        """Take a report of a node in, and do what follows from it."""
        cluster = self.service.configuration.current
        facts = twins.replica_facts(cluster, cluster.node(node), lost=[NAME] if lost else [], **changed)
        facts = dataclasses.replace(facts, boot_id=boot_id)
        twins.report(self._lab, self.service, node, OK, facts=facts)
        await self.service.intake.take_all()
        await self.service.replicas.step()

    async def end(self) -> None:
        """Wait for the jobs."""
        await twins.jobs_end(self.service)
        await self.service.replicas.step()

    @property
    def instance(self) -> clusters.Instance:
        return self.service.configuration.current.instance(NAME)

    def uuid(self, node: str) -> str:
        return self.service.configuration.current.node(node).uuid

    @property
    def outdated(self) -> list[str]:
        """The nodes on which a replica was to be outdated."""
        jobs = self.service.queue.jobs.values()
        return [job.names[one.params["node"]] for job in jobs for one in job.opcodes if one.kind == "outdate_replica"]


def test_a_pair_that_parts_is_committed_once_and_its_secondary_outdated_once_it_says_so_itself(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        pair = Pair(lab, monkeypatch)
        before = time.time()
        await pair.hear("node2")
        await pair.hear("node3")
        assert pair.instance.parted is None
        await pair.hear("node2", lost=True, current=32)
        stands = pair.instance.parted
        assert stands is not None
        assert (stands.node, stands.generations) == (pair.uuid("node2"), (f"{16:016x}",))
        assert before <= stands.last_in_sync <= stands.since <= time.time()
        assert store.read(pair.service.where.config).instance(NAME).parted == stands
        assert pair.outdated == [], "node3 says that it has its peer"
        await pair.hear("node3", lost=True)
        assert pair.outdated == ["node3"]
        await pair.hear("node2", lost=True, current=32)
        assert pair.instance.parted == stands
        assert pair.outdated == ["node3"]

    asyncio.run(scenario())


def test_one_write_of_the_configuration_says_of_all_pairs_that_they_have_parted_and_none_says_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        lab = twins.lab(tmp_path, pairs=[("node2", "node3")] * 5)
        pair = Pair(lab, monkeypatch)
        cluster, writes = pair.service.configuration.current, list[str]()
        names = [one.name for one in cluster.instances.values()]
        replace = durable_files.replace

        def noted(path: Path, *given: Any, **options: Any) -> None:
            writes.append(path.name)
            replace(path, *given, **options)

        monkeypatch.setattr(durable_files, "replace", noted)
        for _ in range(3):
            facts = twins.replica_facts(cluster, cluster.node("node2"), lost=names)
            twins.report(lab, pair.service, "node2", OK, facts=facts)
            await pair.service.intake.take_all()
            await pair.service.replicas.step()
        assert writes.count("config.data") == 1
        assert [one.parted is not None for one in pair.service.configuration.current.instances.values()] == [True] * 5

    asyncio.run(scenario())


def test_a_secondary_that_says_in_sync_cancels_nothing_that_its_primary_has_reported(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        pair = Pair(lab, monkeypatch)
        intake = pair.service.intake
        nodes: Any = {"source": pair.uuid("node2"), "target": pair.uuid("node3")}
        await pair.hear("node2")
        await pair.hear("node3")
        await pair.hear("node2", lost=True, current=32)
        await pair.hear("node3")
        assert pair.instance.parted is not None
        found = replica_evidence.estimate(pair.service.configuration.current, pair.instance, intake, **nodes)
        assert "node2 reported at" in found.reason

    asyncio.run(scenario())


def test_a_pair_is_together_again_when_both_nodes_say_so(lab: world.Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        pair = Pair(lab, monkeypatch)
        await pair.hear("node3")
        await pair.hear("node2", lost=True)
        await pair.hear("node2")
        assert pair.instance.parted is not None, "node3 has not reported since"
        await pair.hear("node3")
        assert pair.instance.parted is None
        await pair.hear("node2", lost=True)
        nodes = changes.InstanceNodes(pair.instance.uuid, pair.uuid("node2"), (pair.uuid("node4"),))
        await pair.service.configuration.commit(lambda _: [nodes])
        assert pair.instance.parted is None, "it has another secondary now"

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("primary", "secondary"),
    [
        ({"role": Role.SECONDARY}, {}),
        ({"disk": Disk.OUTDATED}, {}),
        ({"connection": Connection.CONNECTED, "peer_disk": Disk.INCONSISTENT}, {}),
        ({}, {"role": Role.PRIMARY}),
        ({}, {"disk": Disk.OUTDATED}),
        ({}, {"disk": Disk.INCONSISTENT}),
        ({}, {"connection": Connection.CONNECTED}),
    ],
)
def test_nothing_is_outdated_unless_a_running_primary_has_lost_a_secondary_that_could_start(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch, primary: dict[str, Any], secondary: dict[str, Any]
) -> None:
    async def scenario() -> None:
        pair = Pair(lab, monkeypatch)
        await pair.hear("node2", lost=True, **primary)
        await pair.hear("node3", lost=True, **secondary)
        assert pair.outdated == []
        assert (pair.instance.parted is None) == bool(primary)

    asyncio.run(scenario())


@pytest.mark.parametrize("silent", ["node2", "node3"])
def test_a_node_that_does_not_answer_is_waited_for(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch, silent: str
) -> None:
    async def scenario() -> None:
        pair = Pair(lab, monkeypatch)
        pair.service.intake.seen[pair.uuid(silent)] = agents.Seen(misses=1)
        await pair.hear("node2", lost=True)
        await pair.hear("node3", lost=True)
        assert pair.outdated == []
        pair.service.intake.seen.clear()
        await pair.service.replicas.step()
        assert pair.outdated == ["node3"]

    asyncio.run(scenario())


@pytest.mark.parametrize("node", ["node2", "node3"])
def test_nothing_is_asked_of_a_node_out_of_service_or_of_a_drained_queue(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch, node: str
) -> None:
    async def scenario() -> None:
        pair = Pair(lab, monkeypatch)
        known = pair.service.configuration.current.node(node)
        away = membership.NodeStands(dataclasses.replace(known, offline=True))
        await pair.service.configuration.commit(lambda _: [away])
        await pair.hear("node2", lost=True)
        await pair.hear("node3", lost=True)
        assert pair.outdated == []
        await pair.service.configuration.commit(lambda _: [membership.NodeStands(known)])
        pair.service.queue.set_drained(True)
        await pair.service.replicas.step()
        pair.service.queue.set_drained(False)
        assert pair.outdated == []
        await pair.service.replicas.step()
        assert pair.outdated == ["node3"]

    asyncio.run(scenario())


def test_a_secondary_that_was_not_outdated_is_tried_again_after_a_minute(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        pair = Pair(lab, monkeypatch, outdate_replica="error")
        await pair.hear("node2", lost=True)
        await pair.hear("node3", lost=True)
        await pair.end()
        await pair.hear("node3", lost=True)
        assert pair.outdated == ["node3"]
        pair.now += 61
        await pair.hear("node3", lost=True)
        assert pair.outdated == ["node3", "node3"]

    asyncio.run(scenario())


def test_one_that_goes_on_reporting_up_to_date_is_outdated_less_and_less_until_something_changes(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        pair = Pair(lab, monkeypatch)
        await pair.hear("node2", lost=True)
        await pair.hear("node3", lost=True)
        for count, pause in enumerate((60, 120, 240, 480, 960, 1920, 3600, 3600), start=1):
            await pair.end()
            pair.now += pause - 1
            await pair.hear("node3", lost=True)
            assert len(pair.outdated) == count, pause
            pair.now += 2
            await pair.hear("node3", lost=True)
            assert len(pair.outdated) == count + 1, pause
        count = len(pair.outdated)
        for node in ("node3", "node2"):
            await pair.end()
            pair.now += 61
            await pair.hear(node, lost=True, current=48)
            count += 1
            assert len(pair.outdated) == count, f"{node} reports that they were connected meanwhile"
        await pair.end()
        pair.now += 61
        await pair.hear("node3", lost=True, current=48)
        assert len(pair.outdated) == count + 1
        await pair.end()
        pair.now += 61
        await pair.hear("node3", lost=True, current=48)
        assert len(pair.outdated) == count + 1

    asyncio.run(scenario())


@pytest.mark.parametrize("what", ["parted", "nodes", "boot"])
def test_what_changes_beside_the_facts_begins_the_pauses_anew(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    async def scenario() -> None:
        pair = Pair(lab, monkeypatch)
        await pair.hear("node2", lost=True)
        await pair.hear("node3", lost=True)
        for pause in (60, 120, 240):
            await pair.end()
            pair.now += pause
            await pair.hear("node3", lost=True)
        await pair.end()
        pair.now += 61
        await pair.hear("node3", lost=True)
        assert pair.outdated == ["node3"] * 4, "the next one is due after 480 s"
        stands, secondary = pair.instance.parted, "node3"
        assert stands is not None
        if what == "parted":
            anew = changes.InstanceParted(pair.instance.uuid, dataclasses.replace(stands, since=stands.since + 1))
            await pair.service.configuration.commit(lambda _: [anew])
        elif what == "nodes":
            secondary = "node4"
            nodes = changes.InstanceNodes(pair.instance.uuid, pair.uuid("node2"), (pair.uuid(secondary),))
            again = changes.InstanceParted(pair.instance.uuid, stands)
            await pair.service.configuration.commit(lambda _: [nodes, again])
        boot_id = "01234567-89ab-cdef-0123-456789abcdef" if what == "boot" else ""
        await pair.hear(secondary, lost=True, boot_id=boot_id)
        assert pair.outdated == ["node3"] * 4 + [secondary]

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("times", "has_failed", "seconds"),
    [(1, False, 60.0), (3, False, 240.0), (30, False, 3600.0), (1, True, 60.0), (29, True, 60.0), (30, True, 600.0)],
)
def test_a_job_that_failed_is_repeated_each_minute_for_half_an_hour(
    times: int, has_failed: bool, seconds: float
) -> None:
    tried = outdating.Tried(1, "known", times, ended=0.0, has_failed=has_failed)
    assert not tried.is_due("known", seconds - 1)
    assert tried.is_due("known", seconds)
    assert tried.is_due("something else", 60.0)


def test_explain_tells_of_one_that_reports_up_to_date_after_it_was_outdated(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        pair = Pair(lab, monkeypatch, outdate_replica="error success")

        def told() -> Any:
            running = pair.service
            cluster = running.configuration.current
            return replica_views.explain(cluster, NAME, intake=running.intake, queue=running.queue)["not_outdated"]

        await pair.hear("node2", lost=True)
        await pair.hear("node3", lost=True)
        await pair.end()
        await pair.hear("node3", lost=True)
        assert told() is None, "the job failed, and that is told"
        pair.now += 61
        await pair.hear("node3", lost=True)
        await pair.end()
        assert told() is None, "it has not reported since"
        await pair.hear("node3", lost=True)
        assert "node3 reports its replica of instance1 as UpToDate, although job 2 outdated it at" in told()
        await pair.hear("node3", lost=True, disk=Disk.OUTDATED)
        assert told() is None
        await pair.hear("node3", lost=True)
        await pair.hear("node2")
        await pair.hear("node3")
        assert told() is None

    asyncio.run(scenario())


def test_neither_a_pause_nor_an_emergency_power_off_holds_it(lab: world.Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        pair = Pair(lab, monkeypatch)
        settings = dataclasses.replace(pair.service.configuration.current.maintenance.settings, paused="for a test")
        epo = changes.EpoStands((), (), "me", returning=False)
        await pair.service.configuration.commit(lambda _: [changes.SettingsStand(settings), epo])
        await pair.hear("node2", lost=True)
        await pair.hear("node3", lost=True)
        await pair.end()
        assert pair.twin.ran == ["outdate_replica 1/0"]

    asyncio.run(scenario())


def test_the_facts_are_there_again_after_a_restart_and_the_estimate_of_the_possible_loss_with_them(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        pair = Pair(lab, monkeypatch)
        source, target = pair.uuid("node2"), pair.uuid("node3")
        await pair.hear("node2")
        address = addresses.replicating(pair.service.configuration.current.node("node2"))
        await pair.hear("node3", lost=True, seen=((address, 60.0),))
        restarted, _ = twins.assemble(lab, monkeypatch)
        known = {node: dict(one.volumes) for node, one in pair.service.intake.tracks.items()}
        again = {node: dict(one.volumes) for node, one in restarted.intake.tracks.items()}
        assert known.keys() == again.keys()
        assert [one.fact for found in again.values() for one in found.values()] == [
            one.fact for found in known.values() for one in found.values()
        ]
        await restarted.configuration.commit(lambda _: [changes.NodePowered(source, powered=False)])
        third, _ = twins.assemble(lab, monkeypatch)

        def estimated(running: service.Service, **options: Any) -> Any:
            cluster = running.configuration.current
            instance = cluster.instance(NAME)
            return replica_evidence.estimate(cluster, instance, running.intake, source=source, target=target, **options)

        found = estimated(third)
        assert 80.0 <= found.seconds < 120.0
        assert not found.keeps_back
        # It was known to be off long after the last sight: it may have written alone until then.
        node = third.configuration.current.node("node2")
        late = membership.NodeStands(dataclasses.replace(node, off_since=node.off_since + 10_000))
        await third.configuration.commit(lambda _: [late])
        found = estimated(third)
        assert "may lack the writes of the last 10" in found.reason
        accepted = int(found.unblock.partition("--max-loss ")[2].partition("s`")[0])
        assert not estimated(third, accepted=accepted).keeps_back

    asyncio.run(scenario())


def test_since_when_a_node_is_off_is_followed_by_a_clock_that_nobody_sets(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        pair = Pair(lab, monkeypatch)
        intake, source = pair.service.intake, pair.uuid("node2")
        clocks = {"wall": 5000.0, "monotonic": 100.0}
        monkeypatch.setattr(intake, "_clock", lambda: clocks["wall"])
        monkeypatch.setattr(intake, "_monotonic", lambda: clocks["monotonic"])

        async def known_off_since(at: float) -> None:
            for _ in range(2):
                node = pair.service.configuration.current.node("node2")
                changed = dataclasses.replace(
                    node, powered=not at, off_since=at, off_read=False, off_confirmed=0.0, alive_at=0.0
                )
                stands = membership.NodeStands(changed)
                await pair.service.configuration.commit(lambda _, stands=stands: [stands])  # type: ignore[misc]
            await pair.service.replicas.step()

        await known_off_since(0.0)
        assert intake.off(source) is None
        await known_off_since(4990.0)
        assert intake.off(source) == (4990.0, 10.0)
        clocks.update(wall=9000.0, monotonic=150.0)
        assert intake.off(source) == (4990.0, 60.0), "the wall clock was set forward"
        clocks.update(wall=5020.0, monotonic=160.0)
        assert intake.off(source) == (4990.0, 30.0), "it was set back: the loss is larger then"
        await known_off_since(5015.0)
        assert intake.off(source) == (5015.0, 5.0)

    asyncio.run(scenario())


def test_a_report_of_a_node_that_was_known_to_be_off_is_a_sign_of_life_that_outlives_the_daemon(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        pair = Pair(lab, monkeypatch)
        off = changes.NodePowered(pair.uuid("node2"), powered=False)
        await pair.service.configuration.commit(lambda _: [off])
        await pair.hear("node2")
        again, _ = twins.assemble(lab, monkeypatch)
        known = again.configuration.current.node("node2")
        assert known.alive_at > known.off_since > 0
        assert known_off.has_lived(known)
        before = again.configuration.current.serial_no
        await pair.hear("node3")
        assert pair.service.configuration.current.serial_no == before, "once is enough"
        await again.configuration.commit(lambda _: [off])
        assert known_off.is_known_off(again.configuration.current.node("node2"))

    asyncio.run(scenario())


def test_a_report_of_a_problem_carries_facts_too(lab: world.Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        pair = Pair(lab, monkeypatch)
        twins.report(lab, pair.service, "node2", problem="timeout")
        await pair.service.intake.take_all()
        (track,) = pair.service.intake.tracks[pair.uuid("node2")].volumes.values()
        assert track.fact is not None
        assert track.fact.is_in_sync
        assert isinstance(track.in_sync, replicas.Moment)

    asyncio.run(scenario())


def test_a_node_that_hangs_holds_two_jobs_at_most_and_the_least_recently_tried_instance_is_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        lab = twins.lab(tmp_path, pairs=[("node2", "node3")] * 4 + [("node2", "node4")])
        pair = Pair(lab, monkeypatch, outdate_replica="error")
        cluster = pair.service.configuration.current
        names = [one.name for one in cluster.instances.values()]
        for node in ("node2", "node3", "node4"):
            facts = twins.replica_facts(cluster, cluster.node(node), lost=names)
            twins.report(lab, pair.service, node, OK, facts=facts)
        await pair.service.intake.take_all()
        await pair.service.replicas.step()
        assert sorted(pair.outdated) == ["node3", "node3", "node4"]
        pair.now += 1000
        await pair.end()
        assert sorted(pair.outdated) == ["node3"] * 4 + ["node4"], "a minute counts from the end of a job"
        tried = [one.params["instance"] for job in pair.service.queue.jobs.values() for one in job.opcodes]
        assert len(set(tried)) == 5

    asyncio.run(scenario())


def test_a_clock_that_is_ahead_is_told_because_it_dates_a_lost_peer_too_late(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        pair = Pair(lab, monkeypatch)
        intake, node = pair.service.intake, pair.service.configuration.current.node("node3")
        twins.report(lab, pair.service, "node3", OK)
        await intake.take_all()
        assert replica_views.clock(node, intake) == []
        twins.report(lab, pair.service, "node3", OK, age=-45.0)
        await intake.take_all()
        (text,) = replica_views.clock(node, intake)
        assert text.startswith("The clock of node3 is ahead of the controller's: its last report is dated 4")

    asyncio.run(scenario())


def test_a_replacement_that_has_not_ended_leaves_no_evidence_for_the_old_secondary_and_explain_names_the_new_node(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        pair = Pair(lab, monkeypatch)
        intake = pair.service.intake
        nodes: Any = {"source": pair.uuid("node2"), "target": pair.uuid("node3")}
        await pair.hear("node2")
        await pair.hear("node3")
        making = left_replicas.ReplicaLeft(pair.instance.uuid, pair.uuid("node4"), present=True, is_new=True)
        await pair.service.configuration.commit(lambda _: [making])
        # Its peer is node4 by now, and its facts do not say so.
        await pair.hear("node3", lost=True)
        await pair.hear("node2", current=64)
        told = replica_views.explain(pair.service.configuration.current, NAME, intake=intake, queue=pair.service.queue)
        text = told["being_made"]
        assert "instance1 may be written to a new replica on node4 and not to node3 any more" in text
        assert text.endswith(
            "`roundsman instance replace-disks instance1 --to node4` (if node4 does not come back, with `--to` another "
            "node, or with `--to node3`, which replaces the replica there)"
        )
        await pair.service.configuration.commit(lambda _: [changes.NodePowered(nodes["source"], powered=False)])
        found = replica_evidence.estimate(pair.service.configuration.current, pair.instance, intake, **nodes)
        assert "node2 may have written to a new replica on node4" in found.reason
        assert "Keep that replica: it may have what node3 lacks" in found.reason

        moved = changes.InstanceNodes(pair.instance.uuid, nodes["source"], (pair.uuid("node4"),))
        await pair.service.configuration.commit(lambda _: [moved])
        told = replica_views.explain(pair.service.configuration.current, NAME, intake=intake, queue=pair.service.queue)
        assert told["being_made"] is None

    asyncio.run(scenario())
