"""Ganeti's own client library, as Debian packages it, against a lab."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from . import fronts

if TYPE_CHECKING:
    from collections.abc import Callable

    from . import labs

PYTHON = "/usr/bin/python3"
SESSION = Path(__file__).with_name("ganeti_session.py")
UNPACKED = os.environ.get("GANETI_CLIENT", "")
"""Where the packages were unpacked, for who may not install them."""


def _environment() -> dict[str, str]:
    if not UNPACKED:
        return dict(os.environ)
    packages = f"{UNPACKED}/usr/lib/python3/dist-packages"
    libraries = ":".join(str(one) for one in Path(UNPACKED, "usr/lib").glob("*-linux-gnu"))
    return {**os.environ, "PYTHONPATH": packages, "LD_LIBRARY_PATH": libraries}


def _is_there() -> bool:
    probe = [PYTHON, "-c", "import pycurl, ganeti.rapi.client"]
    if not Path(PYTHON).exists():
        return False
    return subprocess.run(probe, env=_environment(), capture_output=True, check=False).returncode == 0


@pytest.fixture
def client_library() -> None:
    """Ganeti's client; where CI runs it must be there."""
    if _is_there():
        return
    text = "GANETI'S CLIENT IS NOT TESTED: apt-get install python3-ganeti-rapi, or name its folder as GANETI_CLIENT"
    if os.environ.get("CI") == "true":
        pytest.fail(text)
    pytest.skip(text)


@pytest.mark.usefixtures("client_library")
@pytest.mark.slow
def test_ganetis_own_client_lists_drains_tags_evacuates_and_waits(
    lab: Callable[..., labs.Running],
) -> None:
    one = lab(nodes=4, pairs=(("node2", "node3"), ("node3", "node2")))
    with fronts.front(fronts.prepared(one.where.root)) as front:
        done = subprocess.run(
            [PYTHON, str(SESSION), str(front.port), "node2", "wim"],
            input=fronts.PASSWORDS["wim"],
            env=_environment(),
            capture_output=True,
            text=True,
            check=False,
            timeout=200,
        )
    assert done.returncode == 0, done.stderr + one.told()
    told: dict[str, Any] = json.loads(done.stdout)
    assert (told["version"], told["nodes"]) == (2, ["node1", "node2", "node3", "node4"])
    assert (told["bulk"]["node1"], told["role"]) == ("M", "drained")
    assert told["drained"]["status"] == told["tagged"] == told["untagged"] == "success"
    assert told["drained"]["ops"][0]["reason"][0][:2] == ["gnt:user", "a disk is dying"]
    assert told["tags"] == ["sdb"]
    assert told["absent"] == [["OpExecError", ["Tag(s) 'nosuch' not found"]]]
    assert told["before"]
    assert set(told["moves"]) == {"success"}, one.get("/1/jobs")[-1]
    assert told["after"] == []
    assert len(told["moves"]) == len(told["evacuation"][0]["jobs"]) == len(told["before"])
    assert (told["tried"][0]["jobs"], len(told["tried"][0]["planned"])) == ([], len(told["moves"]))
    assert told["query"]["data"] == [[[0, "node2"], [0, True]]]
    assert told["canceled"][0] is False
    assert told["filter"] == "PAUSE"
    assert told["error"] == [404, "404 Not Found: there is no node 'nosuch'"]
    node = one.cluster().node("node2")
    assert (node.tags, one.cluster().primaries(node.uuid)) == (("sdb",), [])
    assert one.wrong() == []
