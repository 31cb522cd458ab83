from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent import collected, reports
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.module_utils.monitoring import publishing

from . import nodes

if TYPE_CHECKING:
    from ansible_collections.roundsman.cluster.plugins.module_utils.monitoring import observing


def published(node: nodes.Node, subject: collected.Subject, said: observing.Said) -> collected.Collected:
    to = publishing.Reports(node.reports)
    to.begin()
    to.publish(subject, said, node=node.surroundings().node)
    data = (node.reports / subject.folder / subject.name).read_bytes()
    return collected.read(data, subject=subject, node=nodes.UUID, key=nodes.KEY, now=int(time.time()))


def test_a_diagnosis_is_a_report_that_the_daemon_accepts(node: nodes.Node) -> None:
    published(node, collected.DIAGNOSE, '{"status":"evacuate"}')
    found = reports.accept(
        (node.reports / "node/diagnose").read_bytes(),
        now=int(time.time()),
        cluster_key=b"0123456789abcdef0123456789abcdef01234567\n",
        nodes={nodes.UUID},
        floor=lambda _: 0,
    )
    assert found.diagnosis is not None
    assert found.diagnosis.status.value == "evacuate"


def test_what_is_too_large_is_a_problem(node: nodes.Node) -> None:
    found = published(node, collected.LV, json.dumps(["x" * reports.LIMIT]))
    assert found.problem is not None
    assert found.problem.reason == "oversized"


def test_reports_of_collectors_that_are_off_are_gone(node: nodes.Node) -> None:
    published(node, collected.LV, "[]")
    to = publishing.Reports(node.reports)
    to.list([collected.CPU_LOAD])
    assert not (node.reports / "storage/lv").exists()
    assert json.loads((node.reports / publishing.LIST).read_bytes()) == [["cpu-avg-load", "default", 0]]


def test_without_a_key_nothing_is_published(node: nodes.Node) -> None:
    (node.root / "var/lib/roundsman/node.key").unlink()
    with pytest.raises(errors.StoreFailed, match=r"node\.key"):
        published(node, collected.LV, "[]")
    assert not (node.reports / "storage/lv").exists()


def test_what_an_earlier_agent_has_left_is_not_handed_out(node: nodes.Node) -> None:
    published(node, collected.LV, "[]")
    publishing.Reports(node.reports).begin()
    assert list(node.reports.iterdir()) == []
