"""Three hosts of instances as containers: systemd, sshd, libvirt and QEMU, on a network of their own."""

from __future__ import annotations

import ipaddress
import json
from typing import TYPE_CHECKING, Any

from . import beds, images, seeds

if TYPE_CHECKING:
    from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters

COUNT = 3
FIRST = 11
CAPABILITIES = "SYS_ADMIN,NET_ADMIN,SYS_PTRACE,SYS_NICE,IPC_LOCK,MKNOD,DAC_READ_SEARCH,NET_RAW"
"""What libvirt and QEMU take; a privileged container would run udev, which takes the network from the others."""


def make_network(bed: beds.Bed) -> dict[str, Any]:
    """Make the bed's network, which has no way out; gives its nodes with their addresses."""
    # With names, though nobody asks for them: without, this machine has no address on it.
    images.podman("network", "create", "--internal", f"--label=bed={bed.name}", bed.name)
    found = json.loads(images.podman("network", "inspect", bed.name))[0]["subnets"][0]["subnet"]
    network = ipaddress.ip_network(found)
    return {
        f"node{number}": {"address": str(network[FIRST + number - 1]), "memory": 2048, "disk": 8192, "cpus": 2}
        for number in range(1, COUNT + 1)
    }


def start(bed: beds.Bed, cluster: clusters.Cluster, *, image: str) -> None:
    """Make and start the containers; each gets its files before its first process."""
    bed.shared.mkdir(exist_ok=True)
    key = bed.where.hmac_key.read_bytes()
    common = {**seeds.of_ssh(bed), **seeds.of_host_key(bed)}
    for name, address in bed.addresses().items():
        images.podman(*_create(bed, name, address), image, "/sbin/init")
        files = {**common, **seeds.of_node(cluster.node(name), cluster_key=key)}
        images.podman("cp", "-", f"{container(bed, name)}:/", given=seeds.archive(files))
    images.podman("start", *(container(bed, name) for name in bed.addresses()))


def container(bed: beds.Bed, name: str) -> str:
    """The name of the container that is a node."""
    return f"{bed.name}-{name}"


def running(bed: beds.Bed) -> set[str]:
    """The nodes whose containers run."""
    listed = images.podman("ps", "--filter", f"label=bed={bed.name}", "--format", "{{.Names}}").split()
    return {one.removeprefix(f"{bed.name}-") for one in listed}


def set_power(bed: beds.Bed, name: str, *, on: bool) -> None:
    """Start a container, or kill all that runs in it."""
    images.podman(*(["start"] if on else ["kill", "--signal=KILL"]), container(bed, name))


def press_power_button(bed: beds.Bed, name: str) -> None:
    """Ask a container to shut itself down."""
    images.podman("kill", "--signal=RTMIN+4", container(bed, name))


def press_reset_button(bed: beds.Bed, name: str) -> None:
    """Have a container start again without asking it."""
    images.podman("restart", "--time=0", container(bed, name))


def remove(bed: beds.Bed) -> None:
    """Remove the bed's containers and its network, whatever is there of them."""
    made = images.podman("ps", "--all", "--quiet", "--filter", f"label=bed={bed.name}").split()
    if made:
        images.podman("rm", "--force", "--time=0", "--volumes", *made)
    if images.podman("network", "ls", "--quiet", "--filter", f"label=bed={bed.name}"):
        images.podman("network", "rm", bed.name)


def _create(bed: beds.Bed, name: str, address: str) -> list[str]:
    hosts = [f"--add-host={known}:{where}" for known, where in bed.addresses().items()]
    return [
        "create",
        f"--name={container(bed, name)}",
        f"--hostname={name}",
        f"--label=bed={bed.name}",
        f"--network={bed.name}",
        f"--ip={address}",
        *hosts,
        "--systemd=always",
        f"--cap-add={CAPABILITIES}",
        "--security-opt=seccomp=unconfined",
        f"--volume={bed.shared}:/srv/roundsman/disks",
    ]
