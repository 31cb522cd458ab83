"""What a person is told of a split brain, by the newest reports of both nodes."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks import replicas
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks.drbd import Role
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks.replicas import Moment
from ansible_collections.roundsman.cluster.plugins.plugin_utils import split_brains

from tests.unit.plugins.plugin_utils.test_replica_evidence import CLUSTER, FIRST, INSTANCE, SECOND, fact


def reported(*, at: float, joined: bool = False, **changed: Any) -> replicas.NodeTrack:
    """A node whose disks were in sync at 100."""
    track: replicas.NodeTrack | None = None
    for moment, is_joined, changes in ((100.0, True, {}), (at, joined, changed)):
        facts = [dataclasses.replace(fact(name, joined=is_joined), **changes) for name in (FIRST, SECOND)]
        track = replicas.followed(track, replicas.NodeFacts("", tuple(facts)), at=Moment(moment))
    assert track is not None
    return track


def text(**tracks: replicas.NodeTrack) -> str:
    return split_brains.text(INSTANCE, split_brains.sides(CLUSTER, INSTANCE, tracks))


def test_each_side_says_since_when_and_how_many_blocks_it_wrote_with_the_command_that_discards_them() -> None:
    first = reported(at=160.0, bitmap=16, out_of_sync=202)
    second = reported(at=220.0, bitmap=16, role=Role.SECONDARY)
    since = "since 1970-01-01 00:0"
    discard = "(`roundsman instance start inst1 --discard"
    assert text(n2=first, n3=second) == (
        "both replicas of inst1 were written since they disconnected: "
        f"node2 wrote 101 blocks of 4 KiB {since}2:40 UTC {discard} node2` discards that), "
        f"and node3 wrote {since}3:40 UTC {discard} node3` discards that)"
    )


@pytest.mark.parametrize("second", [{"bitmap": 0}, {"bitmap": 16, "joined": True}, None])
def test_where_not_both_wrote_alone_there_is_nothing_to_choose(second: dict[str, Any] | None) -> None:
    other = {} if second is None else {"n3": reported(at=220.0, **second)}
    assert text(n2=reported(at=160.0, bitmap=16), **other) == ""


def test_what_a_node_has_noted_is_in_its_report_and_a_wrong_amount_is_unknown() -> None:
    known = dataclasses.replace(fact(FIRST, joined=False), out_of_sync=202)
    assert replicas.encode(replicas.NodeFacts("", (known,)))["replicas"] == [
        {**replicas._encoded(fact(FIRST, joined=False)), "out_of_sync": 202}
    ]
