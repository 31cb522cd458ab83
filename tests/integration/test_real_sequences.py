"""DRBD 8.4 on two real machines answers the sequences as it did when they were recorded.

`ROUNDSMAN_RECORD_DRBD=1` records all of them anew, which takes half an hour: `git diff` shows what changed. Without it
the guests are asked again for those that the rules about failover and repairs stand on.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks.drbd_pairs import Action
from ansible_collections.roundsman.cluster.plugins.module_utils.storage import drbd_repairing, templates

from tests.drbd_sequences import on_guests, playing, sequences

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.testbed import beds

pytestmark = [pytest.mark.slow, pytest.mark.guests, pytest.mark.timeout(900)]
RECORDS = os.environ.get("ROUNDSMAN_RECORD_DRBD") == "1"
RELIED_ON = (
    "a stale secondary may be promoted: nothing but the generations says that it is stale",
    "a secondary that is outdated is not promoted, before and after a boot, until a resync",
    "a secondary is outdated only while it is apart, and a primary never",
    "split brain: the secondary's writes are discarded",
    "a primary loses its power, and its secondary is promoted",
    "a resync is interrupted by a cut, and goes on",
    "the primary's disk is detached, written on the peer, and the link is cut: the stale disk is promoted",
)


@pytest.fixture(scope="module")
def pair(guests: beds.Bed) -> Iterator[on_guests.Guests]:
    """A pair of the sequences on both guests of a bed; afterwards it is gone."""
    found = on_guests.Guests(guests)
    try:
        yield found
    finally:
        found.remove()
        found.close()


@pytest.mark.parametrize("name", sequences.SEQUENCES if RECORDS else RELIED_ON)
def test_the_guests_answer_as_recorded(pair: on_guests.Guests, name: str) -> None:
    pair.reset()
    seen = json.loads(json.dumps(playing.Story(pair).play(sequences.SEQUENCES[name])))
    if RECORDS:
        playing.record({**playing.recorded(), name: seen})
    assert seen == playing.recorded()[name], "\n".join(pair.log)


def test_what_a_repair_discards_is_kept_in_a_snapshot_that_does_not_overflow(pair: on_guests.Guests) -> None:
    pair.reset()
    playing.Story(pair).play(sequences.SPLIT)
    for node, action in (("node2", Action.DISCARD), ("node1", Action.CONNECT)):
        programs = on_guests.Programs(pair, node)
        templates.done(drbd_repairing.Repairs(programs, on_guests.Node(programs)).steps(action, playing.RESOURCE))
    seen = pair.settled()
    assert [seen[node].writes for node in playing.NODES] == [(1,), (1,)]
    overwrite = ["dd", "if=/dev/urandom", f"of={on_guests.DEVICE}", "bs=1M", "oflag=direct", "seek=1"]
    pair.ask("node1", overwrite)
    snapshot = f"{on_guests.DATA}.discarded1"
    ((code, kept, _), (_, used, _), *_) = pair.ask(
        "node2",
        ["writes", f"/dev/{snapshot}"],
        ["lvs", "--noheadings", "-o", "snap_percent", snapshot],
        ["lvremove", "--yes", snapshot],
    )
    assert (code, kept) == (0, [2])
    assert 50 < float(used) < 100
