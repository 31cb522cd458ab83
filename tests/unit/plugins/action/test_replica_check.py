from __future__ import annotations

from ansible_collections.roundsman.cluster.plugins.action import replica_check

DISK = {"disk": "UpToDate", "peer_disk": "", "connected": False, "generation": None, "size": 1, "role": "", "peer": ""}


def test_the_texts_of_a_node_are_made_printable() -> None:
    told = replica_check._node({"name": "node2", "disks": {"disks": [{**DISK, "text": "down\x1b[2J"}]}})
    assert told.replicas is not None
    assert told.replicas[0].text == "down\\x1b[2J"
    silent = replica_check._node({"name": "node2", "disks": {"failed": True, "msg": "\x1b[2J"}})
    assert silent.why == "\\x1b[2J"
