"""A node whose Python answers whatever it likes, and forged reports beside it: the daemon stays sane and the rest safe.

The judge looks from outside: at files, processes, the configuration on disk and the log.
"""

from __future__ import annotations

import json
import random
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent import signing

from tests import thoroughness

from . import evil_node, labs, states

if TYPE_CHECKING:
    from collections.abc import Callable

    from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
STEPS = 12 * thoroughness.FACTOR
FORGED = 500 * thoroughness.FACTOR
MOST_MEMORY = 400 * 2**20
PAIRS = (*[("node2", "node3")] * 7, ("node3", "node4"))
STEPS_OF_THE_DAEMON: tuple[tuple[str, str, Any], ...] = (
    ("PUT", "/2/instances/{}/verify-disks", None),
    ("PUT", "/2/instances/{}/migrate", {}),
    ("PUT", "/2/instances/{}/verify-disks", None),
    ("PUT", "/2/instances/{}/shutdown", None),
    ("PUT", "/2/instances/{}/verify-disks", None),
    ("PUT", "/2/instances/{}/activate-disks", None),
    ("PUT", "/2/instances/{}/startup", None),
    ("PUT", "/2/instances/{}/verify-disks", None),
    ("PUT", "/2/instances/{}/failover", {}),
)
"""Each asks the primary node of its instance, and where its answer makes no sense, some more times."""
READS = ("/1/status", "/1/health", "/1/nodes", "/1/instances", "/1/jobs", "/1/reports", "/1/explain/node2", "/1/page")
LISTS = ("/2/nodes?bulk=1", "/2/instances?bulk=1", "/2/jobs?bulk=1", "/2/info", "/2/groups?bulk=1", "/2/locks")


def evil_python(folder: Path) -> Path:
    (folder / "marks").mkdir(parents=True)
    path = folder / "python"
    path.write_text(f"#!{sys.executable} -I\n{Path(evil_node.__file__).read_text()}")
    path.chmod(0o755)
    return path


def others(cluster: clusters.Cluster, victims: frozenset[str]) -> dict[str, Any]:
    """What is on record of the nodes and instances that the evil node has no part in."""
    found: dict[str, Any] = {one.name: one for one in cluster.nodes.values() if one.name != "node2"}
    return found | {one.name: one for one in cluster.instances.values() if one.name not in victims}


def forged(one: labs.Running, number: int, chance: random.Random) -> bytes:
    """A report that is of nobody who may make it, or is damaged."""
    sealed = labs.report(one, "node3", '{"status":"evacuate"}').encode()
    kind = number % 5
    if kind == 0:
        document = json.loads(sealed)
        return signing.sign(document["msg"], key=chance.randbytes(64), now=int(document["salt"])).encode()
    if kind == 1:
        return sealed[: chance.randrange(len(sealed))]
    if kind == 2:
        return labs.report(one, "node3", '{"status":"evacuate"}', now=chance.choice([1.0, 4e9])).encode()
    if kind == 3:
        return chance.choice([b"[" * 50_000, b"\xff" * 1000, b"", b'{"msg":"' + b"9" * 50_000 + b'"}'])
    return sealed.replace(b"evacuate", b"evacuatf")


def ask_all(one: labs.Running) -> None:
    for path in (*READS, *LISTS):
        answer = one.ask("GET", path)
        assert answer.status_code < 500, f"{path}: {answer.text[:300]}"


def memory(one: labs.Running) -> int:
    """Bytes of memory that the daemon had at most."""
    pid = json.loads((one.lab.folder / "daemon.pid").read_text())["pid"]
    return int(re.findall(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())[0]) * 1024


def test_an_evil_node_and_forged_reports_change_and_execute_nothing_elsewhere(
    lab: Callable[..., labs.Running], tmp_path: Path
) -> None:
    chance, folder = random.Random(evil_node.SEED), tmp_path / "evil"
    one = lab(nodes=4, instances=len(PAIRS), pairs=PAIRS)
    one.run_modules_with(evil_python(folder), node="node2")
    before, top = one.cluster(), {path.name for path in one.where.root.iterdir()}
    pid = (one.lab.folder / "daemon.pid").read_text()
    evil = before.node("node2").uuid
    victims = frozenset(each.name for each in before.instances.values() if evil in each.nodes)

    for number in range(STEPS):
        method, path, body = STEPS_OF_THE_DAEMON[number % len(STEPS_OF_THE_DAEMON)]
        on_it = [each.name for each in one.cluster().primaries(evil)]
        answer = one.ask(method, path.format(chance.choice(sorted(on_it or victims))), body)
        assert answer.status_code < 500, answer.text
        if answer.status_code in {200, 202}:
            told = answer.json()
            states.job_ended(one, told["id"] if isinstance(told, dict) else told)
        for part in range(FORGED // STEPS):
            labs.drop(one, f"forged-{number}-{part}.json", forged(one, part, chance))
        ask_all(one)
        assert list((folder / "marks").iterdir()) == []
    for name, words in (("diagnose.yml", ()), ("evacuate.yml", ("-e", "node=node2"))):
        one.play(name, *words)
    one.until(lambda running: not [path for path in running.where.spool.iterdir() if path.suffix == ".json"], "judged")
    ask_all(one)

    assert len((folder / "asked").read_text()) >= STEPS
    assert list((folder / "marks").iterdir()) == []
    assert {path.name for path in folder.iterdir()} == {"marks", "python", "asked"}
    assert {path.name for path in one.where.root.iterdir()} == top
    assert others(one.cluster(), victims) == others(before, victims)
    assert one.cluster().maintenance.incidents == ()
    assert (one.lab.folder / "daemon.pid").read_text() == pid, "the daemon ended and was started again"
    assert memory(one) < MOST_MEMORY
    log = (one.where.log / "daemon.log").read_bytes()
    assert not re.search(rb"[\x00-\x08\x0b-\x1f\x7f]", log)
    assert not re.search(rb"(?m)^2026-11-22 00:00:00,000 CRITICAL", log)
    assert b"Traceback" not in log
