from __future__ import annotations

from ansible_collections.roundsman.cluster.daemon.locks import holders, listing, table
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster.locks import Mode


def test_each_lock_says_who_holds_it_and_who_waits_for_whom() -> None:
    one = table.Table()
    one.request(
        holders.Owner("job 1"), {"instance/i": Mode.EXCLUSIVE, "node/n": Mode.SHARED}, purpose="migrate", now=1.0
    )
    one.request(holders.Owner("job 2"), {"node/n": Mode.EXCLUSIVE}, purpose="power", now=2.0, priority=-10)
    one.request(holders.Owner("job 3"), {"node/m": Mode.SHARED, "node/n": Mode.SHARED}, purpose="failover", now=3.0)
    found = listing.rows(one, name_of=lambda uuid: {"n": "node3", "i": "instance1"}.get(uuid, uuid))
    holder = {"owner": "job 1", "mode": "exclusive", "purpose": "migrate", "since": 1.0}
    second = {"owner": "job 2", "mode": "exclusive", "purpose": "power", "since": 2.0, "priority": -10}
    third = {"owner": "job 3", "mode": "shared", "purpose": "failover", "since": 3.0, "priority": 0}
    assert found == [
        {"lock": "instance/i", "name": "instance/instance1", "owners": [holder], "waiting": []},
        {"lock": "node/m", "name": "node/m", "owners": [], "waiting": [{**third, "behind": ["job 2"]}]},
        {
            "lock": "node/n",
            "name": "node/node3",
            "owners": [{**holder, "mode": "shared"}],
            "waiting": [{**second, "behind": ["job 1"]}, {**third, "behind": ["job 2"]}],
        },
    ]
