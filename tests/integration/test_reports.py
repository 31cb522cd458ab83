"""Reports that count for nothing, nodes that cannot diagnose themselves, and reports that arrive in the night."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent import reports, signing

from . import labs, states

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

EVACUATE = '{"status": "evacuate", "details": {"disk": "sdb"}}'


def _wrong_node(one: labs.Running) -> str:
    """A report about node3, signed by node2."""
    key = (one.lab.node("node2").root / "var/lib/roundsman/node.key").read_bytes()
    uuid = one.cluster().node("node3").uuid
    message = reports.message(node_uuid=uuid, timestamp_ns=time.time_ns(), data=EVACUATE, problem=None)
    return signing.sign(message, key=key, now=int(time.time()))


def _bad_reports(one: labs.Running) -> dict[str, str | bytes]:
    good = labs.report(one, "node2", EVACUATE)
    now = time.time()
    return {
        "forged.json": json.dumps({**json.loads(good), "hmac": "0" * 64}),
        "stale.json": labs.report(one, "node2", EVACUATE, now=now - 302),
        "future.json": labs.report(one, "node2", EVACUATE, now=now + 320),
        "replayed.json": labs.report(one, "node4", EVACUATE, now=now - 60),
        "unsigned.json": json.dumps({key: json.loads(good)[key] for key in ("msg", "salt")}),
        "wrong-node.json": _wrong_node(one),
        "oversized.json": good + " " * reports.LIMIT,
        "malformed.json": b"\x80 not JSON",
    }


def _count(one: labs.Running) -> int:
    return sum(one.get("/1/reports")["rejected"].values())


def test_a_report_that_is_not_authentic_fresh_and_new_is_counted_moved_aside_and_nothing_else(
    lab: Callable[..., labs.Running], tmp_path: Path
) -> None:
    one = lab(nodes=4, instances=2)
    labs.drop(one, "first.json", labs.report(one, "node4", '{"status": "Ok"}', now=time.time() - 30))
    one.until(lambda _: one.get("/1/reports")["nodes"]["node4"]["diagnosis"], "node4 is known to be well")
    before = one.where.config.read_bytes()
    (tmp_path / "elsewhere.json").write_text(labs.report(one, "node2", EVACUATE))

    for name, content in _bad_reports(one).items():
        labs.drop(one, name, content)
    os.mkfifo(one.where.spool / "pipe.json")
    (one.where.spool / "link.json").symlink_to(tmp_path / "elsewhere.json")
    labs.drop(one, "last.json", "{}")
    one.until(lambda _: _count(one) == 11, "all eleven are judged")

    expected = {
        "forged": 1,
        "stale": 1,
        "future": 1,
        "replayed": 1,
        "unsigned": 2,
        "wrong-node": 1,
        "oversized": 1,
        "malformed": 3,
    }
    assert one.get("/1/reports")["rejected"] == expected
    assert (one.get("/1/status"), one.where.config.read_bytes()) == ([], before)
    told = states.command(one, "status").stdout
    assert {tuple(line.split()) for line in told.splitlines()} >= {(name, str(n)) for name, n in expected.items()}
    assert list(one.where.spool.glob("[!.]*")) == []
    kept = {path.name for path in one.where.rejected.iterdir()}
    aside = [next(name for name in kept if name.endswith(f"{reason}.json.reason")) for reason in ("forged", "link")]
    texts = [(one.where.rejected / name).read_text() for name in aside]
    assert [text.partition(":")[0] for text in texts] == ["forged", "malformed"]
    assert (tmp_path / "elsewhere.json").exists()
    assert one.wrong() == []


def test_a_file_counts_when_its_writer_has_closed_it_and_not_before(lab: Callable[..., labs.Running]) -> None:
    one = lab(nodes=4, instances=0)
    content = labs.report(one, "node2", '{"status": "live-repair"}')
    with (one.where.spool / "slow.json").open("w") as stream:
        stream.write(content[:100])
        stream.flush()
        labs.drop(one, "other.json", labs.report(one, "node3", '{"status": "Ok"}'))
        one.until(lambda _: one.get("/1/reports")["nodes"]["node3"]["diagnosis"], "the spool was looked at")
        assert (one.incident("node2"), one.get("/1/reports")["rejected"]) == (None, {})
        stream.write(content[100:])

    incident = one.until(lambda _: one.incident("node2"), "the whole report counts")

    assert incident["original"] == {"status": "live-repair"}
    assert one.get("/1/reports")["rejected"] == {}
    assert one.wrong() == []


def _script(one: labs.Running, node: str, script: str) -> Path:
    path = one.lab.node(node).root / "etc/roundsman/node-diagnose-commands/lab-diagnose"
    path.write_text(f"#!/bin/sh\n{script}\n")
    return path


def _spoil(one: labs.Running) -> None:
    _script(one, "node1", "").unlink()
    _script(one, "node2", 'echo \'{"status": "Ok"}\'').chmod(0o777)
    settings = one.lab.node("node3").root / "etc/roundsman/node.json"
    settings.write_text(json.dumps({**json.loads(settings.read_text()), "diagnose_time_limit": 0.5}))
    _script(one, "node3", "exec /bin/sleep 1000")
    _script(one, "node4", "echo '{\"status\": \"Ok\"}'; echo 'no sensor' >&2; exit 3")
    _script(one, "node5", "echo all is fine")
    one.lab.node("node6").cut(is_cut=True)


def _mend(one: labs.Running) -> None:
    for number in range(1, 6):
        _script(one, f"node{number}", 'echo \'{"status": "Ok"}\'').chmod(0o755)
    one.lab.node("node6").cut(is_cut=False)


def _health(one: labs.Running) -> dict[str, Any]:
    return {node["name"]: node["health"] for node in one.get("/1/nodes")}


@pytest.mark.slow
def test_a_node_that_cannot_be_diagnosed_is_a_problem_and_never_taken_for_well(
    lab: Callable[..., labs.Running],
) -> None:
    one = lab(nodes=6, instances=0)
    _spoil(one)

    one.play("diagnose.yml")
    expected = {"node1": "missing", "node2": "mode", "node3": "timeout", "node4": "exit", "node5": "not_json"}
    one.until(lambda _: {**_health(one), **expected} == _health(one), "all problems are known")
    one.until(lambda _: one.get("/1/reports")["nodes"]["node6"]["unreachable"], "node6 is known to be silent")

    assert _health(one) == {**expected, "node6": None}
    told = one.get("/1/reports")["nodes"]
    assert [told[f"node{number}"]["diagnosis"] for number in range(1, 7)] == [None] * 6
    assert "no sensor" in told["node4"]["problem"]["text"]
    assert "does not answer" in told["node6"]["unreachable"]["text"]
    assert (one.get("/1/status"), one.get("/1/reports")["rejected"]) == ([], {})

    one.kill()
    _mend(one)
    one.diagnose()
    one.start()
    one.until(lambda _: set(_health(one).values()) == {"Ok"}, "all are well, by reports that came while it was down")
    assert one.get("/1/reports")["nodes"]["node6"]["unreachable"] is None
    assert one.wrong() == []
