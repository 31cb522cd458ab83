from __future__ import annotations

import dataclasses
import itertools
import math
from typing import Any

import pytest
from ansible_collections.roundsman.cluster.plugins.plugin_utils.disks import failovers, possible_loss
from ansible_collections.roundsman.cluster.plugins.plugin_utils.disks.failovers import Failover, Node, Replica

GOOD = Replica("Primary, Connected, UpToDate/UpToDate", is_synced=True, disk="UpToDate", is_connected=True)
ALONE = Replica("Secondary, Connecting, UpToDate/DUnknown", is_synced=False, disk="UpToDate", is_connected=False)
DOWN = Replica("is down on this node", is_synced=False, disk="", is_connected=False)
SOURCE, TARGET = Node("node1", replicas=(GOOD, GOOD)), Node("node2", replicas=(GOOD, GOOD))
SILENT = Node("node1", answers=False, why="timed out", replicas=None)
GO = possible_loss.Answer(possible_loss.Verdict.GO, 12.5, last_in_sync=5.0, seen_off=17.5)
ASKED = Failover("web1", is_replicated=True, source=SOURCE, target=TARGET)


def worth(disk: str) -> Replica:
    return dataclasses.replace(ALONE, disk=disk, text=f"Secondary, Connected, {disk}/UpToDate", is_connected=True)


def refusal(**changed: Any) -> str:
    return failovers.objection(dataclasses.replace(ASKED, **changed))


def test_a_pair_in_sync_is_failed_over_and_promoted_only_with_its_peer() -> None:
    assert failovers.objection(ASKED) == ""
    assert failovers.is_in_sync(ASKED)
    assert not failovers.may_be_alone(ASKED)


@pytest.mark.parametrize("bad", [ALONE, worth("Inconsistent")])
@pytest.mark.parametrize("place", ["source", "target", "second disk"])
def test_a_pair_that_one_of_its_nodes_sees_degraded_is_refused(bad: Replica, place: str) -> None:
    changes: dict[str, dict[str, Any]] = {
        "source": {"source": dataclasses.replace(SOURCE, replicas=(bad, GOOD))},
        "target": {"target": dataclasses.replace(TARGET, replicas=(bad, GOOD))},
        "second disk": {"source": dataclasses.replace(SOURCE, replicas=(GOOD, bad))},
    }
    changed = changes[place]
    text = refusal(**changed)
    assert bad.text in text
    assert "roundsman instance repair-disks web1" in text
    assert not failovers.is_in_sync(dataclasses.replace(ASKED, **changed))


@pytest.mark.parametrize(
    ("on_source", "on_target", "said"),
    [
        ((), (), "node2 lists no replica of web1"),
        ((GOOD, GOOD), (), "node2 lists no replica of web1"),
        ((), (GOOD, GOOD), "are not in sync: node1 has no replica; node2 has"),
        ((GOOD, GOOD), (GOOD,), "are not in sync: node1 has"),
    ],
)
def test_nodes_that_list_other_replicas_than_each_other_or_none_are_not_in_sync(
    on_source: tuple[Replica, ...], on_target: tuple[Replica, ...], said: str
) -> None:
    changed: dict[str, Any] = {"source": Node("node1", replicas=on_source), "target": Node("node2", replicas=on_target)}
    assert said in refusal(**changed)
    assert not failovers.is_in_sync(dataclasses.replace(ASKED, **changed))


def test_a_target_that_lists_no_replica_is_refused_whatever_is_known_of_its_source() -> None:
    target = Node("node2", replicas=())
    for ignore in (False, True):
        assert "lists no replica" in refusal(source=None, target=target, loss=GO, ignore_consistency=ignore)


def test_a_person_may_ignore_that_the_pair_is_not_in_sync() -> None:
    parted: dict[str, Any] = {"source": Node("node1", replicas=(ALONE,)), "target": Node("node2", replicas=(ALONE,))}
    text = refusal(**parted)
    assert "the replicas of web1 are not in sync: node1 has Secondary, Connecting, UpToDate/DUnknown; node2 has" in text
    assert "--ignore-consistency loses what the target does not have" in text
    assert refusal(**parted, ignore_consistency=True) == ""
    assert failovers.may_be_alone(dataclasses.replace(ASKED, **parted, ignore_consistency=True))


@pytest.mark.parametrize("disk", ["Inconsistent", "Outdated", "Diskless", "DUnknown", "Consistent", ""])
@pytest.mark.parametrize("ignore", [False, True])
def test_a_replica_that_cannot_be_started_is_refused_in_every_case(disk: str, ignore: bool) -> None:
    target = dataclasses.replace(TARGET, replicas=(GOOD, worth(disk)))
    assert "the replica of web1 on node2 cannot be started" in refusal(target=target, ignore_consistency=ignore)


def test_with_a_source_that_is_gone_a_person_may_try_a_replica_that_is_down() -> None:
    gone: dict[str, Any] = {"source": None, "target": dataclasses.replace(TARGET, replicas=(DOWN,))}
    assert "cannot be started (is down on this node)" in refusal(**gone, loss=GO)
    assert refusal(**gone, ignore_consistency=True) == ""


OUTDATED = Replica("Secondary, Connecting, Outdated/DUnknown", is_synced=False, disk="Outdated", is_connected=False)
LOST: dict[str, Any] = {"source": None, "target": Node("node2", replicas=(ALONE, OUTDATED)), "ignore_consistency": True}


@pytest.mark.parametrize("disk", ["Outdated", "Consistent"])
@pytest.mark.parametrize("source", [None, SILENT])
def test_a_person_may_have_the_last_whole_replica_promoted_by_force_and_is_told_what_that_costs(
    disk: str, source: Node | None
) -> None:
    last = dataclasses.replace(OUTDATED, disk=disk)
    lost = {**LOST, "source": source, "target": Node("node2", replicas=(ALONE, last))}
    assert refusal(**lost) == ""
    text = failovers.forced_text(dataclasses.replace(ASKED, **lost))
    assert f"the replica of web1 on node2 ({last.text}) is promoted by force" in text
    assert "what was written without it is lost" in text


@pytest.mark.parametrize(
    "changed",
    [
        {"ignore_consistency": False, "loss": GO},
        {"source": SOURCE},
        {"source": SILENT, "is_stopped": True},
        {"target": Node("node2", replicas=(dataclasses.replace(OUTDATED, is_connected=True),))},
        *(
            {"target": Node("node2", replicas=(OUTDATED, worth(disk)))}
            for disk in ("Inconsistent", "Diskless", "Failed")
        ),
        {"target": Node("node2", replicas=(OUTDATED, dataclasses.replace(ALONE, disk="Inconsistent")))},
    ],
)
def test_nothing_else_is_promoted_by_force(changed: dict[str, Any]) -> None:
    asked = dataclasses.replace(ASKED, **{**LOST, **changed})
    assert failovers.forced_text(asked) == ""
    assert "the replica of web1 on node2 cannot be started" in failovers.objection(asked)


@pytest.mark.parametrize("ignore", [False, True])
@pytest.mark.parametrize("source", [SOURCE, Node("node1", why="lvs hangs", replicas=None)])
def test_an_outdated_replica_whose_source_answers_is_refused_and_nobody_is_told_to_power_that_off(
    source: Node, ignore: bool
) -> None:
    text = refusal(source=source, target=Node("node2", replicas=(OUTDATED,)), ignore_consistency=ignore)
    assert "repair it with `roundsman instance repair-disks web1`, then retry" in text
    assert not [word for word in ("lost for good", "power off", "--ignore-consistency") if word in text]


@pytest.mark.parametrize(
    ("source", "step"),
    [
        (SILENT, "If node1 is lost for good, power it off with `roundsman node power off node1 --force`"),
        (None, "If its primary is lost for good, keep it off"),
    ],
)
def test_an_outdated_replica_whose_source_is_gone_is_refused_with_what_to_do_if_that_is_lost_for_good(
    source: Node | None, step: str
) -> None:
    text = refusal(source=source, target=Node("node2", replicas=(OUTDATED,)), loss=GO)
    assert f"{step}, then run `roundsman instance failover web1 --to node2 --ignore-consistency`" in text


@pytest.mark.parametrize(
    "replica",
    [*map(worth, ["Outdated", "Consistent", "Inconsistent"]), dataclasses.replace(ALONE, disk="Inconsistent")],
)
def test_the_last_resort_is_offered_only_for_a_replica_that_is_whole_and_not_connected(replica: Replica) -> None:
    for source in (None, SILENT):
        text = refusal(source=source, target=dataclasses.replace(TARGET, replicas=(replica,)))
        assert "cannot be started" in text
        assert "--ignore-consistency" not in text


def test_a_replica_that_drbd_promotes_by_itself_and_one_that_is_down_are_not_forced() -> None:
    for target in (Node("node2", replicas=(ALONE,)), Node("node2", replicas=(OUTDATED, DOWN))):
        assert failovers.forced_text(dataclasses.replace(ASKED, **{**LOST, "target": target})) == ""


@pytest.mark.parametrize(
    ("target", "text"),
    [
        (Node("node2", answers=False, why="timed out", replicas=None), "node2 does not answer (timed out)"),
        (
            Node("node2", why="its hypervisor does not answer (libvirtd is down)", replicas=None),
            "the disks of web1 on node2 cannot be used: its hypervisor does not answer (libvirtd is down)",
        ),
        (dataclasses.replace(TARGET, guest="running"), "web1 is on node2 already, running"),
        (dataclasses.replace(TARGET, guest="paused"), "web1 is on node2 already, paused"),
    ],
)
@pytest.mark.parametrize(("ignore", "replicated"), [*itertools.product([False, True], repeat=2)])
def test_a_target_that_cannot_run_it_is_refused_in_every_case(
    target: Node, text: str, ignore: bool, replicated: bool
) -> None:
    assert text in refusal(target=target, ignore_consistency=ignore, is_replicated=replicated)


@pytest.mark.parametrize("source", [None, SILENT])
@pytest.mark.parametrize("verdict", possible_loss.Verdict)
def test_of_a_source_that_does_not_answer_the_targets_answer_counts_once_it_is_off(
    source: Node | None, verdict: possible_loss.Verdict
) -> None:
    answer = possible_loss.Answer(verdict, 12.5, "it may lack some", "a person", 5.0, 17.5)
    target = dataclasses.replace(TARGET, replicas=(ALONE,))
    silent = dataclasses.replace(ASKED, source=source, target=target, loss=answer)
    text = "" if verdict is possible_loss.Verdict.GO else "it may lack some; what would unblock it: a person"
    before = text if verdict is possible_loss.Verdict.REFUSE else ""
    assert (failovers.objection(silent), bool(failovers.waits(silent))) == (before, bool(before))
    off = dataclasses.replace(silent, is_off=True)
    waits = {"reason": "it may lack some", "unblock": "a person"} if text else {}
    assert (failovers.objection(off), failovers.waits(off)) == (text, waits)
    assert failovers.may_be_alone(off)
    by_person = dataclasses.replace(off, ignore_consistency=True)
    assert (failovers.objection(by_person), failovers.waits(by_person)) == ("", {})
    stated = {"seconds": 12.5, "last_in_sync": 5.0, "ignored": bool(text)}
    assert failovers.stated_loss(by_person) == stated
    assert failovers.stated_loss(dataclasses.replace(off, is_stopped=True)) == {}
    told = failovers.announced_text(by_person)
    if text:
        assert told == (
            "web1 fails over to node2 with ignore_consistency: it may lack some; possible loss: writes of the last 13 s"
        )
    else:
        assert told == (
            "web1 fails over to node2, whose replica was last known to be in sync at 1970-01-01 00:00:05 UTC; "
            "possible loss: writes of the last 13 s"
        )


def test_a_target_that_was_not_asked_is_no_target() -> None:
    target = dataclasses.replace(TARGET, replicas=(ALONE,))
    assert "node2 was not asked what may be lost: retry" in refusal(source=None, target=target)
    full = dataclasses.replace(TARGET, answers=False, why="timed out")
    answer = possible_loss.Answer(possible_loss.Verdict.ASK, 12.5, "it may lack some", "a person")
    silent = dataclasses.replace(ASKED, source=None, target=full, loss=answer, is_off=True)
    assert failovers.waits(silent) == {}, "no number lifts that"


def test_a_source_that_goes_silent_after_the_stop_is_no_dead_one() -> None:
    silent: dict[str, Any] = {"source": SILENT, "is_stopped": True, "loss": GO}
    assert "node1 does not answer since web1 was stopped there (timed out)" in refusal(**silent)
    assert refusal(**silent, ignore_consistency=True) == ""


def test_a_source_that_answers_and_whose_disks_cannot_be_read_is_not_in_sync() -> None:
    broken = Node("node1", why="lvs hangs", replicas=None)
    assert "the disks of web1 on node1 cannot be read (lvs hangs)" in refusal(source=broken)


def test_without_replicas_only_the_target_is_judged() -> None:
    assert refusal(is_replicated=False, source=None, target=Node("node2")) == ""
    assert not failovers.may_be_alone(dataclasses.replace(ASKED, is_replicated=False, source=None))


DISK = {"text": "Primary, Connected", "synced": True, "disk": "UpToDate", "connected": True}


def test_what_a_node_has_seen_is_read_and_what_is_no_number_counts_for_nothing() -> None:
    seen = {"192.0.2.1": 3.5, "192.0.2.2": "soon", "192.0.2.3": 10**400}
    told = {**DISK, "seen": seen, "generation": {"identifiers": ["11", "20", "30"]}}
    node = failovers.node("n", "web1", disks={"disks": [told], "uptime": 99})
    (replica,) = node.replicas or ()
    assert (node.uptime, replica.seen["192.0.2.1"], replica.generations) == (99.0, 3.5, (0x10, 0x20, 0x30))
    assert math.isnan(replica.seen["192.0.2.2"])
    assert math.isnan(replica.seen["192.0.2.3"]), "no float is so large: an answer of a node ended the play"
    assert math.isnan(failovers.node("n", "web1", disks={"disks": [told], "uptime": 10**400}).uptime)
    for odd in ({"seen": [], "generation": {"identifiers": ["x"]}}, {"seen": None, "generation": None}):
        (replica,) = failovers.node("n", "web1", disks={"disks": [{**DISK, **odd}], "uptime": True}).replicas or ()
        assert (replica.seen, replica.generations) == ({}, ())


@pytest.mark.parametrize(
    ("guests", "disks", "node"),
    [
        (
            {"states": {}},
            {"disks": [DISK]},
            Node("n", replicas=(Replica("Primary, Connected", is_synced=True, disk="UpToDate", is_connected=True),)),
        ),
        ({"states": {"web1": "paused"}}, {"skipped": True}, Node("n", guest="paused")),
        (
            {"unreachable": True, "msg": "timed out"},
            {"disks": [DISK]},
            Node("n", answers=False, why="timed out", replicas=None),
        ),
        (None, {"unreachable": True}, Node("n", answers=False, why="no answer", replicas=None)),
        ({"states": {}}, {"failed": False, "msg": "lvs hangs"}, Node("n", why="lvs hangs", replicas=None)),
        (
            {"msg": "libvirtd is down"},
            {"disks": [DISK]},
            Node("n", why="its hypervisor does not answer (libvirtd is down)", replicas=None),
        ),
    ],
)
def test_what_modules_answer_is_read(guests: dict[str, Any] | None, disks: dict[str, Any], node: Node) -> None:
    found = failovers.node("n", "web1", guests=guests, disks=disks)
    assert dataclasses.replace(found, uptime=0.0) == node


@pytest.mark.parametrize(
    ("guests", "disks"),
    [
        ({"states": {"web1": "\x1b[2J"}}, {"disks": []}),
        ({"states": {}}, {"disks": [{**DISK, "text": "\x1b[2J", "disk": "Outdated"}]}),
        ({"states": {}}, {"failed": True, "msg": "\x1b[2J"}),
        ({"msg": "\x1b[2J"}, {"disks": []}),
        ({"unreachable": True, "msg": "\x1b[2J"}, {"disks": []}),
    ],
)
def test_no_text_of_a_node_comes_into_an_objection_as_it_is(guests: dict[str, Any], disks: dict[str, Any]) -> None:
    target = failovers.node("node2", "web1", guests=guests, disks=disks, escape=lambda text: ascii(text)[1:-1])
    assert "\\x1b[2J" in failovers.objection(dataclasses.replace(ASKED, target=target, source=None))


def test_where_both_nodes_answer_and_are_not_connected_the_link_is_the_first_remedy() -> None:
    link, repair = "restore the replication link between node1 and node2", "`roundsman instance repair-disks web1`"
    source = dataclasses.replace(SOURCE, replicas=(ALONE, ALONE))
    outdated = dataclasses.replace(worth("Outdated"), is_connected=False)
    for replica in (ALONE, outdated):
        text = refusal(source=source, target=dataclasses.replace(TARGET, replicas=(replica, replica)))
        assert text.index(link) < text.index(repair)
    for pair in ((source, (DOWN, DOWN)), (SOURCE, (worth("Inconsistent"), GOOD)), (SILENT, (outdated, outdated))):
        assert link not in refusal(source=pair[0], target=dataclasses.replace(TARGET, replicas=pair[1]), loss=GO)


@pytest.mark.parametrize(
    ("peer", "replicas", "is_named"),
    [
        ("node3", (DOWN, DOWN), True),
        ("node3", None, True),
        # The target's disks cannot be read: the source may be in sync with just that one.
        ("node2", None, False),
        ("", None, False),
    ],
)
def test_where_the_source_is_in_sync_with_another_node_the_start_is_named(
    peer: str, replicas: tuple[Replica, ...] | None, *, is_named: bool
) -> None:
    source = dataclasses.replace(SOURCE, replicas=(dataclasses.replace(GOOD, peer=peer),) * 2)
    apart = tuple(dataclasses.replace(ALONE, disk="Outdated") for _ in replicas) if replicas else replicas
    text = refusal(source=source, target=dataclasses.replace(TARGET, replicas=apart, why="stands alone"))
    assert ("start web1 with `roundsman instance start web1`" in text) is is_named
    assert "`roundsman instance repair-disks web1`" in text
