"""Live repairs: what a node says is data, for Ansible too."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.plugin_utils import daemon_client

from . import labs, states

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def _text(one: labs.Running, path: str) -> str:
    with daemon_client.connected(one.where.socket, seconds=30) as client:
        return client.get(path).text


def test_what_a_node_says_reaches_its_repair_command_as_it_is_and_is_never_evaluated(
    lab: Callable[..., labs.Running], tmp_path: Path
) -> None:
    touched = tmp_path / "x"
    jinja = "{{ lookup('pipe','touch " + str(touched) + "') }}"
    numbers = '"big":123456789012345678901234567890,"long":0.1234567890123456789012345678901234567890,"e":1e400'
    said = f'{{"status":"live-repair","command":"lab-repair","details":{{"text":"{jinja}",{numbers}}}}}'
    one = lab(nodes=3, instances=0)
    large = f'{said[:-2]},"filler":"{"x" * 600_000}"}}}}'
    one.lab.node("node2").say(said)
    one.lab.node("node3").say(large)

    one.diagnose()
    one.until(states.reads("node2", "completed"), "the repair is done")
    one.until(states.reads("node3", "completed"), "the repair of a large report is done")

    assert (one.lab.node("node3").root / "lab/repair-input.json").read_bytes() == large.encode()
    (incident,) = [each for each in json.loads(_text(one, "/1/status")) if each["node_name"] == "node3"]
    assert _text(one, f"/1/incidents/{incident['uuid']}/original") == large
    assert states.command(one, "incident", "original", incident["uuid"]).stdout.rstrip("\n") == large
    assert len(_text(one, "/1/page")) < 64 * 1024

    assert (one.lab.node("node2").root / "lab/repair-input.json").read_bytes() == said.encode()
    assert f'"original":{said}' in _text(one, "/1/status")
    assert numbers in states.command(one, "status", "-o", "json").stdout
    assert not touched.exists()
    assert one.lab.node("node2").repairs() == 1
    assert one.wrong() == []


@pytest.mark.slow
def test_a_repair_command_that_fails_or_is_no_file_name_fails_the_incident(
    lab: Callable[..., labs.Running], tmp_path: Path
) -> None:
    touched = tmp_path / "x"
    jinja = "{{ lookup('pipe','touch " + str(touched) + "') }}"
    one = lab(nodes=3, instances=0)
    (one.lab.node("node2").root / "lab/repair-fails").touch()
    one.lab.node("node2").break_with({"status": "live-repair", "command": "lab-repair"})
    one.lab.node("node3").break_with({"status": "live-repair", "command": jinja})

    one.diagnose()
    failing = one.until(states.reads("node2", "failed"), "the repair of node2 fails")
    refused = one.until(states.reads("node3", "failed"), "the repair of node3 is refused")

    assert "lab-repair: ended with 1" in failing["reason"]
    assert f"the repair command {json.loads(json.dumps(jinja))!r} is no file name" in refused["reason"]
    for name, incident in (("node2", failing), ("node3", refused)):
        assert one.cluster().node(name).tags == (f"maintd:repairfailed:{incident['id']}",)
        assert one.lab.node(name).repairs() == 0
    assert not touched.exists()
    assert not (one.lab.node("node3").root / "lab/repair-input.json").exists()
    assert one.wrong() == []
