"""DRBD 9's own tools read the file of a resource, and our commands come to what they are meant to.

No kernel here has DRBD 9; its drbdadm says in a dry run what it would have the kernel do.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.storage import drbd_resource
from ansible_collections.roundsman.cluster.plugins.module_utils.storage.disks import End

if TYPE_CHECKING:
    from tests.testbed import beds

pytestmark = [pytest.mark.slow, pytest.mark.containers, pytest.mark.timeout(600)]
HERE, PEER = End("node1", "192.0.2.1"), End("node2", "192.0.2.2")
RESOURCE = drbd_resource.Resource(
    "web1-disk0", "web1", 7, "/dev/vg/u.disk0", "/dev/vg/u.meta0", "node1", HERE, PEER, secret="abc", node_ids=(1, 0)
)
NET = (
    "--after-sb-2pri=disconnect --after-sb-1pri=disconnect --after-sb-0pri=disconnect --shared-secret=abc "
    "--cram-hmac-alg=sha256 --protocol=C"
)
META = "drbdmeta 7 v09 /dev/vg/u.meta0 flex-external"
COMMANDS = {
    "create-md --force web1-disk0": [f"{META} create-md 1 --force"],
    "adjust web1-disk0": [
        "drbdsetup new-resource web1-disk0 1 --auto-promote=no",
        "drbdsetup new-minor web1-disk0 7 0",
        f"drbdsetup new-peer web1-disk0 0 --_name=node2 {NET}",
        "drbdsetup new-path web1-disk0 0 ipv4:192.0.2.1:11007 ipv4:192.0.2.2:11007",
        f"{META} apply-al",
        "drbdsetup attach 7 /dev/vg/u.disk0 /dev/vg/u.meta0 flexible --on-io-error=detach",
        "drbdsetup connect web1-disk0 0",
    ],
    # Of the two it does the second where the first does not help: the resource is down.
    "forget-peer web1-disk0": ["drbdsetup forget-peer web1-disk0 0", f"{META} --node-id=0 forget-peer"],
    "get-gi web1-disk0/0": ["drbdsetup get-gi web1-disk0 0 0", f"{META} --node-id=0 get-gi"],
    "net-options --allow-two-primaries=yes web1-disk0": [
        f"drbdsetup net-options web1-disk0 0 --_name=node2 {NET} --allow-two-primaries=yes"
    ],
    "primary --force web1-disk0": ["drbdsetup primary web1-disk0 --force"],
    "secondary web1-disk0": ["drbdsetup secondary web1-disk0"],
    "disconnect web1-disk0": ["drbdsetup disconnect web1-disk0 0"],
    "connect --discard-my-data web1-disk0": ["drbdsetup connect web1-disk0 0 --discard-my-data"],
    "resume-sync web1-disk0": ["drbdsetup resume-sync web1-disk0 0 0"],
    "invalidate web1-disk0": ["drbdsetup invalidate 7", f"{META} invalidate"],
    "attach web1-disk0/0": [
        f"{META} apply-al",
        "drbdsetup attach 7 /dev/vg/u.disk0 /dev/vg/u.meta0 flexible --on-io-error=detach",
    ],
}


@pytest.fixture(scope="module")
def said(containers: beds.Bed) -> dict[str, list[str]]:
    """What drbdadm would do for each command, on a node whose kernel has no DRBD."""
    if Path("/proc/drbd").exists():
        pytest.skip("the kernel here has DRBD, after whose version drbdadm goes")
    text = "global { usage-count no; }\n" + RESOURCE.text()
    dry = " && ".join(f"echo = {one} && drbdadm --config-file=$file --dry-run {one}" for one in COMMANDS)
    script = f"file=$(mktemp) && cat >$file && {dry}; ended=$?; rm $file; exit $ended"
    found: dict[str, list[str]] = {}
    for line in containers.run("node1", script, given=text.encode()).stdout.decode().splitlines():
        if line.startswith("= "):
            found[line[2:]] = []
        elif line.strip():
            found[list(found)[-1]].append(line.strip())
    return found


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_comes_to_what_it_is_meant_to(said: dict[str, list[str]], command: str) -> None:
    assert said[command] == COMMANDS[command]
