from __future__ import annotations

import json
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from ansible_collections.roundsman.cluster.daemon.jobs import values

from tests.unit.daemon.cli import canned

if TYPE_CHECKING:
    from tests.unit.daemon.cli.conftest import Run
    from tests.unit.daemon.cli.stand_in import StandIn

QUEUE = {
    "drained": True,
    "jobs": {"queued": 3, "running": 1, "success": 0},
    "held": 2,
    "slots": {"taken": 1, "limit": 8, "awaited": 0},
    "damaged": [12],
}
RULE = {
    "uuid": "u-1",
    "watermark": 7,
    "priority": 1,
    "predicates": [["jobid", [">", "id", "watermark"]]],
    "action": ["RATE_LIMIT", 3],
    "reason_trail": [["gnt:client:roundsman", "quiet please", 5]],
}


def test_the_queue_says_how_it_stands_and_which_files_were_damaged(daemon: StandIn, roundsman: Run) -> None:
    daemon.put("GET", "/2/queue", QUEUE)
    out = roundsman("queue", "info")[1]
    assert "no: it is drained" in out
    assert "3 queued, 1 running" in out
    assert "12" in out
    assert roundsman("queue", "info", "-o", "json")[1].encode() == daemon.answers["GET", "/2/queue"] + b"\n"  # type: ignore[operator]


def test_draining_goes_to_the_daemon(daemon: StandIn, roundsman: Run) -> None:
    daemon.put("PUT", "/2/queue/drained", QUEUE)
    assert roundsman("queue", "drain")[1] == "The queue takes no jobs.\n"
    assert roundsman("queue", "undrain")[1] == "The queue takes jobs.\n"
    assert [body["drained"] for _, body in daemon.asked("PUT")] == [True, False]


def test_jobs_are_made_urgent_and_archived(daemon: StandIn, roundsman: Run) -> None:
    daemon.put("PUT", "/2/jobs/12/priority", {"id": 12, "priority": -10})
    daemon.put("PUT", "/2/jobs/12/archive", {"id": 12, "archived": True})
    daemon.put("PUT", "/2/queue/archive", [1, 2])
    assert roundsman("jobs", "priority", "12", "high")[1] == "Job 12 has priority -10.\n"
    assert roundsman("jobs", "archive", "12")[1] == "Job 12 is archived.\n"
    assert roundsman("jobs", "autoarchive", "--older-than", "60")[1] == "2 jobs are archived.\n"
    assert daemon.asked("PUT")[0] == ("/2/jobs/12/priority", {"priority": -10})
    assert daemon.asked("PUT")[2] == ("/2/queue/archive", {"older_than": 60})


def test_archived_jobs_are_listed_page_by_page(daemon: StandIn, roundsman: Run) -> None:
    done = {**canned.job(7, "test_delay", {"duration": 1}, status=values.Status.SUCCESS), "archived": True}
    daemon.put("GET", "/2/jobs", ([done], [done], []))
    code, out, err = roundsman("jobs", "list", "--archived", "--limit", "1")
    assert (code, out.splitlines()[1].split()[:2]) == (0, ["7", "success"])
    assert err == "roundsman: older ones are listed with --archived --before 7\n"
    assert json.loads(roundsman("jobs", "list", "--archived", "--before", "9", "-o", "json")[1])[0]["archived"]
    assert roundsman("jobs", "list", "--archived")[1:] == ("The archive has no such job.\n", "")
    queries = [dict(parse_qsl(one)) for one in daemon.queries]
    assert queries[0] == {"bulk": "1", "archived": "1", "limit": "1"}
    assert queries[1] == {"bulk": "1", "archived": "1", "limit": "100", "before": "9"}


def test_a_job_says_that_it_is_archived(daemon: StandIn, roundsman: Run) -> None:
    done = canned.job(7, "test_delay", {}, status=values.Status.SUCCESS)
    daemon.put("GET", "/2/jobs/7", ({**done, "archived": True}, {**done, "archived": False}))
    assert "Archived" in roundsman("jobs", "info", "7")[1]
    assert "Archived" not in roundsman("jobs", "info", "7")[1]


def test_filters_are_listed_and_shown(daemon: StandIn, roundsman: Run) -> None:
    daemon.put("GET", "/2/filters", [RULE])
    daemon.put("GET", "/2/filters/u-1", RULE)
    assert "quiet please" in roundsman("filter", "list")[1]
    shown = roundsman("filter", "info", "u-1")[1]
    assert "RATE_LIMIT 3" in shown
    assert "watermark" in shown


def test_a_filter_is_added_replaced_and_deleted(daemon: StandIn, roundsman: Run) -> None:
    daemon.put("POST", "/2/filters", "u-1")
    daemon.put("PUT", "/2/filters/u-1", "u-1")
    daemon.put("DELETE", "/2/filters/u-1", None)
    wanted = ("--action", "RATE_LIMIT 3", "--predicates", '[["jobid", ["=", "id", 5]]]', "--reason", "why")
    assert roundsman("filter", "add", *wanted)[1] == "u-1\n"
    assert roundsman("filter", "replace", "u-1", "--action", "PAUSE", "--priority", "4")[1] == "u-1\n"
    assert roundsman("filter", "delete", "u-1")[1] == "Filter u-1 is gone.\n"
    ((_, added),) = daemon.asked("POST")
    assert (added["action"], added["predicates"]) == (["RATE_LIMIT", 3], [["jobid", ["=", "id", 5]]])
    assert added["reason"][0][:2] == ["gnt:client:roundsman", "why"]
    ((_, replaced),) = daemon.asked("PUT")
    assert replaced == {"priority": 4, "predicates": [], "action": "PAUSE", "reason": []}


def test_what_is_no_filter_is_refused_before_it_is_sent(daemon: StandIn, roundsman: Run) -> None:
    code, _, err = roundsman("filter", "add", "--action", "PAUSE", "--predicates", "[")
    assert (code, "--predicates" in err) == (1, True)
    assert daemon.asked("POST") == []
