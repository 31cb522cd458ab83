"""What members of the administrators' group, who may use the socket and cannot read the files, do with the command."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from . import labs

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("setpriv") is None, reason="takes root, and setpriv to be less than root"
)
# Root without the right to read what belongs to others is in the place of a member of the group.
UNPRIVILEGED = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-dac_override,-dac_read_search"]
OTHER = 65534


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[labs.Running]:
    running = labs.up(
        tmp_path_factory.mktemp("lab"), pairs=(("node2", "node3"), ("node3", "node2"), ("node4", "node1"))
    )
    try:
        where = running.where
        for path in (where.config, where.hmac_key, where.bmc_credentials, *where.config.parent.glob("config.*/*")):
            if path.exists():
                path.chmod(0o600)
                os.chown(path, OTHER, OTHER)
        yield running
    finally:
        labs.down(running)


def administrator(one: labs.Running, *words: str) -> subprocess.CompletedProcess[str]:
    """What the command prints for a member of the group."""
    program = str(Path(sys.executable).with_name("roundsman"))
    environment = {**os.environ, "ROUNDSMAN_ROOT": str(one.lab.folder), "COLUMNS": "200"}
    return subprocess.run(
        [*UNPRIVILEGED, program, *words],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        stdin=subprocess.DEVNULL,
        timeout=120,
    )


def test_the_files_cannot_be_read_here(one: labs.Running) -> None:
    for path in (one.where.config, one.where.hmac_key):
        run = subprocess.run([*UNPRIVILEGED, "cat", str(path)], capture_output=True, text=True, check=False)
        assert (run.returncode, "Permission denied" in run.stderr) == (1, True)


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["capacity"], "The whole cluster"),
        (["balance", "-o", "json"], ""),
        (["evacuate", "node2", "--plan"], "instance1"),
        (["group", "drain", "group1", "--plan"], ""),
        (["cluster", "epo", "--all", "--dry-run"], ": 4 nodes, "),
    ],
    ids=lambda words: words[0] if isinstance(words, list) else "",
)
def test_administrators_plan_without_a_right_to_read_the_configuration_file(
    one: labs.Running, words: list[str], shown: str
) -> None:
    run = administrator(one, *words)
    assert run.returncode in {0, 1}
    assert "ermission" not in run.stderr + run.stdout
    assert shown.lower() in run.stdout.lower()


def test_administrators_export_the_configuration_the_versions_too(one: labs.Running, tmp_path: Path) -> None:
    exported = administrator(one, "config", "export")
    assert (exported.returncode, exported.stdout.encode()) == (0, one.where.config.read_bytes())
    (newest, *_) = reversed(json.loads(administrator(one, "config", "history", "-o", "json").stdout))
    file = tmp_path / "before.json"
    run = administrator(one, "config", "export", str(file), "--version", str(newest["serial_no"]))
    assert (run.returncode, run.stderr, file.stat().st_mode & 0o777) == (0, "", 0o600)
    gone = administrator(one, "config", "export", "--version", "999999")
    assert (gone.returncode, gone.stdout) == (1, "")
    assert "999999" in gone.stderr
    same = administrator(one, "config", "import", str(file), "--yes")
    assert (same.returncode, same.stdout, same.stderr) == (0, "nothing differs\n", "")


def test_an_emergency_power_off_says_before_it_begins_who_has_to_run_it(one: labs.Running) -> None:
    before = one.where.config.read_bytes()
    run = administrator(one, "cluster", "epo", "--all", "--force")
    assert run.returncode == 1
    assert f"{one.where.config} cannot be read" in run.stderr
    assert "as root, or as the user of roundsmand" in run.stderr
    assert one.where.config.read_bytes() == before
    assert one.get("/2/jobs") == []
