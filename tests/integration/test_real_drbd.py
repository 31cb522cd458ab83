"""DRBD 8.4 on two real nodes: pairs are made by the module, broken in every way of the table, and repaired by hand.

What is on the disks is compared before and after. The tests use one pair, each leaves it healthy.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

import pytest

from tests.testbed import wires

from . import drbd_pairs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.testbed import beds

pytestmark = [pytest.mark.slow, pytest.mark.guests, pytest.mark.timeout(1500)]
HEALTHY = ["cs:Connected ro:Primary/Secondary ds:UpToDate/UpToDate"] * 2
FIRST, SECOND = (f"{drbd_pairs.NAME}-disk{number}" for number in range(2))
LIMIT = 240.0


@pytest.fixture(scope="module")
def pair(guests: beds.Bed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[drbd_pairs.Pair]:
    """The disks of an instance on both guests of a bed, up to date, active on node1; afterwards they are gone."""
    made = drbd_pairs.Pair(guests, tmp_path_factory.mktemp("plays"))
    made.configure()
    try:
        told = made.disks(*drbd_pairs.MADE)
        assert [one.get("msg", "") for one in told] == [""] * 4
        assert [one["changed"] for one in told] == [True, True, True, False]
        assert told[3]["synced"]
        assert told[3]["devices"] == ["/dev/drbd0", "/dev/drbd1"]
        yield made
    finally:
        made.disks(*drbd_pairs.GONE)
        made.forget()


@pytest.fixture
def sums(pair: drbd_pairs.Pair) -> Iterator[Callable[[], list[str]]]:
    """What is on the disks; after the test both copies are equal to what it last was, past DRBD too."""
    known: list[list[str]] = []

    def now() -> list[str]:
        known.append(pair.sums("node1"))
        return known[-1]

    pair.write("node1", at=0)
    now()
    yield now
    until(lambda: pair.words("node1") == HEALTHY, "both disks are healthy again")
    assert pair.sums("node1") == pair.copies("node1") == pair.copies("node2") == known[-1]


def until(is_so: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + LIMIT
    while not is_so():
        assert time.monotonic() < end, f"not within {LIMIT:g} s: {what}"
        time.sleep(1)


def repaired(pair: drbd_pairs.Pair, *verdicts: str, options: tuple[str, ...] = ()) -> None:
    done = pair.repair(*options)
    for verdict in verdicts:
        assert verdict in done.stdout
    assert done.returncode == 0, done.stdout + done.stderr


def refused(pair: drbd_pairs.Pair, verdict: str, *options: str) -> None:
    before = [pair.words(node) for node in ("node1", "node2")]
    done = pair.repair(*options)
    assert done.returncode != 0
    assert verdict in re.sub(r"\s+", " ", done.stdout + done.stderr)
    assert [pair.words(node) for node in ("node1", "node2")] == before


def test_a_second_run_changes_nothing(pair: drbd_pairs.Pair, sums: Callable[[], list[str]]) -> None:
    told = pair.disks(*drbd_pairs.MADE[:3], {"node": "node2", "state": "standby"})
    assert [(one["changed"], one["synced"], one["progress"]) for one in told] == [(False, True, 100.0)] * 4
    assert pair.repair().returncode == 0


def test_both_nodes_are_primary_for_a_migration_only(pair: drbd_pairs.Pair, sums: Callable[[], list[str]]) -> None:
    before = sums()
    refusal, *told = pair.disks(
        {"node": "node2", "state": "active"},
        {"node": "node1", "state": "shared"},
        {"node": "node2", "state": "shared"},
        {"node": "node1", "state": "info"},
        {"node": "node1", "state": "standby"},
        {"node": "node2", "state": "active"},
    )
    assert "Multiple primaries not allowed" in refusal["msg"]
    assert [one.get("msg", "") for one in told] == [""] * 5
    assert told[2]["disks"][0]["text"] == "Primary, Connected, UpToDate/UpToDate"
    assert pair.sums("node2") == before
    back = pair.disks(
        {"node": "node2", "state": "shared"},
        {"node": "node1", "state": "shared"},
        {"node": "node2", "state": "standby"},
        {"node": "node1", "state": "active"},
        {"node": "node1", "state": "absent"},
    )
    assert [one.get("msg", "") for one in back[:4]] == [""] * 4
    assert "is primary on this node, where its instance may run" in back[4]["msg"]
    assert "allow-two-primaries" not in pair.on("node1", "drbdsetup show") + pair.on("node2", "drbdsetup show")


def test_a_cable_that_is_cut_is_refused_and_mends_itself_when_it_is_back(
    pair: drbd_pairs.Pair, sums: Callable[[], list[str]]
) -> None:
    wires.cut(pair.bed, "node2", "secondary", is_cut=True)
    try:
        until(lambda: "cs:WFConnection" in pair.words("node1")[1], "the primary has noticed")
        until(lambda: "cs:WFConnection" in pair.words("node2")[1], "the secondary has noticed")
        pair.write("node1", at=1)
        refused(pair, f"{FIRST}: refused, its nodes do not reach each other; needed: the network")
    finally:
        wires.cut(pair.bed, "node2", "secondary", is_cut=False)
    sums()


def test_what_the_secondary_has_lost_is_attached_again_and_brought_up(
    pair: drbd_pairs.Pair, sums: Callable[[], list[str]]
) -> None:
    pair.on("node2", f"drbdadm detach {FIRST} && drbdadm down {SECOND}")
    pair.write("node1", at=2)
    repaired(
        pair,
        f"{FIRST}: repair, the secondary has lost its disk, attach the disk again on the secondary",
        f"{SECOND}: repair, the resource is down on the secondary, bring the resource up on the secondary",
    )
    sums()


def test_an_instance_gets_its_own_disk_back_and_a_paused_resync_goes_on(
    pair: drbd_pairs.Pair, sums: Callable[[], list[str]]
) -> None:
    pair.on("node2", f"drbdadm pause-sync {SECOND} && drbdadm invalidate {SECOND}")
    (told,) = pair.disks({"node": "node2", "state": "info", "wait_synced": 60})
    assert "has its resync paused" in told["msg"]
    pair.on("node1", f"drbdadm detach {FIRST}")
    pair.write("node1", at=3)
    repaired(
        pair,
        f"{FIRST}: repair, the primary has lost its disk, and works on the secondary's, attach the disk again",
        f"{SECOND}: repair, its resync is paused, resume the resync on the secondary",
    )
    sums()


def part(pair: drbd_pairs.Pair) -> None:
    """Both nodes write while they are apart, and find out when they connect."""
    pair.on("node2", f"drbdadm disconnect {FIRST}")
    pair.on("node1", f"drbdadm disconnect {FIRST} || true")
    pair.write("node1", at=5)
    script = f"drbdadm primary {FIRST} && dd if=/dev/urandom of=/dev/drbd0 bs=4k count=9 seek=77 oflag=direct"
    pair.on("node2", f"{script} 2>/dev/null && drbdadm secondary {FIRST} && drbdadm connect {FIRST}")
    pair.on("node1", f"drbdadm connect {FIRST}")
    until(lambda: all("cs:StandAlone" in pair.words(node)[0] for node in ("node1", "node2")), "split brain")


def test_after_split_brain_nothing_is_discarded_until_a_person_names_the_node_and_a_snapshot_keeps_it(
    pair: drbd_pairs.Pair, sums: Callable[[], list[str]]
) -> None:
    part(pair)
    before, lost = sums(), pair.copies("node2")
    for role in ("secondary", "primary"):
        pair.on("node1", f"drbdadm {role} {FIRST}")
        refused(pair, f"{FIRST}: refused, split brain: both replicas were written since they were last connected")
    assert pair.copies("node2") == lost
    named = ("-e", "repair_discard=node2")
    refused(pair, f"{FIRST}: refused, split brain: the primary is DRBD's Primary", "-e", "repair_discard=node1")
    verdict = f"{FIRST}: repair, split brain: a person gives up what the secondary wrote"
    promised = pair.repair("--check", *named)
    assert promised.returncode == 0, promised.stdout
    assert verdict in promised.stdout
    assert all("cs:StandAlone" in pair.words(node)[0] for node in ("node1", "node2"))
    repaired(pair, verdict, options=named)
    assert pair.sums("node1") == before
    snapshot = f"roundsman/{drbd_pairs.UUID}.disk0.discarded1"
    assert pair.on("node2", f"dd if=/dev/{snapshot} bs=1M 2>/dev/null | sha256sum").split()[0] == lost[0]
    pair.on("node2", f"lvremove --yes {snapshot}")


def test_an_outdated_replica_is_promoted_only_by_force_and_an_inconsistent_one_never(
    pair: drbd_pairs.Pair, sums: Callable[[], list[str]]
) -> None:
    wires.cut(pair.bed, "node2", "secondary", is_cut=True)
    try:
        until(lambda: all("cs:WFConnection" in words for words in pair.words("node2")), "the secondary has noticed")
        pair.on("node2", f"drbdadm outdate {FIRST} && drbdadm outdate {SECOND}")
        forced = {"node": "node2", "state": "active", "alone": True, "force": True}
        (told,) = pair.disks(forced, check=True)
        assert "primary by force, because it is Outdated and its peer is gone" in told["steps"][0]
        (alone,) = pair.disks({**forced, "force": False})
        assert "Need access to UpToDate data" in alone["msg"]
        (told,) = pair.disks(forced)
        assert [disk["text"] for disk in told["disks"]] == ["Primary, Connecting, UpToDate/DUnknown"] * 2
        pair.on("node2", f"drbdadm secondary {FIRST} && drbdadm secondary {SECOND}")
        pair.on("node2", f"drbdadm disconnect {FIRST} && drbdadm invalidate {FIRST}")
        (told,) = pair.disks(forced)
        assert "Need access to UpToDate data" in told["msg"]
        pair.on("node2", f"drbdadm secondary {SECOND}; drbdadm disconnect {SECOND} && drbdadm invalidate {SECOND}")
    finally:
        wires.cut(pair.bed, "node2", "secondary", is_cut=False)
    # Both replicas of node2 are inconsistent now: nothing of them counts.
    pair.on("node2", f"drbdadm connect {FIRST}; drbdadm connect {SECOND}", check=False)
    until(lambda: pair.words("node1") == HEALTHY or pair.repair().returncode == 0, "node1's data are copied anew")
    sums()


def test_the_secondary_gets_other_disks_while_the_primary_is_written(
    pair: drbd_pairs.Pair, sums: Callable[[], list[str]]
) -> None:
    volume = f"roundsman/{drbd_pairs.UUID}.meta0"
    pair.on("node2", f"drbdadm down {FIRST} && dd if=/dev/zero of=/dev/{volume} bs=1M 2>/dev/null; sync", check=False)
    done = pair.repair()
    assert done.returncode != 0
    said = re.sub(r"\s+", " ", done.stdout + done.stderr)
    assert f"roundsman instance replace-disks {drbd_pairs.NAME}" in said
    pair.write("node1", at=6)
    told = pair.disks(
        # No such node: the primary goes on alone, and is then given the new copy as its peer.
        {"node": "node1", "state": "active", "peer": "node3", "address": "198.51.100.3"},
        {"node": "node2", "state": "absent", "last": True},
        {"node": "node2", "state": "present", "peer": "node1"},
        {"node": "node1", "state": "active", "peer": "node2"},
        {"node": "node1", "state": "info", "wait_synced": 300},
    )
    assert [one.get("msg", "") for one in told] == [""] * 5
    assert told[0]["steps"][0] == f"disconnect {FIRST}"
    assert told[0]["disks"][0]["text"].startswith("Primary, Connecting")
    assert told[4]["synced"]
    sums()


def test_disks_that_are_absent_leave_nothing_and_are_made_anew(pair: drbd_pairs.Pair) -> None:
    told = pair.disks(*drbd_pairs.GONE, drbd_pairs.GONE[-1])
    assert [(one.get("msg", ""), one["present"]) for one in told[1:]] == [("", False)] * 3
    assert [one["changed"] for one in told] == [True, True, True, False]
    for node in ("node1", "node2"):
        assert pair.on(node, "ls /etc/drbd.d | grep roundsman; lvs --noheadings", check=False) == ""
    told = pair.disks(*drbd_pairs.MADE)
    assert [one.get("msg", "") for one in told] == [""] * 4
    assert told[3]["synced"]
