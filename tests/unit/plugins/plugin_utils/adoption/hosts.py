"""Hosts as `host_inventory_info` reads them, to be adopted."""

from __future__ import annotations

from typing import Any

from ansible_collections.roundsman.cluster.plugins.plugin_utils.adoption import adopted_hosts


def domain(name: str, number: int, *disks: tuple[str, str], running: bool = True, **more: Any) -> dict[str, Any]:
    """A domain with disks, each as its type and its source."""
    return {
        "name": name,
        "uuid": f"11111111-1111-1111-1111-{number:012}",
        "running": running,
        "autostart": False,
        "persistent": True,
        "xml": f"<domain><name>{name}</name></domain>",
        "memory": 512,
        "vcpus": 2,
        "disks": [{"type": kind, "source": source, "target": "vda"} for kind, source in disks],
        "nics": [{"type": "bridge", "mac": f"52:54:00:00:00:{number:02x}", "link": "br0"}],
        **more,
    }


def resource(name: str, minor: int, *hosts: str, **minors: int) -> dict[str, Any]:
    """A DRBD resource of one volume on hosts `h1`, `h2`, which are 10.0.0.1 and so on."""
    ends = {
        one: {
            "address": f"10.0.0.{one[-1]}",
            "volumes": [
                {
                    "minor": minors.get(one, minor),
                    "device": f"/dev/drbd{minors.get(one, minor)}",
                    "disk": f"/dev/vg/{name}",
                }
            ],
        }
        for one in hosts
    }
    return {"name": name, "hosts": ends}


def host(number: int, *domains: dict[str, Any], resources: tuple[dict[str, Any], ...] = (), **storage: Any) -> Any:
    """Host `node<number>`, which calls itself `h<number>`."""
    told = {
        "hostname": f"h{number}",
        "libvirt": {"memory": 16384, "own_memory": 1024, "cpus": 8, "domains": list(domains)},
        "storage": {
            "resources": list(resources),
            "volumes": {"vg/web": 10240.0, "vg/data-1": 20480.5},
            "groups": {"roundsman": 500000.0},
            "files": {},
            "shared_folders": [],
            "devices": {},
            "disk": 1000,
            **storage,
        },
    }
    return adopted_hosts.Host(f"node{number}", f"192.0.2.{number}", {"ansible_user": "root"}, told)
