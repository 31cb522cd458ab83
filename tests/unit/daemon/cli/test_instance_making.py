from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.daemon.cli import instance_making
from ansible_collections.roundsman.cluster.daemon.jobs import values
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors

from tests.unit.daemon.cli import canned

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.daemon.cli.conftest import Run
    from tests.unit.daemon.cli.stand_in import StandIn

DONE = canned.job(20, "startup", {"instance": "u-instance1"}, status=values.Status.SUCCESS)
CONSOLE = {
    "instance": "web1",
    "kind": "ssh",
    "host": "2001:db8::1",
    "port": 222,
    "user": "ops",
    "command": ["sudo", "virsh", "console", "web1"],
    "message": None,
}


def test_all_sizes_and_pairs_that_cannot_be_read_are_told_at_once(daemon: StandIn, roundsman: Run) -> None:
    code, _, err = roundsman(
        *("instance", "add", "web1", "-t", "drbd", "-s", "20X,1G", "-m", "much", "-H", "vnc", "--net", "br0,mac")
    )
    assert code == 1
    assert err == (
        "roundsman: '20X' is no size: write it as 10G, 512M or a number of MiB; "
        "'mac' is no parameter: write NAME=VALUE; "
        "'much' is no size: write it as 10G, 512M or a number of MiB; 'vnc' is no parameter: write NAME=VALUE\n"
    )
    assert daemon.requests == []


@pytest.mark.parametrize(
    ("command", "asked"),
    [
        (
            ("add", "web1", "-t", "drbd", "-s", "20G,512M", "-m", "4G", "-c", "2", "--net", "br0", "-g", "b"),
            {
                "name": "web1",
                "disk_template": "drbd",
                "disks": [{"size": 20480}, {"size": 512}],
                "nics": [{"link": "br0"}],
                "beparams": {"memory": 4096, "vcpus": 2},
                "hvparams": {},
                "start": True,
                "group_name": "b",
            },
        ),
        (
            (
                "add",
                "w",
                "-t",
                "diskless",
                "-m",
                "512",
                "-n",
                "node1:node2",
                "--no-start",
                "-H",
                "hvparams.vnc=::1",
                "-I",
                "h",
            ),
            {
                "name": "w",
                "disk_template": "diskless",
                "disks": [],
                "nics": [],
                "beparams": {"memory": 512, "vcpus": 1},
                "hvparams": {"vnc": "::1"},
                "start": False,
                "pnode": "node1",
                "snode": "node2",
                "iallocator": "h",
            },
        ),
    ],
)
def test_a_new_instance_is_asked_for(
    daemon: StandIn, roundsman: Run, command: tuple[str, ...], asked: dict[str, Any]
) -> None:
    daemon.put("POST", "/2/instances", 20)
    daemon.put("GET", "/2/jobs/20/wait", DONE)
    code, _, err = roundsman("instance", *command)
    assert (code, err) == (0, "")
    assert daemon.asked("POST") == [("/2/instances", asked)]


def test_a_playbook_is_named_by_its_whole_path(
    daemon: StandIn, roundsman: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    daemon.put("POST", "/2/instances", 20)
    net = ("--net", "br0,mac=52:54:00:00:00:01,network=prod")
    words = ("instance", "add", "w", "-t", "plain", "-s", "1G", "-m", "1G", "--os-playbook", "os.yml", *net, "--submit")
    assert roundsman(*words) == (0, "20\n", "")
    (_, body) = daemon.asked("POST")[0]
    assert body["os_playbook"] == str(tmp_path / "os.yml")
    assert body["nics"] == [{"link": "br0", "mac": "52:54:00:00:00:01", "network": "prod"}]


@pytest.mark.parametrize(
    ("command", "asked"),
    [
        (("start", "web1"), ("PUT", "/2/instances/web1/startup", {})),
        (("stop", "web1", "--yes"), ("PUT", "/2/instances/web1/shutdown", {})),
        (("remove", "web1", "--yes"), ("DELETE", "/2/instances/web1", None)),
        (
            ("modify", "web1", "memory=8G", "auto_balance=no", "hvparams.vnc=default"),
            (
                "PUT",
                "/2/instances/web1/modify",
                {"beparams": {"memory": 8192, "auto_balance": False}, "hvparams": {"vnc": "default"}},
            ),
        ),
    ],
)
def test_an_instance_is_changed_by_a_job(
    daemon: StandIn, roundsman: Run, command: tuple[str, ...], asked: tuple[str, str, Any]
) -> None:
    daemon.put(asked[0], asked[1], 20)
    daemon.put("GET", "/2/jobs/20/wait", DONE)
    assert roundsman("instance", *command)[0] == 0
    assert daemon.requests[0] == asked


def test_what_removes_or_stops_is_asked_for_twice(daemon: StandIn, roundsman: Run) -> None:
    for verb in ("remove", "stop"):
        code, _, err = roundsman("instance", verb, "web1")
        assert (code, err) == (
            1,
            "roundsman: confirmation required, but standard input is not a terminal: add --yes\n",
        )
    assert daemon.requests == []


def test_a_console_is_a_command_over_ssh(daemon: StandIn, roundsman: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    daemon.put("GET", "/2/instances/web1/console", CONSOLE)
    line = "ssh -t -p 222 -l ops -- 2001:db8::1 'sudo virsh console web1'"
    assert roundsman("instance", "console", "web1", "--show-command") == (0, line + "\n", "")
    assert json.loads(roundsman("instance", "console", "web1", "-o", "json")[1]) == CONSOLE
    ran: list[list[str]] = []
    monkeypatch.setattr(os, "execvp", lambda _program, command: ran.append(command))
    assert roundsman("instance", "console", "web1")[0] == 0
    assert ran == [["ssh", "-t", "-p", "222", "-l", "ops", "--", "2001:db8::1", "sudo virsh console web1"]]
    daemon.put("GET", "/2/instances/web1/console", {**CONSOLE, "kind": "msg", "message": "it is simulated"})
    assert roundsman("instance", "console", "web1") == (1, "", "roundsman: it is simulated\n")


@pytest.mark.parametrize(
    ("text", "size"),
    [("10G", 10240), ("512M", 512), ("512", 512), ("1.5G", 1536), ("1T", 1048576), ("2GiB", 2048), ("2gb", 2048)],
)
def test_a_size_is_what_people_write(text: str, size: int) -> None:
    assert instance_making.parse_size(text) == size


@pytest.mark.parametrize("text", ["", "x", "10K", "-1", "0.3M", "0", "1e3", "10 G B"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(errors.InvalidInput, match=r"size|MiB"):
        instance_making.parse_size(text)
