from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

CHECKS = Path(__file__).resolve().parents[4] / "roles/node_agent/files/checks.d"
OK = {"status": "Ok"}


def put(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def found(check: str, root: Path, *, programs: Path | None = None) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, str(CHECKS / f"{check}.py"), str(root)],
        env={"PATH": str(programs or "/nowhere")},
        capture_output=True,
        check=True,
    )
    told = json.loads(done.stdout)
    assert isinstance(told, dict)
    return told


def program(folder: Path, name: str, script: str) -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return folder


@pytest.mark.parametrize("check", ["drbd", "ecc", "filesystem", "link", "raid", "smart"])
def test_a_check_that_finds_nothing_to_look_at_fails_and_says_why(check: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(CHECKS / f"{check}.py"), str(tmp_path)],
        env={"PATH": "/nowhere"},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stdout == b""
    assert done.stderr.startswith(check.encode() + b": ")
    assert b"Traceback" not in done.stderr


MDSTAT = """Personalities : [raid1] [raid6] [raid5] [raid4]
md0 : active raid1 sdb1[1] sda1[0]{failed}
      1046528 blocks super 1.2 {disks}
{more}
unused devices: <none>
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (MDSTAT.format(failed="", disks="[2/2] [UU]", more=""), OK),
        ("Personalities :\nunused devices: <none>\n", OK),
        (
            MDSTAT.format(failed="", disks="[2/1] [U_]", more="      [==>....]  recovery = 12.6% (132096/1046528)"),
            {"status": "live-repair", "details": {"md0": "is degraded"}},
        ),
        (
            MDSTAT.format(failed="(F)", disks="[2/2] [UU]", more=""),
            {"status": "live-repair", "details": {"md0": "has a failed disk"}},
        ),
        (
            MDSTAT.format(failed="", disks="[2/1] [U_]", more="md1 : inactive sdc1[2](S)\n      1046528 blocks"),
            {"status": "evacuate", "details": {"md0": "is degraded", "md1": "does not run"}},
        ),
    ],
)
def test_arrays_are_judged_without_numbers_that_change(tmp_path: Path, text: str, expected: dict[str, Any]) -> None:
    put(tmp_path, {"proc/mdstat": text})
    assert found("raid", tmp_path) == expected


@pytest.mark.parametrize(
    ("uncorrected", "corrected", "expected"),
    [
        (0, 999, OK),
        (1, 0, {"status": "evacuate", "details": {"mc0": "uncorrected errors"}}),
        (0, 1000, {"status": "evacuate", "details": {"mc0": "many corrected errors"}}),
    ],
)
def test_errors_of_memory_count(tmp_path: Path, uncorrected: int, corrected: int, expected: dict[str, Any]) -> None:
    folder = "sys/devices/system/edac/mc/mc0"
    put(tmp_path, {f"{folder}/ue_count": f"{uncorrected}\n", f"{folder}/ce_count": f"{corrected}\n"})
    assert found("ecc", tmp_path) == expected


MOUNTS = "22 1 8:1 / / {mount} - ext4 /dev/sda1 {system},errors=remount-ro\n23 22 0:5 / /proc rw - proc proc ro\n"


@pytest.mark.parametrize(
    ("mount", "system", "table", "expected"),
    [
        ("rw,relatime", "rw", "", OK),
        ("ro,relatime", "rw", "", OK),
        ("rw,relatime", "ro", "", {"status": "evacuate", "details": {"/": "is read-only"}}),
        ("ro", "ro", "# a comment\n/dev/sda1 / ext4 noatime,ro 0 1\n", OK),
    ],
)
def test_a_file_system_that_the_kernel_made_read_only_is_found(
    tmp_path: Path, mount: str, system: str, table: str, expected: dict[str, Any]
) -> None:
    put(tmp_path, {"proc/self/mountinfo": MOUNTS.format(mount=mount, system=system), "etc/fstab": table})
    assert found("filesystem", tmp_path) == expected


def test_a_file_system_that_has_counted_errors_wants_to_be_checked(tmp_path: Path) -> None:
    mounts = MOUNTS.format(mount="rw", system="rw")
    put(tmp_path, {"proc/self/mountinfo": mounts, "sys/fs/ext4/sda1/errors_count": "3\n"})
    assert found("filesystem", tmp_path) == {"status": "live-repair", "details": {"sda1": "has counted errors"}}


def interface(root: Path, name: str, state: str, carrier: str, **files: str) -> None:
    folder = f"sys/class/net/{name}"
    put(root, {f"{folder}/operstate": f"{state}\n", f"{folder}/carrier": f"{carrier}\n"})
    put(root, {f"{folder}/{file.replace('_', '/')}": text for file, text in files.items()})


def test_links_that_are_up_are_well(tmp_path: Path) -> None:
    put(tmp_path, {"etc/roundsman/check-links": "eth0\nbr0\n"})
    interface(tmp_path, "eth0", "up", "1")
    interface(tmp_path, "br0", "unknown", "1")
    assert found("link", tmp_path) == OK


@pytest.mark.parametrize(("state", "carrier"), [("down", "0"), ("up", "0"), ("lowerlayerdown", "1")])
def test_an_interface_without_a_link_needs_another_node(tmp_path: Path, state: str, carrier: str) -> None:
    put(tmp_path, {"etc/roundsman/check-links": "eth0 eth1"})
    interface(tmp_path, "eth0", state, carrier)
    details = {"eth0": "has no link", "eth1": "has no link"}
    assert found("link", tmp_path) == {"status": "evacuate", "details": details}


def test_a_bond_that_lacks_a_link_is_mended_while_instances_run(tmp_path: Path) -> None:
    put(tmp_path, {"etc/roundsman/check-links": "bond0"})
    interface(tmp_path, "bond0", "up", "1", bonding_slaves="eth0 eth1\n")
    interface(tmp_path, "eth0", "up", "1")
    interface(tmp_path, "eth1", "down", "0")
    assert found("link", tmp_path) == {"status": "live-repair", "details": {"eth1": "of bond0 has no link"}}


DRBD8 = (
    "version: 8.4.11\n 0: cs:Connected ro:Primary/Secondary ds:{}/UpToDate C r-----\n    ns:0\n 1: cs:Unconfigured\n"
)


@pytest.mark.parametrize(
    ("disk", "expected"),
    [("UpToDate", OK), ("Diskless", {"status": "evacuate", "details": {"minor 0": "has no disk here"}})],
)
def test_a_drbd_volume_without_its_disk_needs_another_node(tmp_path: Path, disk: str, expected: dict[str, Any]) -> None:
    put(tmp_path, {"proc/drbd": DRBD8.format(disk)})
    assert found("drbd", tmp_path) == expected


def test_version_nine_of_drbd_is_asked_by_its_tool(tmp_path: Path) -> None:
    put(tmp_path, {"proc/drbd": "version: 9.2.8 (api:2/proto:86-122)\n"})
    status = [{"name": "web1", "devices": [{"volume": 0, "disk-state": "Failed"}]}]
    programs = program(tmp_path, "drbdsetup", f"echo '{json.dumps(status)}'")
    details = {"web1 volume 0": "has no disk here"}
    assert found("drbd", tmp_path, programs=programs) == {"status": "evacuate", "details": details}


WELL = {"smartctl": {"exit_status": 0}, "smart_status": {"passed": True}}
ATTRIBUTE = {"name": "Reallocated_Sector_Ct", "when_failed": "now", "flags": {"prefailure": True}}


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (WELL, OK),
        ({"smartctl": {"exit_status": 64}, "smart_status": {"passed": True}}, OK),
        ({"smartctl": {"exit_status": 4}}, OK),
        (
            {"smartctl": {"exit_status": 8}, "smart_status": {"passed": False}},
            {"status": "evacuate", "details": {"/dev/sda": "says that it fails"}},
        ),
        (
            {**WELL, "nvme_smart_health_information_log": {"critical_warning": 4}},
            {"status": "evacuate", "details": {"/dev/sda": "gives a critical warning"}},
        ),
        (
            {**WELL, "ata_smart_attributes": {"table": [ATTRIBUTE]}},
            {"status": "evacuate", "details": {"/dev/sda": "fails by Reallocated_Sector_Ct"}},
        ),
        (
            {"smartctl": {"exit_status": 2}},
            {"status": "live-repair", "details": {"/dev/sda": "cannot be asked"}},
        ),
    ],
)
def test_disks_are_judged_by_what_they_say_of_themselves(
    tmp_path: Path, told: dict[str, Any], expected: dict[str, Any]
) -> None:
    scan = json.dumps({"devices": [{"name": "/dev/sda", "type": "sat"}]})
    script = f"case $2 in --scan) echo '{scan}' ;; *) echo '{json.dumps(told)}'; exit 8 ;; esac"
    assert found("smart", tmp_path, programs=program(tmp_path, "smartctl", script)) == expected
