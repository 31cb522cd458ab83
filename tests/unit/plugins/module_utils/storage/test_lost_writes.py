"""An unattended failover loses no more than it states, and no more than the limit; one that may run is not refused."""

from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from ansible_collections.roundsman.cluster.plugins.action import failover_check
from ansible_collections.roundsman.cluster.plugins.plugin_utils import replica_evidence
from ansible_collections.roundsman.cluster.plugins.plugin_utils.disks import possible_loss
from ansible_collections.roundsman.cluster.plugins.plugin_utils.disks.possible_loss import Verdict
from hypothesis import strategies as st

from .outage import NOTICED, Outage

WRITES = 5
"""A second, of the instance."""
SECONDS = st.integers(1, 3000).map(lambda tenths: tenths / 10)
LATE = st.sampled_from([0.0, 7.0, NOTICED])
DEEDS = st.lists(
    st.one_of(
        st.tuples(st.just("wait"), SECONDS),
        st.tuples(st.just("cut"), LATE),
        st.tuples(st.just("reboot"), st.integers(5, 60)),
        st.tuples(st.just("clock"), st.sampled_from([-3600, 3600])),
        st.tuples(st.sampled_from(["restore", "restore", "deaf", "heard", "away", "back"]), st.none()),
        st.tuples(st.sampled_from(["agent", "no agent", "outdate"]), st.none()),
        st.tuples(st.just("elsewhere"), SECONDS),
    ),
    max_size=5,
)


def violation(
    deeds: list[tuple[str, Any]],
    *,
    limit: int = 120,
    late: float = 0.0,
    silent: float = 30.0,
    is_recorded: bool = True,
    waits: float = 0.0,
) -> str:
    """What is wrong with the failover after these deeds and the death of the primary, '' if nothing is."""
    with tempfile.TemporaryDirectory(prefix="roundsman-outage-") as folder, pytest.MonkeyPatch.context() as patch:
        one = Outage(Path(folder), patch, limit=limit)
        for deed, about in deeds:
            one.happen(deed, about)
        one.die(late=late)
        one.wait(silent)
        found = one.judged(is_recorded=is_recorded, waits=waits)
        allowed, lost = one.allowed_loss(), one.lost()
    if found.verdict is not Verdict.GO:
        is_refused = allowed is not None and allowed < limit
        return f"{allowed} s may be lost, and it is refused: {found}" if is_refused else ""
    # A write that was under way is on one disk of the two.
    stated = found.seconds or 0.0
    if lost > WRITES * stated + 1:
        return f"{lost} writes are lost, and {stated} s are stated"
    return f"{stated} s may be lost, and {limit} s are the limit" if stated > limit else ""


SCENES: dict[str, dict[str, Any]] = {
    "a plain cut of the power": {"deeds": []},
    "a cut that the survivor notices late": {
        "deeds": [("deaf", None), ("cut", NOTICED), ("wait", 30.0)],
        "silent": 1.0,
    },
    "an isolated node that writes on": {"deeds": [("deaf", None), ("cut", 0.0), ("wait", 250.0)], "silent": 10.0},
    "a replica that was connected to another node": {
        "deeds": [("deaf", None), ("wait", 60.0), ("elsewhere", 60.0)],
        "silent": 5.0,
    },
    "a job that waited": {"deeds": [("wait", 60.0)], "waits": 200.0},
    "a power that the survivor notices late": {"deeds": [], "late": NOTICED, "silent": 5.0, "is_recorded": False},
    "a survivor that restarted": {"deeds": [("reboot", 30), ("wait", 60.0)]},
    "a controller that was away": {"deeds": [("away", None), ("wait", 100.0), ("back", None)]},
    "a clock that was set": {"deeds": [("clock", 3600), ("wait", 10.0)], "waits": 20.0},
}
BUGS = {
    "NOTICED is 0": "a cut that the survivor notices late",
    "the age is ignored": "an isolated node that writes on",
    "the address is not compared": "a replica that was connected to another node",
    "since_off is 0": "a job that waited",
}


def plant(bug: str, patch: pytest.MonkeyPatch) -> None:
    """Break the rule."""
    sight, disk, judge = possible_loss._sight, failover_check._disk, replica_evidence.judge

    def of_any_peer(replica: Any, address: str, look: float | None) -> Any:
        return dataclasses.replace(disk(replica, address, look), age=min(replica.seen.values(), default=None))

    def at_once(cluster: Any, instance: Any, known: Any, answered: Any, **options: Any) -> Any:
        return judge(cluster, instance, known, dataclasses.replace(answered, since_off=0.0), **options)

    bugs: dict[str, tuple[Any, str, object]] = {
        "NOTICED is 0": (possible_loss, "NOTICED", 0.0),
        "the age is ignored": (possible_loss, "_sight", lambda *given: None if sight(*given) is None else 0.0),
        "the address is not compared": (failover_check, "_disk", of_any_peer),
        "since_off is 0": (replica_evidence, "judge", at_once),
    }
    patch.setattr(*bugs[bug])


@pytest.mark.parametrize("scene", SCENES)
def test_what_is_lost_is_stated_and_bounded_in_each_scene(scene: str) -> None:
    assert not violation(**SCENES[scene])


@pytest.mark.parametrize("bug", BUGS)
def test_a_broken_rule_is_found_in_its_scene(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(bug, monkeypatch)
    assert violation(**SCENES[BUGS[bug]])


@hypothesis.settings(
    max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(hypothesis.HealthCheck)
)
@hypothesis.given(
    scene=st.sampled_from(sorted(SCENES)),
    deeds=DEEDS,
    limit=st.sampled_from([0, 60, 120, 300]),
    late=LATE,
    silent=SECONDS,
    is_recorded=st.booleans(),
    waits=st.sampled_from([0.0, 40.0]),
)
def test_what_is_lost_is_stated_and_bounded_whatever_went_before(
    scene: str, deeds: list[tuple[str, Any]], **outage: Any
) -> None:
    assert not violation([*SCENES[scene]["deeds"], *deeds], **outage)
