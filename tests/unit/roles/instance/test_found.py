"""What find_instance concludes from what nodes answer after a lost run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

from tests.unit.roles import role_tasks

VARS = Path(__file__).resolve().parents[4] / "roles/instance/vars/main.yml"
NODES = [{"uuid": f"u-{name}", "name": name} for name in ("node1", "node2", "node3")]
ON_RECORD = ["u-node1", "u-node2"]


def concluded(
    name: str,
    *,
    running: list[str],
    silent: tuple[str, ...] = (),
    paused: tuple[str, ...] = (),
    leaving: tuple[str, ...] = (),
    template: str = "drbd",
) -> Any:
    """A variable of the role, where these nodes say that the instance runs or is paused there, and those are silent."""
    answers = [
        {"item": node, "unreachable": True}
        if node["name"] in silent
        else {
            "item": node,
            "running": ["web1"] if node["name"] in running else [],
            "states": {
                **({"web1": "running"} if node["name"] in running else {}),
                **({"web1": "paused"} if node["name"] in paused else {}),
            },
            "replicas": [],
            "migrations": {"web1": {}} if node["name"] in leaving else {},
        }
        for node in NODES
    ]
    known = {key: trust_as_template(text) if isinstance(text, str) else text for key, text in _vars().items()}
    told = {
        "instance": {"name": "web1", "disk_template": template, "admin_state": "up"},
        "step.known": ON_RECORD,
        "step.known_off": [],
        "step.unasked": [],
        "instance_look": {"results": answers},
    }
    return Templar(loader=DataLoader(), variables={**known, **role_tasks.given(told)}).template(
        trust_as_template("{{ " + name + " }}")
    )


def _vars() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(VARS.read_text())
    return found


@pytest.mark.parametrize(
    ("running", "silent", "template", "may"),
    [
        (["node2"], (), "drbd", True),
        (["node2"], ("node1",), "drbd", False),
        (["node1"], ("node2",), "drbd", True),
        (["node1", "node2"], (), "drbd", False),
        ([], (), "drbd", False),
        # It has no replica, or only one that is being made: what it says records nothing.
        (["node3"], (), "drbd", False),
        (["node3"], ("node1",), "drbd", False),
        (["node3"], (), "sharedfile", True),
    ],
)
def test_where_an_instance_runs_is_recorded_only_of_a_node_that_has_its_replica(
    running: list[str], silent: tuple[str, ...], template: str, may: bool
) -> None:
    assert concluded("instance_may_record", running=running, silent=silent, template=template) is may


@pytest.mark.parametrize(("leaving", "may"), [((), True), (("node1",), False), (("node2",), True)])
def test_where_an_instance_runs_is_not_recorded_while_its_migration_from_there_goes_on(
    leaving: tuple[str, ...], may: bool
) -> None:
    assert concluded("instance_may_record", running=["node1"], leaving=leaving) is may
    assert concluded("instance_undecided_text", running=["node1"], leaving=leaving) == ""


def test_a_primary_on_record_that_is_not_changed_has_the_reason_in_the_text() -> None:
    strange = concluded("instance_stranger_text", running=["node3"])
    assert "its primary on record was not changed, because node3 has no replica of it on record" in strange
    assert concluded("instance_undecided_text", running=["node3"]) == ""
    assert "did not answer" in concluded("instance_undecided_text", running=["node2"], silent=("node1",))
    assert concluded("instance_stranger_text", running=["node2"], silent=("node1",)) == ""
    assert concluded("instance_stranger_text", running=["node3"], template="sharedfile") == ""


@pytest.mark.parametrize(
    ("paused", "before"), [((), ""), (("node1",), "stop what is left of it with `roundsman instance stop web1`, then ")]
)
def test_what_is_paused_somewhere_is_stopped_before_it_is_started(paused: tuple[str, ...], before: str) -> None:
    told = concluded("instance_down_text", running=[], paused=paused)
    assert told == f"; it is down, although it should run: {before}start it with `roundsman instance start web1`"
