from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.module_utils.hypervisor import found_domains

UUID = "11111111-1111-1111-1111-111111111101"
INFO = "CPU model:           x86_64\nCPU(s):              2\nMemory size:         11233492 KiB\n"
STATISTICS = (
    "total  :             24684092 KiB\nfree   :             18248156 KiB\nbuffers:  128136 KiB\ncached : 3023208 KiB\n"
)
XML = """<domain type='qemu' id='1'>
  <name>web1</name><memory unit='KiB'>1049000</memory><vcpu placement='static' current='2'>4</vcpu>
  <devices>
    <disk type='block' device='disk'><source dev='/dev/drbd3' index='2'/><target dev='vda' bus='virtio'/></disk>
    <disk type='file' device='disk'><source file='/d/a.img'/><target dev='vdb'/></disk>
    <disk type='file' device='cdrom'><target dev='sda' bus='sata'/><readonly/></disk>
    <disk type='block' device='lun'><source dev='/dev/sdz'/><target dev='sdb'/></disk>
    <disk type='network' device='disk'><source protocol='rbd' name='pool/image'/><target dev='vdc'/></disk>
    <disk type='volume' device='disk'><source pool='p' volume='v'/><target dev='vdd'/></disk>
    <interface type='bridge'><mac address='52:54:00:AA:BB:01'/><source bridge='br0'/></interface>
    <interface type='network'><source network='default'/></interface>
    <interface type='user'><mac address='52:54:00:aa:bb:02'/></interface>
  </devices>
</domain>"""


class Virsh:
    """libvirt's client on a node with these domains, each as its state, its autostart and its XML."""

    def __init__(self, domains: dict[str, tuple[str, str]]) -> None:
        self.domains = domains
        self.asked: list[tuple[str, ...]] = []

    def run(self, *command: str, **_: Any) -> str:
        self.asked.append(command)
        verb, target = command[0], command[-1]
        if verb == "list":
            return "".join(f" {name}-uuid {name}\n" for name in self.domains)
        if verb == "dominfo":
            state, autostart = self.domains[target.removesuffix("-uuid")]
            return f"Name: x\nState:          {state}\nPersistent:     yes\nAutostart:      {autostart}\n"
        return {"nodeinfo": INFO, "nodememstats": STATISTICS, "dumpxml": XML}[verb]


def test_a_domain_is_read_with_its_sizes_its_disks_and_its_interfaces() -> None:
    found = found_domains.described(XML)
    assert (found["memory"], found["vcpus"]) == (1025, 2)
    assert [(one["type"], one["source"], one["target"]) for one in found["disks"]] == [
        ("block", "/dev/drbd3", "vda"),
        ("file", "/d/a.img", "vdb"),
        ("lun", "/dev/sdz", "sdb"),
        ("network", "pool/image", "vdc"),
        ("volume", "v", "vdd"),
    ]
    assert [(one["type"], one["mac"], one["link"]) for one in found["nics"]] == [
        ("bridge", "52:54:00:aa:bb:01", "br0"),
        ("network", "", "default"),
        ("user", "52:54:00:aa:bb:02", ""),
    ]


@pytest.mark.parametrize(
    ("memory", "size"),
    [("<memory>1024</memory>", 1), ("<memory unit='GiB'>2</memory>", 2048), ("<memory unit='MB'>512</memory>", 489)],
)
def test_memory_is_read_in_its_unit(memory: str, size: int) -> None:
    assert found_domains.described(f"<domain>{memory}</domain>")["memory"] == size


@pytest.mark.parametrize(
    "xml", ["", "<domain/>", "<domain><memory>x</memory></domain>", "<a><memory unit='x'>1</memory></a>"]
)
def test_what_is_no_domain_is_refused(xml: str) -> None:
    with pytest.raises(errors.Failed, match="the definition of a domain is not as expected"):
        found_domains.described(xml)


def test_memory_that_no_domain_uses_is_the_node_s_own() -> None:
    assert found_domains.node(INFO, STATISTICS, running=1000) == {"memory": 24105, "own_memory": 2207, "cpus": 2}
    assert found_domains.node(INFO, STATISTICS, running=9000)["own_memory"] == 0
    with pytest.raises(errors.Failed, match="virsh does not say 'total'"):
        found_domains.node(INFO, "", running=0)


def test_each_domain_tells_whether_it_runs_and_starts_by_itself_and_nothing_is_changed() -> None:
    client = Virsh({"web": ("running", "enable"), "db": ("shut off", "disable")})
    found = found_domains.found(client)  # type: ignore[arg-type]
    told = [(one["name"], one["uuid"], one["running"], one["autostart"]) for one in found["domains"]]
    assert told == [("db", "db-uuid", False, False), ("web", "web-uuid", True, True)]
    assert found["cpus"] == 2
    assert {one[0] for one in client.asked} == {"list", "dominfo", "dumpxml", "nodeinfo", "nodememstats"}
