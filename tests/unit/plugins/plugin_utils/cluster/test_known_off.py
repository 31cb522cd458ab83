from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.power import power, power_record
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes, known_off, membership
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters

from tests.unit import small_cluster

if TYPE_CHECKING:
    from collections.abc import Callable

CLUSTER = small_cluster.make()


def test_a_node_that_was_powered_on_has_the_date_until_it_is_off_and_a_reading_alone_gives_none() -> None:
    cluster = changes.apply(small_cluster.make(), changes.NodePowered("n2", powered=True), now=5.0)
    read_on = changes.NodePowered("n2", powered=True, confirms=False, commanded=False)
    for now, change, at in (
        (6.0, read_on, 5.0),
        (7.0, changes.NodePowered("n2", powered=False), 0.0),
        (8.0, read_on, 8.0),
        (9.0, changes.NodePowered("n2", powered=True), 9.0),
    ):
        cluster = changes.apply(cluster, change, now=now)
        assert cluster.nodes["n2"].powered_on_at == at
    node = cluster.nodes["n2"]
    for now, powered, at in ((10.0, False, 0.0), (11.0, True, 11.0)):
        stands = membership.NodeStands(dataclasses.replace(node, powered=powered))
        cluster = changes.apply(cluster, stands, now=now)
        assert cluster.nodes["n2"].powered_on_at == at


def test_a_node_is_off_since_it_was_first_known_to_be_and_anew_after_a_sign_of_life() -> None:
    off, lived = changes.NodePowered("n2", powered=False), changes.NodeLived("n2")

    def after(*stated: tuple[float, changes.Change]) -> tuple[float, float]:
        cluster = CLUSTER
        for now, change in stated:
            cluster = changes.apply(cluster, change, now=now)
        node = cluster.node("n2")
        return known_off.seen_off(node), node.alive_at

    assert after(
        (5.0, off), (7.0, off), (8.0, changes.NodeRole("n2", drained=True, offline=True, master_candidate=False))
    ) == (
        5.0,
        0.0,
    )
    assert after((5.0, off), (6.0, lived), (7.0, off)) == (7.0, 6.0)
    assert after((5.0, lived), (5.0, off)) == (5.0, 5.0), "it was on, and was powered off"
    assert after((5.0, off), (6.0, changes.NodePowered("n2", powered=True))) == (0.0, 0.0)
    assert after((5.0, changes.NodeOffConfirmed("n2", 4.5)), (6.0, off)) == (6.0, 0.0), "its BMC took an off since"
    read = changes.NodePowered("n2", powered=False, commanded=False)
    assert after((5.0, changes.NodeOffConfirmed("n2", 4.5)), (6.0, read)) == (4.5, 0.0)
    assert (
        after((5.0, off), (6.0, changes.NodeOffConfirmed("n2", 6.0)), (7.0, changes.NodeOffConfirmed("n2", 0.0)))[0]
        == 6.0
    ), "a person has looked, because what was known before may have been wrong"
    assert after((5.0, changes.NodeOffConfirmed("n2", 5.0)), (7.0, changes.NodeOffConfirmed("n2", 0.0)))[0] == 0.0


def test_an_off_is_dated_by_its_confirmation_and_once() -> None:
    off, since = changes.NodePowered("n2", powered=False), known_off.seen_off
    lived = changes.apply(CLUSTER, changes.NodeLived("n2"), now=40.0)
    recorded = changes.apply(lived, off, now=100.0)
    assert since(recorded.node("n2")) == 100.0
    assert since(changes.apply(recorded, off, now=110.0).node("n2")) == 100.0, "it was known before that"
    returned = changes.apply(recorded, changes.NodeLived("n2"), now=105.0)
    reading = dataclasses.replace(off, confirms=False)
    assert since(changes.apply(returned, reading, now=110.0).node("n2")) == 100.0, "a reading is no new confirmation"
    assert since(changes.apply(returned, off, now=110.0).node("n2")) == 110.0


def _outcome(command: power.Command, *, sent: bool) -> power.Outcome:
    off = power.State.OFF
    return power.Outcome("n2", command, off, off, sent, confirmed=True, attempts=int(sent), seconds=1.0)


def _recorded(
    cluster: clusters.Cluster, outcome: power.Outcome, *, now: float, is_look: bool = False
) -> clusters.Cluster:
    value = (power_record.read if is_look else power_record.recorded)(outcome)
    assert value is False
    change = changes.NodePowered("n2", powered=value, confirms=power_record.confirms(outcome), commanded=outcome.sent)
    return changes.apply(cluster, change, now=now)


def _off_by_hand(cluster: clusters.Cluster) -> clusters.Cluster:
    sent = power.needs_sending(power.Command.OFF, before=power.State.OFF)
    return _recorded(cluster, _outcome(power.Command.OFF, sent=sent), now=100.0)


def _looked_at(cluster: clusters.Cluster) -> clusters.Cluster:
    return _recorded(cluster, _outcome(power.Command.STATUS, sent=False), now=100.0, is_look=True)


def _modified(cluster: clusters.Cluster) -> clusters.Cluster:
    node = dataclasses.replace(cluster.node("n2"), powered=False)
    return changes.apply(cluster, membership.NodeStands(node), now=100.0)


@pytest.mark.parametrize("read", [_off_by_hand, _looked_at, _modified])
@pytest.mark.parametrize("command", [power.Command.CONFIRM_OFF, power.Command.FENCE])
def test_an_off_that_was_only_read_is_not_known_and_the_next_command_dates_it(
    read: Callable[[clusters.Cluster], clusters.Cluster], command: power.Command
) -> None:
    cluster = read(CLUSTER)
    assert known_off.is_off(cluster.node("n2"))
    assert not known_off.is_known_off(cluster.node("n2"))
    commanded = _recorded(cluster, _outcome(command, sent=True), now=160.0)
    assert known_off.is_known_off(commanded.node("n2"))
    assert known_off.seen_off(commanded.node("n2")) == 160.0
    again = _recorded(_looked_at(commanded), _outcome(command, sent=True), now=200.0)
    assert (known_off.is_known_off(again.node("n2")), known_off.seen_off(again.node("n2"))) == (True, 160.0)
    stated = changes.apply(cluster, changes.NodeOffConfirmed("n2", 150.0, by="alice"), now=150.0)
    assert known_off.is_known_off(stated.node("n2")), "a person has looked"


def test_what_is_confirmed_after_the_clock_was_set_back_comes_after_the_signs_of_life_before_that() -> None:
    lived = changes.apply(CLUSTER, changes.NodeLived("n2"), now=3600.0)
    off = changes.apply(lived, changes.NodePowered("n2", powered=False), now=10.0).node("n2")
    assert (known_off.is_known_off(off), off.off_since, off.alive_at) == (True, 3600.0, 3600.0), "the later one counts"
    stated = changes.apply(lived, changes.NodeOffConfirmed("n2", 9.5), now=10.0).node("n2")
    assert (known_off.is_stated_off(stated), known_off.is_known_off(stated)) == (True, True)
    assert stated.off_confirmed == 9.5, "what ends it is dated by the same clock"


@pytest.mark.parametrize("by_person", [False, True], ids=["by its BMC", "by a person"])
@pytest.mark.parametrize("ahead", ["sign of life", "confirmation"])
def test_a_sign_of_life_after_the_clock_was_set_back_counts_at_once(ahead: str, *, by_person: bool) -> None:
    def confirmed(cluster: clusters.Cluster, now: float) -> clusters.Cluster:
        stated = changes.NodeOffConfirmed("n2", now) if by_person else changes.NodePowered("n2", powered=False)
        return changes.apply(cluster, stated, now=now)

    before = changes.apply(CLUSTER, changes.NodeLived("n2"), now=3600.0 if ahead == "sign of life" else 5.0)
    off = confirmed(before, 10.0 if ahead == "sign of life" else 3600.0)
    assert known_off.is_known_off(off.node("n2"))
    lived = changes.apply(off, changes.NodeLived("n2", at=15.0), now=20.0)
    node = lived.node("n2")
    assert (known_off.has_lived(node), known_off.is_stated_off(node)) == (True, False)
    assert 3600.0 < node.alive_at < 3600.1, "never pulled back, and no further than needed"
    again = confirmed(lived, 30.0)
    assert known_off.is_known_off(again.node("n2"))
    assert known_off.has_lived(changes.apply(again, changes.NodeLived("n2"), now=40.0).node("n2"))


@pytest.mark.parametrize("ahead", [0.0, 3600.0], ids=["", "after the clock was ahead"])
def test_the_sign_of_life_that_a_statement_ended_stands_again_when_it_is_taken_back(ahead: float) -> None:
    off = changes.apply(CLUSTER, changes.NodePowered("n2", powered=False), now=5.0)
    lived = changes.apply(off, changes.NodeLived("n2"), now=6.0 + ahead)
    stated = changes.apply(lived, changes.NodeOffConfirmed("n2", 7.0), now=7.0)
    assert known_off.is_known_off(stated.node("n2"))
    node = changes.apply(stated, changes.NodeOffConfirmed("n2", 0.0), now=8.0).node("n2")
    assert (node.powered, known_off.has_lived(node), known_off.is_known_off(node)) == (False, True, False)
    again = changes.apply(stated, changes.NodePowered("n2", powered=True), now=8.0)
    assert known_off.seen_off(changes.apply(again, changes.NodeOffConfirmed("n2", 0.0), now=9.0).node("n2")) == 0.0


@pytest.mark.parametrize("powered_off", [True, False], ids=["by its BMC", "on record"])
def test_a_statement_that_a_sign_of_life_has_ended_does_not_count_again_when_the_power_is_recorded(
    *, powered_off: bool
) -> None:
    stated = changes.apply(CLUSTER, changes.NodeOffConfirmed("n2", 5.0), now=5.0)
    lived = changes.apply(stated, changes.NodeLived("n2"), now=6.0)
    corrected = membership.NodeStands(dataclasses.replace(lived.node("n2"), powered=False))
    off = changes.NodePowered("n2", powered=False) if powered_off else corrected
    node = changes.apply(lived, off, now=7.0).node("n2")
    assert (known_off.is_known_off(node), known_off.is_stated_off(node)) == (powered_off, False)


def test_a_person_who_records_a_node_as_on_takes_back_every_statement_that_it_is_off() -> None:
    off = changes.apply(CLUSTER, changes.NodePowered("n2", powered=False), now=5.0)
    stated = changes.apply(off, changes.NodeOffConfirmed("n2", 6.0), now=6.0)
    on = membership.NodeStands(dataclasses.replace(stated.node("n2"), powered=True))
    node = changes.apply(stated, on, now=7.0).node("n2")
    assert (node.powered, node.off_confirmed, known_off.is_off(node)) == (True, 0.0, False)


@pytest.mark.parametrize("now", [20.0, 3.0], ids=["", "after the clock was set back"])
@pytest.mark.parametrize("confirms", [True, False])
def test_an_off_that_was_commanded_and_read_back_ends_a_statement_and_dates_it_no_earlier(
    now: float, *, confirms: bool
) -> None:
    stated = changes.apply(CLUSTER, changes.NodeOffConfirmed("n2", 9.0, by="alice"), now=10.0)
    off = changes.NodePowered("n2", powered=False, confirms=confirms)
    read = changes.apply(stated, dataclasses.replace(off, commanded=False), now=now).node("n2")
    assert (known_off.stated_by(read), known_off.is_known_off(read)) == ("alice", True), "only read"
    node = changes.apply(stated, off, now=now).node("n2")
    assert (known_off.stated_by(node), known_off.is_stated_off(node), node.off_stated_by) == ("", False, "")
    assert (known_off.is_known_off(node), known_off.seen_off(node)) == (True, max(now, 9.0))


def test_a_statement_that_a_sign_of_life_overtook_does_not_count() -> None:
    lived = changes.apply(CLUSTER, changes.NodeLived("n2"), now=9.8)
    stated = changes.apply(lived, changes.NodeOffConfirmed("n2", 9.5), now=10.0).node("n2")
    assert (known_off.is_stated_off(stated), known_off.has_lived(stated)) == (False, True)


def test_a_sign_of_life_is_dated_when_it_was_and_never_after_its_record() -> None:
    def alive_at(*times: float) -> float:
        cluster = CLUSTER
        for at in times:
            cluster = changes.apply(cluster, changes.NodeLived("n2", at=at), now=9.0)
        return cluster.node("n2").alive_at

    assert [alive_at(0.0), alive_at(5.0), alive_at(12.0), alive_at(6.0, 5.0)] == [9.0, 5.0, 9.0, 6.0]


@pytest.mark.parametrize("by_person", [False, True], ids=["by its BMC", "by a person"])
def test_a_sign_of_life_counts_though_the_clock_stands_still_and_so_does_the_next_off(*, by_person: bool) -> None:
    off: changes.Change = changes.NodePowered("n2", powered=False)
    known = changes.apply(CLUSTER, changes.NodeOffConfirmed("n2", 5.0) if by_person else off, now=5.0)
    lived = changes.apply(known, changes.NodeLived("n2"), now=5.0)
    assert (known_off.has_lived(lived.node("n2")), known_off.is_known_off(lived.node("n2"))) == (True, False)
    again = changes.apply(lived, changes.NodeLived("n2"), now=5.0)
    assert again.node("n2").alive_at > lived.node("n2").alive_at, "what was judged before it is old"
    assert known_off.is_known_off(changes.apply(again, off, now=5.0).node("n2"))


def test_a_person_who_corrects_the_record_of_a_nodes_power_states_it_now() -> None:
    off = dataclasses.replace(CLUSTER.node("n2"), offline=True, powered=False)
    known = changes.apply(CLUSTER, membership.NodeStands(off), now=5.0)
    assert known_off.seen_off(known.node("n2")) == 5.0
    renamed = dataclasses.replace(known.node("n2"), name="other")
    assert changes.apply(known, membership.NodeStands(renamed), now=9.0).node("n2").off_since == 5.0


def test_what_a_person_corrects_of_a_node_that_lived_since_it_was_known_to_be_off_leaves_that_as_it_is() -> None:
    off = changes.apply(CLUSTER, changes.NodePowered("n2", powered=False), now=5.0)
    lived = changes.apply(off, changes.NodeLived("n2"), now=6.0)
    renamed = dataclasses.replace(lived.node("n2"), name="other")
    node = changes.apply(lived, membership.NodeStands(renamed), now=9.0).node("n2")
    assert (node.off_since, known_off.has_lived(node)) == (5.0, True)


def test_no_other_change_of_a_node_says_again_that_it_is_off() -> None:
    """Of one that was recorded off before that moment was kept, too."""
    off = clusters.with_node(CLUSTER, dataclasses.replace(CLUSTER.node("n2"), powered=False, mtime=1000.0))
    read = known_off.with_off_since(off)
    assert known_off.seen_off(read.node("n2")) == 1000.0
    drained = changes.NodeRole("n2", drained=True, offline=False, master_candidate=False)
    for cluster in (off, read):
        lived = changes.apply(cluster, changes.NodeLived("n2"), now=2000.0)
        assert known_off.has_lived(changes.apply(lived, drained, now=3000.0).node("n2"))


def test_a_reading_of_off_confirms_nothing_of_a_node_that_lived_since_it_was_known_to_be_off() -> None:
    read = changes.NodePowered("n2", powered=False, confirms=False)
    off = changes.apply(CLUSTER, read, now=5.0)
    assert known_off.seen_off(off.node("n2")) == 5.0
    lived = changes.apply(off, changes.NodeLived("n2"), now=6.0)
    assert changes.apply(lived, read, now=7.0) is lived
    stated = changes.apply(CLUSTER, changes.NodeOffConfirmed("n2", 5.0), now=5.0)
    doubted = changes.apply(changes.apply(stated, changes.NodeLived("n2"), now=6.0), read, now=7.0).node("n2")
    assert (doubted.powered, doubted.off_since, known_off.has_lived(doubted)) == (False, 5.0, True)
    on = changes.NodePowered("n2", powered=True, confirms=False)
    assert not known_off.is_off(changes.apply(lived, on, now=7.0).node("n2"))


def test_a_statement_that_is_taken_back_leaves_a_reading_which_the_next_command_dates() -> None:
    """What the daemon noted of the node while the statement stood was dated by it."""
    cluster = CLUSTER
    stated = changes.NodeOffConfirmed("n2", 4.5, "anna")
    noted = changes.NodePowered("n2", powered=False, commanded=False)
    for now, change in ((5.0, stated), (6.0, noted), (7.0, changes.NodeOffConfirmed("n2", 0.0))):
        cluster = changes.apply(cluster, change, now=now)
    assert not known_off.is_known_off(cluster.node("n2"))
    node = changes.apply(cluster, changes.NodePowered("n2", powered=False), now=9.0).node("n2")
    assert (known_off.is_known_off(node), known_off.stated_by(node), known_off.seen_off(node)) == (True, "", 9.0)


def test_a_statement_that_is_taken_back_does_not_bring_the_off_of_before_it_back() -> None:
    """That person had a reason to doubt it: its BMC is asked again."""
    cluster = CLUSTER
    off, stated = changes.NodePowered("n2", powered=False), changes.NodeOffConfirmed("n2", 5.5, "anna")
    for now, change in ((5.0, off), (6.0, stated), (7.0, changes.NodeOffConfirmed("n2", 0.0))):
        cluster = changes.apply(cluster, change, now=now)
    assert not known_off.is_known_off(cluster.node("n2"))


@pytest.mark.parametrize(
    ("command", "before", "answer"),
    [
        (power.Command.OFF, power.State.ON, power.Answer.LOST),
        (power.Command.EMERGENCY_OFF, power.State.OFF, power.Answer.REJECTED),
        (power.Command.EMERGENCY_OFF, power.State.OFF, power.Answer.LOST),
    ],
)
def test_an_off_that_its_bmc_did_not_take_is_a_reading(
    command: power.Command, before: power.State, answer: power.Answer
) -> None:
    off = power.State.OFF
    told = power.judge(
        command, name="n2", before=before, seen=[off, off], attempts=[power.Attempt(answer)], seconds=1.0
    )
    assert (told.confirmed, told.sent, told.taken) == (True, True, False)
    read = changes.NodePowered("n2", powered=False, confirms=power_record.confirms(told), commanded=told.taken)
    stated = changes.apply(CLUSTER, changes.NodeOffConfirmed("n2", 4.0, "anna"), now=5.0)
    assert known_off.is_stated_off(changes.apply(stated, read, now=10.0).node("n2"))
    assert not known_off.is_known_off(changes.apply(CLUSTER, read, now=10.0).node("n2"))
