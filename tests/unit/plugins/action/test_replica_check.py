from __future__ import annotations

from typing import Any

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.playbook.play_context import PlayContext
from ansible.playbook.task import Task
from ansible.plugins.connection.local import Connection
from ansible.template import Templar
from ansible_collections.roundsman.cluster.plugins.action import replica_check
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks.drbd import Generation
from ansible_collections.roundsman.cluster.plugins.module_utils.storage import drbd_sides

OURS, OLDER = Generation(0x20, bitmap=0x10), Generation(0x10)
DISK = {"disk": "UpToDate", "peer_disk": "", "connected": False, "generation": None, "size": 1, "role": "", "peer": ""}


def node(name: str, peer: str, generation: Generation, **changed: Any) -> dict[str, Any]:
    """A node that is in sync with its peer, by its answer."""
    known = {"text": "Connected, UpToDate/UpToDate", "peer_disk": "UpToDate", "connected": True, "peer": peer}
    told = {**DISK, **known, "generation": drbd_sides.encode_generation(generation), **changed}
    return {"name": name, "disks": {"disks": [told]}}


def objection(*, primary: dict[str, Any], old: dict[str, Any], **flags: bool) -> str:
    """What the action objects to when a play runs it."""
    return str(check(primary=primary, old=old, **flags)["objection"])


def check(*, primary: dict[str, Any], old: dict[str, Any], **flags: Any) -> dict[str, Any]:
    """What the action returns when a play runs it."""
    task = Task()
    task.args = {"instance": {"name": "web1"}, "primary": primary, "old": old, **flags}
    loader, context = DataLoader(), PlayContext()
    module = replica_check.ActionModule(task, Connection(context), context, loader, Templar(loader), None)
    result = module.run(task_vars={})
    assert not result.get("failed"), result
    assert result["changed"] is False
    return dict(result)


def test_the_texts_of_a_node_are_made_printable() -> None:
    told = replica_check._node({"name": "node2", "disks": {"disks": [{**DISK, "text": "down\x1b[2J"}]}})
    assert told.replicas is not None
    assert told.replicas[0].text == "down\\x1b[2J"
    silent = replica_check._node({"name": "node2", "disks": {"failed": True, "msg": "\x1b[2J"}})
    assert silent.why == "\\x1b[2J"


def test_a_number_that_is_too_large_to_be_one_is_an_answer_that_cannot_be_understood() -> None:
    seen = {"192.0.2.2": 10**400}
    told = replica_check._node(
        {"name": "node2", "disks": {"disks": [{**DISK, "text": "", "peer_address": "192.0.2.2", "seen": seen}]}}
    )
    assert (told.replicas, told.why) == (None, "its answer cannot be understood")


@pytest.mark.parametrize(
    ("seen", "alone"),
    [
        ({"192.0.2.2": 312.4, "192.0.2.9": 1.0}, 312.4),
        ({"192.0.2.9": 1.0}, None),
        ({"192.0.2.2": "now"}, None),
        ({"192.0.2.2": float("nan")}, None),
        ({"192.0.2.2": 1e12}, None),
        ({}, None),
        (None, None),
    ],
)
def test_since_when_a_replica_is_alone_is_what_its_node_saw_of_the_address_of_its_peer(
    seen: Any, alone: float | None
) -> None:
    disk = {**DISK, "text": "up", "peer_address": "192.0.2.2", "seen": seen, "out_of_sync": 8}
    told = replica_check._node({"name": "node2", "disks": {"disks": [disk]}})
    assert told.replicas is not None
    assert (told.replicas[0].alone, told.replicas[0].out_of_sync) == (alone, 8)


def test_a_new_secondary_is_judged_by_the_rule_for_new_ones() -> None:
    primary, new = node("node2", "node4", OURS), node("node4", "node2", OURS)
    assert objection(primary=primary, old=new, made=True) == ""
    # This one may be removed: both see an UpToDate peer. It is no replica of the primary's data.
    other = node("node4", "node3", OURS)
    assert objection(primary=primary, old=other) == ""
    assert "not known to be in sync with each other" in objection(primary=primary, old=other, made=True)


@pytest.mark.parametrize("connected", [False, None, "", "true", 1])
def test_a_replica_is_connected_only_where_its_node_says_so(connected: object) -> None:
    primary = node("node2", "node4", OURS)
    new = node("node4", "node2", OURS, connected=connected)
    assert "not known to be in sync with each other" in objection(primary=primary, old=new, made=True)


def test_a_replica_that_was_left_behind_is_judged_by_the_rule_for_those() -> None:
    primary = node("node2", "node3", OURS)
    assert objection(primary=primary, old=node("node4", "node2", OLDER, connected=False), left_behind=True) == ""
    connected = objection(primary=primary, old=node("node4", "node2", OURS), left_behind=True)
    assert "node2 replicates web1 to node4" in connected
    assert objection(primary=primary, old=node("node4", "node2", OURS)) == ""


def test_an_old_secondary_that_was_not_contacted_is_no_reason_against_a_removal() -> None:
    primary = node("node2", "node3", OURS)
    assert objection(primary=primary, old={"name": "node4"}) == ""
    assert "no answer" in objection(primary=primary, old={"name": "node4"}, made=True)
    assert "no answer" in objection(primary=primary, old={"name": "node4"}, left_behind=True)


def test_a_replica_that_is_not_newer_has_its_generation_for_the_record_and_is_known_by_it_later() -> None:
    forgot, alone = Generation(0x80), {"connected": False, "peer_disk": "DUnknown"}
    primary, old = node("node2", "node4", OURS), node("node3", "node2", OLDER, **alone)
    assert check(primary=primary, old=old)["generations"] == ["0000000000000010"]
    later = node("node2", "node4", forgot)
    unknown = check(primary=later, old=old)
    assert "it is kept" in unknown["objection"]
    assert unknown["generations"] == []
    known = check(primary=later, old=old, recorded=["0000000000000010"])
    assert (known["objection"], known["generations"]) == ("", ["0000000000000010"])
    silent = check(primary=later, old={"name": "node3"}, recorded=["0000000000000010"])
    assert (silent["objection"], silent["generations"]) == ("", ["0000000000000010"])
    for flag in ("starts", "made", "left_behind"):
        result = check(primary=primary, old=old, recorded=["0000000000000010"], **{flag: True})
        assert result["generations"] == []
    assert (
        "may hold writes" in check(primary=later, old=old, recorded=["0000000000000010"], left_behind=True)["objection"]
    )


def test_a_start_is_judged_by_the_rule_for_starts() -> None:
    behind = node("node2", "node3", OLDER, connected=False, text="StandAlone", peer_disk="DUnknown")
    newer = node("node3", "node2", OURS, connected=False, text="StandAlone", peer_disk="DUnknown")
    assert objection(primary=newer, old=behind, starts=True) == ""
    assert "web1" in objection(primary=behind, old=newer, starts=True)
    assert objection(primary=newer, old={"name": "node2"}, starts=True) == ""
    assert objection(primary=behind, old=behind | {"name": "node3"}, starts=True) == "", "nothing is removed"
    writing = node("node3", "node2", OURS, role="Primary")
    assert "open for writing" in objection(primary=node("node2", "node3", OURS), old=writing, starts=True)


def test_a_node_that_may_have_run_the_instance_has_to_answer_before_it_is_started() -> None:
    primary = node("node1", "node2", OURS, connected=False)
    for failure in ("failed", "unreachable"):
        silent = {"name": "node2", "disks": {failure: True, "msg": "the kernel has no DRBD"}}
        text = objection(primary=primary, old=silent, starts=True, may_have_run=True)
        assert "cannot be compared with the one on node1 (the kernel has no DRBD)" in text


@pytest.mark.parametrize(
    ("disks", "is_refused"),
    [
        ({}, False),
        ({"unreachable": True, "msg": "timed out"}, False),
        ({"failed": True, "msg": "the kernel has no DRBD"}, True),
        ({"changed": False}, True),
        ({"disks": "none"}, True),
        ({"disks": [{"text": "?"}]}, True),
        ({"disks": []}, True),
    ],
)
def test_only_a_node_that_does_not_answer_is_started_without_being_compared(
    disks: dict[str, object], *, is_refused: bool
) -> None:
    found = objection(
        primary=node("node1", "node2", OURS, connected=False), old={"name": "node2", "disks": disks}, starts=True
    )
    assert ("node2 answers, and what its replica of web1 has cannot be read" in found) is is_refused
    assert bool(found) is is_refused
