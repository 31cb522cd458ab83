from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.daemon.jobs import values

from tests.unit.daemon.cli import canned, printed

if TYPE_CHECKING:
    from tests.unit.daemon.cli.conftest import Run
    from tests.unit.daemon.cli.stand_in import StandIn

FOUND = [
    {"check": "oob_program", "node": "node2", "text": "/usr/local/sbin/oob does not exist on node2"},
    {"check": "powered", "node": "node3", "text": "node3 is recorded as powered on, and reads off at its BMC"},
]


def ends(
    daemon: StandIn,
    found: list[dict[str, str]] | None,
    *,
    text: str = "3 nodes with OOB",
    left: dict[str, str] | None = None,
    copies: list[dict[str, Any]] | None = None,
) -> None:
    told: dict[str, Any] = canned.job(20, "cluster_verify", {}, status=values.Status.SUCCESS, text=text)
    value = None if found is None else {"findings": found, "looked_at": ["node1", "node2"], "not_looked_at": left or {}}
    daemon.put("PUT", "/2/verify", {"id": 20})
    daemon.put("GET", "/2/jobs/20/wait", {**told, "results": [value]})
    daemon.put("GET", "/1/health", {"copies": copies or []})


@pytest.mark.parametrize(("found", "name"), [(FOUND, "verify-findings"), ([], "verify-nothing")])
def test_each_finding_is_a_line_and_exit_status_1(
    found: list[dict[str, str]], name: str, daemon: StandIn, roundsman: Run
) -> None:
    ends(daemon, found)
    assert printed.of(roundsman("cluster", "verify")) == printed.text(name)
    code, out, _ = roundsman("cluster", "verify", "-o", "json")
    assert (code, json.loads(out)["findings"]) == (int(bool(found)), found)


def test_where_there_is_nothing_to_verify_it_is_said_why(daemon: StandIn, roundsman: Run) -> None:
    ends(daemon, None, text="no node supports OOB commands")
    assert roundsman("cluster", "verify") == (0, "Nothing is wrong (no node supports OOB commands).\n", "")


def test_what_a_candidate_for_the_master_role_lacks_is_a_finding(daemon: StandIn, roundsman: Run) -> None:
    lacks = ["var/lib/roundsman/hmac.key", "etc/roundsman/bmc.json"]
    ends(daemon, [], copies=[{"node": "node2", "lacks": lacks}, {"node": "node3", "lacks": []}])

    code, out, _ = roundsman("cluster", "verify", "-o", "json")

    found = [
        {"node": "node2", "check": "configuration_copies", "text": f"/{name} is not there: it could not lead"}
        for name in lacks
    ]
    assert (code, json.loads(out)["findings"]) == (1, found)


def test_a_job_that_failed_verified_nothing(daemon: StandIn, roundsman: Run) -> None:
    told = canned.job(20, "cluster_verify", {}, status=values.Status.ERROR, text="it is lost, and not repeated")
    daemon.put("PUT", "/2/verify", {"id": 20})
    daemon.put("GET", "/2/jobs/20/wait", {**told, "results": [None]})
    daemon.put("GET", "/1/health", {"copies": []})
    found = roundsman("cluster", "verify")
    assert found == (1, "", "roundsman: job 20 ended as error: it is lost, and not repeated\n")
    assert roundsman("cluster", "verify", "--submit") == (0, "20\n", "")


@pytest.mark.parametrize("found", [FOUND, []])
def test_nodes_that_were_not_looked_at_are_named_with_the_reason(
    found: list[dict[str, str]], daemon: StandIn, roundsman: Run
) -> None:
    left = {"node3": "it is offline, and it does not answer"}
    ends(daemon, found, left=left)
    _, out, _ = roundsman("cluster", "verify")
    assert "Not looked at: node3, because it is offline, and it does not answer.\n" in out
    assert ("Nothing is wrong on 2 of 3 nodes (" in out) == (not found)
    assert json.loads(roundsman("cluster", "verify", "-o", "json")[1])["not_looked_at"] == left
