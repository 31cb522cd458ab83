"""The master role moves to a machine that keeps a copy of the configuration, while the old controller hangs."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.daemon.lab import checker
from ansible_collections.roundsman.cluster.plugins.plugin_utils import run_group

from tests.chaos import victims

from . import labs
from .controllers import Controller, followed, roundsman

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

INSTANCES = tuple(f"instance{number}" for number in range(1, 7))
LAPSED = 300.0
"""Seconds within which nodes must let the role go; they do when its holder has been silent for three minutes."""


def of_the_controller(lab: labs.Running) -> list[int]:
    """The daemon and what its jobs have started on its own machine; modules work on the nodes."""
    found = victims.naming(lab.where.root)
    return [pid for pid in found if len(victims.words(pid, "cmdline")) > 2]


def places(lab: labs.Running) -> dict[str, list[str]]:
    return {name: [node.name for node in lab.lab.nodes() if name in node.running()] for name in INSTANCES}


def ended(controller: Controller) -> dict[str, Any]:
    """The incident of the lab, once it has ended."""
    end = time.monotonic() + labs.LIMIT
    while time.monotonic() < end:
        for one in controller.get("/1/status"):
            if one["repair-status"] in {"completed", "failed"}:
                return dict(one)
        time.sleep(0.5)
    raise AssertionError(controller.told)


def is_in_the_middle(lab: labs.Running) -> bool:
    """Some instances have moved and others have not, and the candidate keeps what is on record now."""
    return {"node2", "node3"} == {where for found in places(lab).values() for where in found} and bool(
        lab.get("/1/health")["copies"][0]["is_newest"]
    )


def test_the_master_role_moves_from_a_copy_while_the_old_machine_hangs_in_the_middle_of_an_evacuation(
    tmp_path: Path,
) -> None:
    lab = labs.up(
        tmp_path / "lab",
        nodes=4,
        instances=len(INSTANCES),
        pairs=[("node2", "node3")] * len(INSTANCES),
        settings={"diagnose_interval": 1.0},
        migration_seconds=20.0,
        agents=True,
    )
    copy = lab.lab.node("node4").root / "var/lib/roundsman/configuration.copy"
    hung: list[int] = []
    second = None
    try:
        lab.stop()
        settings = json.loads(lab.where.daemon_settings.read_bytes())
        lab.where.daemon_settings.write_text(json.dumps({**settings, "configuration_copies": ["node4"]}))
        lab.start()
        lab.lab.node("node2").break_with({"status": "evacuate"})
        lab.until(is_in_the_middle, "some have moved, and the copy says so")
        epoch = lab.get("/1/health")["leadership"]["epoch"]["number"]
        hung = of_the_controller(lab)
        for pid in hung:
            os.kill(pid, signal.SIGSTOP)
        before = places(lab)
        assert ["node2"] in before.values()
        second = Controller.restored(lab, lab.lab.folder / "candidate", old=lab.where, configuration=copy)
        said = roundsman(second.where, "cluster", "master-failover", "node4", "--yes", status=1)
        assert re.search(rf"heard of the controller that leads in epoch {epoch} ", said), said
        end = time.monotonic() + LAPSED
        while "is the master now" not in said:
            assert time.monotonic() < end, said
            time.sleep(5)
            said = roundsman(second.where, "cluster", "master-failover", "node4", "--yes", status=None)
        assert second.start() is None
        roundsman(second.where, "resume")
        # The old one goes on where it stood, on whatever it was about to do.
        for pid in hung:
            os.kill(pid, signal.SIGCONT)

        # Its jobs are not on this machine: a person looks, and says so.
        failed = ended(second)
        assert failed["repair-status"] == "failed", second.told
        roundsman(second.where, "incident", "ack", failed["id"])
        assert ended(second)["repair-status"] == "completed", second.told
        assert places(lab) == {name: ["node3"] for name in INSTANCES}
        assert not lab.lab.node("node2").is_powered()
        first = (lab.where.log / "daemon.log").read_text()
        assert re.search(rf"refuses epoch {epoch} \(|and this controller led in epoch {epoch} ", first), first
        assert set(followed(lab)) == {second.epoch}
        assert checker.check_journals(lab.lab) == []
    finally:
        for pid in hung:
            try:
                os.kill(pid, signal.SIGCONT)
            except ProcessLookupError:
                continue
        if second is not None:
            second.stop()
        for began in lab.where.queue.glob("*/*/began"):
            run_group.end(began.parent)
        labs.down(lab)
