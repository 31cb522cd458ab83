from __future__ import annotations

from pathlib import Path

from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import tree

NAMES = {
    "config": "var/lib/roundsman/config.data",
    "config_lock": "var/lib/roundsman/config.lock",
    "locks": "var/lib/roundsman/locks.data",
    "queue": "var/lib/roundsman/queue",
    "rounds": "var/lib/roundsman/rounds",
    "reports": "var/lib/roundsman/reports",
    "rejected": "var/lib/roundsman/reports/rejected",
    "spool": "var/lib/roundsman/spool",
    "hmac_key": "var/lib/roundsman/hmac.key",
    "ssh_key": "var/lib/roundsman/.ssh/id_ed25519",
    "socket": "run/roundsman/socket/roundsmand.sock",
    "rapi_socket": "run/roundsman/rapi/roundsmand.sock",
    "pid_file": "run/roundsman/roundsmand.pid",
    "livelocks": "run/roundsman/livelocks",
    "bmc_credentials": "etc/roundsman/bmc.json",
    "daemon_settings": "etc/roundsman/roundsmand.json",
    "allocators": "etc/roundsman/iallocators",
    "os_playbooks": "etc/roundsman/os",
    "log": "var/log/roundsman",
}


def test_a_lab_has_the_same_tree_as_a_machine() -> None:
    for root in (Path("/"), Path("/lab/node1")):
        assert {name: str(getattr(tree.Tree(root), name)) for name in NAMES} == {
            name: str(root / path) for name, path in NAMES.items()
        }
