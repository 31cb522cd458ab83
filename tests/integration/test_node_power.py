"""Power and health of several nodes in one job, the record, and what verify finds, in a lab."""

from __future__ import annotations

import dataclasses
import json
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.daemon.lab.simulator import fake
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import tree

from . import labs, states

if TYPE_CHECKING:
    from collections.abc import Callable

    from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters

PAIRS = (("node1", "node4"), ("node4", "node1"))


def _records(one: labs.Running) -> dict[str, bool]:
    return {node.name: node.powered for node in one.cluster().nodes.values()}


def _powers(one: labs.Running) -> dict[str, bool]:
    return {node.name: node.is_powered() for node in one.lab.nodes()}


def _job(one: labs.Running, path: str, **body: Any) -> dict[str, Any]:
    answer = one.put(path, body or None)
    assert answer.status_code == 202, answer.text
    return states.job_ended(one, answer.json()["id"])


def _audit(one: labs.Running) -> list[str]:
    lines = (one.where.log / "audit.log").read_text().splitlines()
    return [line.partition("roundsman.audit: ")[2] for line in lines]


def test_one_job_powers_several_nodes_and_one_nodes_trouble_stops_no_other(lab: Callable[..., labs.Running]) -> None:
    one = lab(nodes=5, instances=2, pairs=PAIRS)
    path = one.where.bmc_credentials
    entries = json.loads(path.read_text())
    del entries["node5"]
    entries["node3"]["password"] = "another"
    path.write_text(json.dumps(entries))

    told = _job(one, "/2/power", command="off", nodes=["node2", "node3", "node5"])

    rows = {row["name"]: (row["confirmed"], row["reason"]) for row in told["results"][0]}
    assert rows == {"node2": (True, None), "node3": (False, "auth"), "node5": (False, "unconfigured")}
    assert told["status"] == "error"
    assert told["text"].startswith("power off is not confirmed for 2 of 3: node3: ")
    after = {"node1": True, "node2": False, "node3": True, "node4": True, "node5": True}
    assert (_records(one), _powers(one)) == (after, after)
    request, *jobs = _audit(one)
    assert f"door=socket PUT /2/power status=202 jobs={told['id']} " in request
    assert jobs == [
        f"job {told['id']}: node2 is recorded as powered off, was on",
        f"job {told['id']}: power off node2: on → off, confirmed",
    ]


@pytest.mark.slow
def test_a_trial_sends_nothing_and_on_in_turns_serves_all(lab: Callable[..., labs.Running]) -> None:
    one = lab(nodes=13, instances=0, pairs=())
    names = [f"node{number}" for number in range(2, 14)]
    tried = _job(one, "/2/power?dry-run=1", command="off", nodes=names)
    assert (tried["status"], {row["sent"] for row in tried["results"][0]}) == ("success", {False})
    assert tried["opcodes"][0]["text"] == "nothing is sent; it would be: 12 off"
    assert all(_powers(one).values())

    off = _job(one, "/2/power", command="off", nodes=names, offline=True)
    assert off["status"] == "success"
    assert {one.cluster().node(name).offline for name in names} == {True}
    on = _job(one, "/2/power", command="on", nodes=names[::-1], power_delay=0.1)
    assert [row["name"] for row in on["results"][0]] == names
    everything = dict.fromkeys(_powers(one), True)
    assert (_records(one), _powers(one)) == (everything, everything)


@pytest.mark.slow
def test_whoever_runs_something_that_nobody_knows_of_keeps_its_power(lab: Callable[..., labs.Running]) -> None:
    one = lab(nodes=4, instances=2, pairs=PAIRS)
    fake.Driver(one.lab.node("node2").root, opcode="a stray").start("stray", {})
    one.lab.node("node3").cut(is_cut=True)

    told = _job(one, "/2/power", command="off", nodes=["node2", "node3"])

    texts = {row["name"]: row["text"] for row in told["results"][0]}
    assert "node2 still runs stray" in texts["node2"]
    assert "node3 does not answer, and does not read off at its BMC" in texts["node3"]
    assert (_powers(one)["node2"], _powers(one)["node3"]) == (True, True)
    assert _job(one, "/2/power", command="off", nodes=["node3"], force=True)["status"] == "success"


def _program(folder: Path, answer: str) -> str:
    """A helper program that says the same to whatever it is asked."""
    path = folder / "oob"
    path.write_text(f"#!/bin/sh\necho '{answer}'\n")
    path.chmod(0o755)
    return str(path)


def _by_program(program: str, name: str, **fields: Any) -> Callable[[clusters.Cluster], clusters.Cluster]:
    def edit(cluster: clusters.Cluster) -> clusters.Cluster:
        node = dataclasses.replace(cluster.node(name), ndparams={"oob_program": program}, **fields)
        return dataclasses.replace(cluster, nodes={**cluster.nodes, node.uuid: node})

    return edit


def _listed(folder: Path, program: Path | str) -> None:
    """Link a program into root's folder of helper programs, without which root does not run it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "site").symlink_to(program)


def test_health_is_read_at_the_bmcs_and_what_is_wrong_is_in_the_audit_log(
    lab: Callable[..., labs.Running], tmp_path: Path
) -> None:
    program = _program(tmp_path, '[["fan 1", "WARNING"], ["fan 2", "OK"]]')
    one = lab(nodes=4, instances=0, pairs=(), edit=_by_program(program, "node3"))
    _listed(one.where.oob_programs, program)
    told = _job(one, "/2/health", nodes=["node3", "node2"])
    assert [(row["name"], row["status"]) for row in told["results"][0]] == [("node2", "OK"), ("node3", "WARNING")]
    request, *jobs = _audit(one)
    assert f"door=socket PUT /2/health status=202 jobs={told['id']} " in request
    assert (told["status"], jobs) == ("success", [f"job {told['id']}: node3: fan 1 is WARNING"])


@pytest.mark.slow
def test_opted_out_nodes_are_left_out_of_listings_and_refused_by_name(lab: Callable[..., labs.Running]) -> None:
    one = lab(nodes=4, instances=0, pairs=(), edit=_by_program("!", "node3"))
    done = states.command(one, "node", "power", "status")
    assert done.stdout.splitlines() == ["Node   Power Status", "node1  on", "node2  on", "node4  on"]
    refused = states.command(one, "node", "power", "status", "node3")
    assert (refused.returncode, refused.stderr) == (1, "roundsman: Node node3 does not support OOB commands\n")
    assert "Powered" not in states.command(one, "node", "info", "node3").stdout


@pytest.mark.slow
def test_by_command_a_node_leaves_service_with_its_power_and_comes_back_with_its_checks(
    lab: Callable[..., labs.Running],
) -> None:
    one = lab(nodes=4, instances=2, pairs=PAIRS)
    off = states.command(one, "node", "power", "off", "node2", "--yes")
    assert (off.returncode, off.stdout.splitlines()[1].split()) == (0, ["node2", "off", "confirmed"])
    assert (one.cluster().node("node2").offline, _powers(one)["node2"]) == (True, False)
    again = states.command(one, "node", "power", "off", "node2", "--yes")
    assert again.stdout.splitlines()[1].split() == ["node2", "off", "already", "off"]
    assert states.command(one, "node", "power", "on", "node2").returncode == 0
    assert one.cluster().node("node2").offline
    assert states.command(one, "node", "online", "node2").returncode == 0
    assert not one.cluster().node("node2").offline

    for name, why in (("node1", "node1 runs instance1"), ("node4", "node4 runs instance2")):
        asked = states.command(one, "node", "power", "off", name, "--yes")
        assert (asked.returncode, asked.stderr.splitlines()[0]) == (1, f"roundsman: {why}")
    master = states.command(one, "node", "power", "off", "node1", "--force")
    assert "`roundsman-oob power-off node1`" in master.stderr
    assert all(_powers(one).values())
    assert one.wrong() == []


@pytest.mark.slow
def test_verify_tells_what_is_wrong_and_mends_nothing(lab: Callable[..., labs.Running], tmp_path: Path) -> None:
    program = _program(tmp_path, '{"powered": true}')
    one = lab(nodes=4, instances=0, pairs=(), edit=_by_program(program, "node4", powered=False))
    for name in ("node1", "node2"):
        copy = one.lab.node(name).root / program.lstrip("/")
        copy.parent.mkdir(parents=True)
        copy.touch(mode=0o644 if name == "node2" else 0o755)
        _listed(tree.Tree(one.lab.node(name).root).oob_programs, copy)
    _listed(one.where.oob_programs, program)
    one.lab.node("node3").set_power(False)
    before = one.cluster()

    done = states.command(one, "cluster", "verify", "-o", "json")

    assert done.returncode == 1
    assert [
        (found["check"], found["node"], found["text"].partition(": ")[0])
        for found in json.loads(done.stdout)["findings"]
    ] == [
        ("oob_program", "node2", f"{program} cannot be executed by its owner on node2"),
        ("oob_program", "node3", "node3 is a master candidate and does not answer"),
        ("oob_program", "node4", "node4 is a master candidate and is not contacted"),
        ("powered", "node3", "node3 is recorded as powered on, and reads off at its BMC"),
        ("powered", "node4", "node4 is recorded as powered off, and reads on at its BMC"),
    ]
    assert one.cluster() == before


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_root_runs_no_helper_program_of_somebody_else_by_hand_or_by_a_job(lab: Callable[..., labs.Running]) -> None:
    with tempfile.TemporaryDirectory(prefix="roundsman-oob-", dir="/tmp") as name:
        folder = Path(name)
        path = folder / "oob"
        path.write_text(f"#!/bin/sh\nid -u >>{folder}/ran\necho '{{\"powered\": true}}'\n")
        path.chmod(0o755)
        one = lab(nodes=4, instances=0, pairs=(), edit=_by_program(str(path), "node2"))
        unlisted = _job(one, "/2/power", command="status", nodes=["node2"])
        assert f"{path} is not run by root" in unlisted["results"][0][0]["text"]
        assert not (folder / "ran").exists()
        _listed(one.where.oob_programs, path)
        assert _job(one, "/2/power", command="status", nodes=["node2"])["status"] == "success"
        assert (folder / "ran").read_text() == "0\n"
        folder.chmod(0o755)
        os.chown(folder, 65534, 65534)

        by_job = _job(one, "/2/power", command="status", nodes=["node2"])
        one.kill()
        by_hand = one.play("power.yml", "-e", "power_command=status", "-e", "power_nodes=node2")

        told = f"the helper program {path}: {folder} is owned by uid 65534: it must be owned by root"
        assert told in by_job["results"][0][0]["text"]
        assert told in " ".join(by_hand.stdout.split()), by_hand.stdout
        assert (folder / "ran").read_text() == "0\n"
