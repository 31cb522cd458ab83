"""What the agent of a real node sees of its DRBD peer; the module on that node asks it."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.monitoring import agent_settings
from ansible_collections.roundsman.cluster.plugins.module_utils.storage import sights
from ansible_collections.roundsman.cluster.plugins.plugin_utils import agent_archive

from . import drbd_pairs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.testbed import beds

pytestmark = [pytest.mark.slow, pytest.mark.guests, pytest.mark.timeout(1500)]
SETTINGS = {
    "bind": ["127.0.0.1"],
    "collectors": dict.fromkeys(agent_settings.DEFAULT_SECONDS, 0),
}
UNIT, ARCHIVE = "sights-of-a-test", "/run/roundsman-agent.pyz"
FIRST, SECOND = (f"{drbd_pairs.NAME}-disk{number}" for number in range(2))
LIMIT = 240.0


@pytest.fixture(scope="module")
def pair(guests: beds.Bed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[drbd_pairs.Pair]:
    """The disks of an instance on both guests, active on node1, and the agent on node2."""
    made = drbd_pairs.Pair(guests, tmp_path_factory.mktemp("plays"))
    made.configure()
    guests.run("node2", f"cat >{ARCHIVE}", given=agent_archive.build())
    guests.run("node2", "cat >/etc/roundsman/agent.json", given=json.dumps(SETTINGS).encode())
    guests.run("node2", f"systemd-run --quiet --unit={UNIT} python3 -I {ARCHIVE}")
    try:
        assert [one.get("msg", "") for one in made.disks(*drbd_pairs.MADE)] == [""] * len(drbd_pairs.MADE)
        yield made
    finally:
        guests.run("node2", f"systemctl stop {UNIT}; rm -f {ARCHIVE} /etc/roundsman/agent.json", check=False)
        made.disks(*drbd_pairs.GONE)
        made.forget()


def until(is_so: Callable[[], Any], what: str) -> Any:
    end = time.monotonic() + LIMIT
    while True:
        if found := is_so():
            return found
        assert time.monotonic() < end, f"not within {LIMIT:g} s: {what}"
        time.sleep(1)


def told(pair: drbd_pairs.Pair) -> list[dict[str, float]]:
    """Of each disk, when node2 last saw its peers in sync, in seconds of its uptime, as the module answers."""
    (answer,) = pair.disks({"node": "node2", "state": "info"})
    assert "msg" not in answer
    return [{address: answer["uptime"] - age for address, age in disk["seen"].items()} for disk in answer["disks"]]


def looked(pair: drbd_pairs.Pair, resource: str = FIRST) -> dict[str, float]:
    """When node2 last saw the peers of a disk, as its agent has written it."""
    text = pair.on("node2", f"cat /{sights.FOLDER}/{sights.FILE}", check=False)
    rows = json.loads(text)["seen"] if text else []
    return {address: at for name, _, address, at in rows if name == resource}


def await_look(pair: drbd_pairs.Pair, peer: str, resource: str = FIRST) -> float:
    """Wait until node2 sees a peer of a disk in sync from now on; when it did."""
    now = uptime(pair)
    until(lambda: looked(pair, resource).get(peer, 0.0) > now, f"{resource} is seen in sync with {peer}")
    return looked(pair, resource)[peer]


def uptime(pair: drbd_pairs.Pair) -> float:
    return float(pair.on("node2", "cut -d' ' -f1 /proc/uptime"))


def done(pair: drbd_pairs.Pair, *steps: dict[str, Any]) -> list[dict[str, Any]]:
    """What the module answers to steps that all succeed."""
    answers = pair.disks(*steps)
    assert [answer.get("msg", "") for answer in answers] == [""] * len(steps)
    return answers


def part(pair: drbd_pairs.Pair, node: str) -> None:
    """Have a node wait for no peer: while it waits for one, DRBD takes another that knows the secret, too."""
    pair.on(node, f"drbdadm disconnect {FIRST} && drbdadm disconnect {SECOND}")


def pause(pair: drbd_pairs.Pair, node: str) -> None:
    """Hold the resync of the first disk of a node, which is not connected yet."""
    pair.on(node, f"drbdadm pause-sync {FIRST}")


def test_a_secondary_sees_its_primary_by_the_address_for_replication(pair: drbd_pairs.Pair) -> None:
    primary = pair.address("node1")
    until(lambda: primary in looked(pair), "the agent has looked")
    before = uptime(pair)
    await_look(pair, primary)
    found = told(pair)
    assert [set(one) for one in found] == [{primary}] * 2
    assert all(before < one[primary] for one in found)
    assert pair.on("node2", f"stat -c '%a %U' /{sights.FOLDER}/{sights.FILE}").split() == ["600", "root"]


def test_a_replica_that_is_made_anew_begins_without_a_past_until_its_resync_is_done(pair: drbd_pairs.Pair) -> None:
    primary = pair.address("node1")
    await_look(pair, primary)
    part(pair, "node1")
    *_, made = done(
        pair,
        {"node": "node2", "state": "absent", "last": True},
        {"node": "node2", "state": "present", "peer": "node1"},
        {"node": "node2", "state": "info"},
    )
    assert [disk["seen"] for disk in made["disks"]] == [{}, {}]
    assert primary in looked(pair), "what was seen of the replica before is still on record"

    pause(pair, "node2")
    done(pair, {"node": "node1", "state": "active", "peer": "node2"})
    until(lambda: "cs:PausedSyncT" in pair.words("node2")[0], "its resync is paused")
    # The other disk shows that the agent has looked meanwhile.
    await_look(pair, primary, SECOND)
    first, second = told(pair)
    assert (first, set(second)) == ({}, {primary})

    pair.on("node2", f"drbdadm resume-sync {FIRST}")
    resumed = uptime(pair)
    await_look(pair, primary)
    assert all(one[primary] > resumed for one in told(pair)[:1])
