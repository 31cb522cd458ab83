"""Nodes that run another diagnose command than the cluster's setting: seen in lists, and a finding of verify."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from typing import TYPE_CHECKING

from ansible_collections.roundsman.cluster.daemon.cli import wording
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent import reports, signing
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes

from tests.unit.daemon import twins
from tests.unit.daemon.api.reached import Reached, reach

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def said_by(one: Reached, name: str, command: str) -> None:
    """Put an Ok into the spool that names the command it is of."""
    node, moment = one.running.configuration.current.node(name), time.time()
    key = signing.node_key(one.running.where.hmac_key.read_bytes(), node.uuid)
    message = reports.message(
        node_uuid=node.uuid, timestamp_ns=int(moment * 1e9), data='{"status":"Ok"}', problem=None, command=command
    )
    (one.running.where.spool / f"{name}.json").write_text(signing.sign(message, key=key, now=int(moment)))


def test_a_node_with_another_diagnose_command_is_in_the_list_and_a_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def act(one: Reached) -> None:
        settings = one.running.configuration.current.maintenance.settings
        wanted = dataclasses.replace(settings, diagnose_command="check-node")
        await one.running.configuration.commit(lambda _head: [changes.SettingsStand(wanted)])
        said_by(one, "node2", "other")
        said_by(one, "node3", "check-node")
        await one.running.intake.take_all()
        nodes = {node["name"]: wording.health(node) for node in (await one.ask("GET", "/1/nodes")).json()}
        assert (nodes["node2"], nodes["node3"]) == ("Ok (by another command)", "Ok")
        one.running.queue.resume()
        told = (await one.ask("PUT", "/2/verify")).json()
        job = told["id"]
        await asyncio.wait_for(one.running.queue.wait(job, seconds=twins.LIMIT), twins.LIMIT)
        (spec,) = [spec for spec in one.twin.specs.values() if spec.kind == "cluster_verify"]
        assert list(spec.variables["step"]["differing"]) == ["node2"]
        assert "runs the diagnose command other" in spec.variables["step"]["differing"]["node2"]

    reach(tmp_path, monkeypatch, act, is_local=True)
