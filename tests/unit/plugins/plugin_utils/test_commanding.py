from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.power import power, power_record
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils import commanding, holding
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes

from tests.unit import small_cluster

if TYPE_CHECKING:
    from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters

ON, OFF, UNKNOWN = power.State.ON, power.State.OFF, power.State.UNKNOWN
NOW = 131.0
GIVEN = 100.0


@pytest.mark.parametrize(
    ("command", "before", "seen", "alive_at"),
    [
        ("off", ON, [OFF], GIVEN),
        ("fence", ON, [OFF, OFF], GIVEN),
        ("fence", ON, [OFF, ON], NOW),
        ("off", ON, [], NOW),
        ("off", ON, [UNKNOWN], NOW),
        ("cycle", ON, [OFF, ON], NOW),
        ("off", OFF, [], 0.0),
        ("on", OFF, [ON], NOW),
    ],
)
def test_a_node_that_was_powered_off_lived_until_the_command_and_not_until_its_record(
    monkeypatch: pytest.MonkeyPatch, command: str, before: power.State, seen: list[power.State], alive_at: float
) -> None:
    """The record comes 31 s after the command, by the BMC of another node that does not answer."""
    cluster: clusters.Cluster = small_cluster.make()

    def record(_play: object, *stated: changes.Change, now: float) -> None:
        nonlocal cluster
        del now
        cluster = changes.apply_all(cluster, [*stated], now=NOW)

    monkeypatch.setattr(holding, "current", lambda _variables: None)
    monkeypatch.setattr(holding, "record", record)
    targets: list[dict[str, Any]] = [{"name": "node3", "uuid": "n3"}]
    sent = [power.Attempt(power.Answer.ACCEPTED)] * len(seen)
    found = power.judge(power.Command(command), name="node3", before=before, seen=seen, attempts=sent, seconds=1.0)
    found = dataclasses.replace(found, after=before) if not seen else found

    assert commanding.recorded(targets, [found], given=GIVEN, variables={}) == []

    assert cluster.node("n3").alive_at == alive_at


@pytest.mark.parametrize(
    ("command", "before", "confirms"),
    [
        ("off", OFF, True),
        ("off", ON, True),
        ("emergency_off", OFF, True),
        ("fence", ON, True),
        ("fence", OFF, False),
        ("confirm_off", OFF, False),
        ("status", OFF, False),
    ],
)
def test_only_what_a_person_commands_or_what_cut_the_power_confirms_the_off_of_a_node_that_has_lived_since(
    monkeypatch: pytest.MonkeyPatch, command: str, before: power.State, *, confirms: bool
) -> None:
    recorded: list[changes.Change] = []
    monkeypatch.setattr(holding, "current", lambda _variables: None)
    monkeypatch.setattr(holding, "record", lambda _play, *stated, **_now: recorded.extend(stated))
    sent = [power.Attempt(power.Answer.ACCEPTED)]
    found = power.judge(
        power.Command(command), name="node3", before=before, seen=[OFF, OFF], attempts=sent, seconds=1.0
    )
    targets: list[dict[str, Any]] = [{"name": "node3", "uuid": "n3"}]
    assert commanding.recorded(targets, [found], given=GIVEN, rule=power_record.read, variables={}) == []
    assert recorded[-1] == changes.NodePowered("n3", powered=False, confirms=confirms)


def test_a_record_that_fails_names_only_the_nodes_whose_power_it_was_about(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_play: object, *_stated: changes.Change, now: float) -> None:
        del now
        raise errors.StoreFailed("the disk is full")

    monkeypatch.setattr(holding, "current", lambda _variables: None)
    monkeypatch.setattr(holding, "record", fail)
    targets: list[dict[str, Any]] = [{"name": f"node{number}", "uuid": f"n{number}"} for number in (2, 3, 4)]
    sent = [power.Attempt(power.Answer.ACCEPTED)]
    off, silent = (
        power.judge(power.Command.OFF, name=name, before=before, seen=seen, attempts=sent, seconds=1.0)
        for name, before, seen in (("node3", ON, [OFF]), ("node4", UNKNOWN, [UNKNOWN]))
    )

    troubles = commanding.recorded(targets, [off, silent], given=GIVEN, variables={})

    assert troubles == ["the power of node3 could not be recorded: the disk is full"]
