"""The hosts of the plays of an emergency power off and of its return."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.roles import role_tasks

EMERGENCY = Path(__file__).resolve().parents[3] / "playbooks/emergency"
NODES = ["node1", "localhost", "all"]
PLAYS = [
    (path.name, play["name"], play["hosts"])
    for path in sorted(EMERGENCY.glob("*.yml"))
    for play in yaml.safe_load(path.read_text())
    if "hosts" in play
]


@pytest.mark.parametrize("wave", ["first", "second"])
@pytest.mark.parametrize(("file", "name", "hosts"), PLAYS, ids=lambda value: value.replace(" ", "_"))
def test_no_host_is_taken_for_a_node_that_the_inventory_leaves_out(file: str, name: str, hosts: str, wave: str) -> None:
    about = dict.fromkeys(NODES, "")
    # What `epo_returned` names is without them already.
    fit = {"node1": ""}
    known: dict[str, Any] = {
        "epo": {"stopping": NODES, "here": ["localhost"], "left_out": ["localhost", "all"]},
        "epo_left": {"waiting": list(fit), "replicas": fit, "starts": fit, "here": ["localhost"]},
    }
    if wave == "second":
        known["epo_off"] = {"kept": about}
    targets = role_tasks.value("node", hosts, {"hostvars": {"localhost": known}})
    is_of_controller = hosts == "localhost" or ".here " in hosts
    assert targets in ((["localhost"], "localhost") if is_of_controller else (["node1"],)), f"{file}: {name}"
