from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.module_utils.storage import found_disks

if TYPE_CHECKING:
    from collections.abc import Callable

# As drbdadm 9.22 prints it.
DUMP = """<config file="/etc/drbd.conf">
    <resource name="r0" conf-file-line="/etc/drbd.d/r.res:1">
        <host name="g1">
            <volume vnr="0">
                <device minor="0">/dev/drbd0</device>
                <disk>/dev/vg/web1</disk>
                <meta-disk>internal</meta-disk>
            </volume>
            <address family="ipv4" port="7788">10.78.0.11</address>
        </host>
        <host name="g2">
            <volume vnr="0">
                <device minor="0">/dev/drbd0</device>
                <disk>/dev/vg/web1</disk>
                <meta-disk>internal</meta-disk>
            </volume>
            <address family="ipv4" port="7788">10.78.0.12</address>
        </host>
        <connection>
            <host name="g1"><address family="ipv4" port="7788">10.78.0.11</address></host>
            <host name="g2"><address family="ipv4" port="7788">10.78.0.12</address></host>
        </connection>
    </resource>
    <resource name="six" conf-file-line="/etc/drbd.d/r.res:15">
        <host name="g1">
            <volume vnr="0"><device minor="7"></device><disk>/dev/vg/c</disk></volume>
            <volume vnr="1"><device minor="8"></device><disk>/dev/vg/d</disk></volume>
            <address family="ipv6" port="7790">2001:db8::1</address>
        </host>
    </resource>
</config>"""
VGS = json.dumps({"report": [{"vg": [{"vg_name": "xenvg", "vg_size": "1048572.00"}]}]})
LVS = json.dumps(
    {
        "report": [
            {
                "lv": [
                    {
                        "vg_name": "xenvg",
                        "lv_name": "web1",
                        "lv_size": "1024.00",
                        "lv_active": "active",
                        "lv_device_open": "",
                    }
                ]
            }
        ]
    }
)
MOUNTS = "/dev/vda / ext4 rw 0 0\nnas:/x /srv/my\\040disks nfs4 rw 0 0\ntmpfs /srv tmpfs rw 0 0\n"


class Runner:
    def __init__(self, answers: dict[str, str]) -> None:
        self.answers = answers
        self.ran: list[tuple[str, ...]] = []

    def run(self, *command: str, **_: object) -> str:
        self.ran.append(command)
        return self.answers[command[0]]


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def there(*names: str) -> None:
        monkeypatch.setattr(shutil, "which", lambda name: name if name in names else None)

    return there


def test_the_resources_of_drbd_have_hosts_with_addresses_minors_and_disks() -> None:
    first, second = found_disks.resources(DUMP)
    assert first["name"] == "r0"
    assert {name: end["address"] for name, end in first["hosts"].items()} == {"g1": "10.78.0.11", "g2": "10.78.0.12"}
    assert first["hosts"]["g2"]["volumes"] == [{"minor": 0, "device": "/dev/drbd0", "disk": "/dev/vg/web1"}]
    assert [volume["minor"] for volume in second["hosts"]["g1"]["volumes"]] == [7, 8]
    assert found_disks.resources("<config>\n</config>") == []
    with pytest.raises(errors.Failed, match="drbdadm dump-xml"):
        found_disks.resources("no XML")


@pytest.mark.parametrize(
    ("path", "kind"), [("/d/a", "ext4"), ("/srv/my disks/a", "nfs4"), ("/srv/a", "tmpfs"), ("/srvx", "ext4")]
)
def test_the_file_system_of_a_path_is_that_of_the_closest_mount(path: str, kind: str) -> None:
    assert found_disks.filesystem(path, MOUNTS) == kind


def test_programs_that_are_there_are_asked_and_the_others_have_nothing(
    tmp_path: Path, programs: Callable[..., None]
) -> None:
    image = tmp_path / "a.img"
    image.write_bytes(b"x" * 1048577)
    programs("drbdadm", "lvs", "qemu-img")
    answers = {"drbdadm": DUMP, "lvs": LVS, "vgs": VGS, "qemu-img": '{"virtual-size": 1073741824}'}
    runner = Runner(answers)
    found = found_disks.found(runner, [str(image), "/absent"], mounts=f"x {tmp_path} nfs rw", folder="/absent")
    assert found["volumes"] == {"xenvg/web1": 1024.0}
    assert found["groups"] == {"xenvg": 1048572.0}
    assert found["files"] == {str(image): {"size": 1024, "filesystem": "nfs", "shared": True}}
    assert set(found["devices"]) == {"/dev/drbd0", "/dev/drbd7", "/dev/drbd8"}
    assert found["disk"] > 0
    programs()
    bare = Runner({})
    found = found_disks.found(bare, [str(image)], mounts="", folder=str(Path("/")))
    assert (found["resources"], found["volumes"], found["groups"], bare.ran) == ([], {}, {}, [])
    assert found["files"][str(image)]["size"] == 2


def test_folders_with_shared_file_systems_are_told() -> None:
    assert found_disks.shared_folders(MOUNTS) == ["/srv/my disks"]


def test_a_report_that_is_none_is_refused() -> None:
    with pytest.raises(errors.Failed, match="the report of vgs"):
        found_disks.groups("{}")
