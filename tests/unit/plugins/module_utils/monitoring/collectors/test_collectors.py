from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent import collected
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks import drbd
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.module_utils.monitoring import agent_settings, observing, registry
from ansible_collections.roundsman.cluster.plugins.module_utils.monitoring.collectors import (
    cpu_load,
    diagnose,
    diskstats,
    inst_status,
    lv,
)
from ansible_collections.roundsman.cluster.plugins.module_utils.monitoring.collectors import drbd as drbd_collector

from tests.unit.plugins.module_utils.monitoring import nodes

if TYPE_CHECKING:
    from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


@pytest.fixture
def node(tmp_path: Path) -> nodes.Node:
    return nodes.Node(tmp_path / "node")


def test_every_subject_has_a_collector_and_an_interval() -> None:
    assert set(registry.COLLECTORS) == set(collected.ALL)
    assert set(agent_settings.DEFAULT_SECONDS) == {one.name for one in collected.ALL}


def test_the_load_is_the_number_of_busy_cpus_of_the_last_ten_minutes(node: nodes.Node) -> None:
    moments = iter([0.0, 400.0, 1000.0])
    collect = cpu_load.make(clock=lambda: next(moments))
    where = node.surroundings()

    def reads(user: float, idle: float, guest: float = 0.0) -> observing.Said:
        numbers = [int(one * TICKS) for one in (user, 0, 0, idle, 0, 0, 0, 0, guest, 0)]
        line = " ".join(map(str, numbers))
        node.write("proc/stat", f"cpu  {line}\ncpu0 {line}\nintr 1 2\n")
        return collect(where)

    first = reads(0, 0)
    assert isinstance(first, collected.Problem)
    assert first.reason == "early"
    assert json.loads(str(reads(100, 300, guest=100))) == {"cpu_number": 1, "cpus": [0.25], "cpu_total": 0.25}
    # The first reading is older than ten minutes by now.
    assert json.loads(str(reads(700, 300)))["cpu_total"] == 1.0


@pytest.mark.parametrize("text", ["", "cpu0 1 2\n", "cpu x\n"])
def test_a_table_of_cpus_that_is_none_is_no_load(text: str) -> None:
    with pytest.raises(errors.Failed, match="/proc/stat"):
        cpu_load.busy_ticks(text)


def test_counters_of_disks_have_ganetis_names_on_new_kernels_too() -> None:
    line = "   8       0 sda 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17\n"
    (found,) = diskstats.parse(line)
    assert found["name"] == "sda"
    assert (found["readsNum"], found["secWritten"], found["wIOmillis"]) == (1, 7, 11)


def test_a_table_of_disks_that_is_none_is_no_report() -> None:
    with pytest.raises(errors.Failed, match="diskstats"):
        diskstats.parse("8 0 sda 1 2\n")


def test_volumes_have_ganetis_names_and_numbers() -> None:
    row = {**dict.fromkeys(lv.FIELDS, ""), "lv_name": "root", "lv_size": "1048576", "lv_major": "-1", "seg_size": "1"}
    (found,) = lv.parse(json.dumps({"report": [{"lv": [row]}]}))
    assert set(found) == set(lv.FIELDS.values())
    assert (found["name"], found["size"], found["major"]) == ("root", 1048576, -1)


@pytest.mark.parametrize("text", ["", "[]", '{"report": [{"lv": [{}]}]}'])
def test_what_lvs_never_prints_is_no_report(text: str) -> None:
    with pytest.raises(errors.Failed, match="lvs"):
        lv.parse(text)


def side(connection: drbd.Connection, disk: drbd.Disk = drbd.Disk.UP_TO_DATE) -> drbd.Side:
    return drbd.Side("web1", drbd.Role.PRIMARY, connection, (drbd.Volume(0, disk),))


@pytest.mark.parametrize(
    ("sides", "code", "message"),
    [
        ([], 0, ""),
        ([side(drbd.Connection.CONNECTED)], 0, ""),
        ([side(drbd.Connection.CONNECTING)], 1, "web1: Connecting"),
        ([side(drbd.Connection.CONNECTED), side(drbd.Connection.STANDALONE)], 4, "web1: StandAlone"),
        ([side(drbd.Connection.CONNECTED, drbd.Disk.DISKLESS)], 4, "web1: no disk behind volume 0"),
    ],
)
def test_the_worst_drbd_resource_counts(sides: list[drbd.Side], code: int, message: str) -> None:
    found = json.loads(drbd_collector.report(drbd.Resources(sides, {})))
    assert found["status"] == {"code": code, "message": message}
    assert [one["resource"] for one in found["data"]] == ["web1"] * len(sides)


def test_a_resource_that_cannot_be_read_is_unknown_beside_the_others() -> None:
    several = drbd.Resources([side(drbd.Connection.CONNECTED)], {"web2": "it has 2 peers"})
    found = json.loads(drbd_collector.report(several))
    assert found["status"] == {"code": observing.UNKNOWN, "message": "web2: it has 2 peers"}
    assert [one["resource"] for one in found["data"]] == ["web1"]


def test_a_node_without_drbd_has_no_resources(node: nodes.Node) -> None:
    assert json.loads(str(drbd_collector.collect(node.surroundings())))["data"] == []


def test_instances_that_run_are_named(node: nodes.Node) -> None:
    running = node.root / "var/lib/roundsman/fake/running"
    running.mkdir(parents=True)
    (running / "web1.json").write_text("{}")
    said = json.loads(str(inst_status.collect(node.surroundings(hypervisor="fake"))))
    assert said == {"status": {"code": 0, "message": ""}, "data": [{"name": "web1", "actualState": "running"}]}


def test_no_command_is_no_sign_of_health(node: nodes.Node) -> None:
    said = diagnose.collect(node.surroundings())
    assert isinstance(said, collected.Problem)
    assert said.reason == "not_configured"


def test_a_command_that_is_not_there_is_a_problem(node: nodes.Node) -> None:
    said = diagnose.collect(node.surroundings(diagnose_command="check"))
    assert isinstance(said, collected.Problem)
    assert said.reason == "missing"


def test_a_program_that_fails_tells_why() -> None:
    with pytest.raises(errors.CommandFailed, match="exit code 3: broken"):
        observing.output(["/bin/sh", "-c", "echo broken >&2; exit 3"])
    with pytest.raises(errors.CommandFailed, match="no-such-program"):
        observing.output(["no-such-program"])


def test_a_program_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observing, "TIME_LIMIT", 0.05)
    with pytest.raises(errors.CommandFailed) as failed:
        observing.output(["/bin/sleep", "60"])
    assert failed.value.reason == "timeout"
