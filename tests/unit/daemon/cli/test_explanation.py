from __future__ import annotations

import json
from typing import Any

from ansible_collections.roundsman.cluster.daemon.cli import explanation

from tests.unit.daemon.cli import canned


def told(node: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(canned.answers()["GET", f"/1/explain/{node}"])
    return found


def text(value: dict[str, Any]) -> str:
    return "\n".join(explanation.sentences(value, now=200.0))


def test_a_node_ready_for_repair_is_mended_acknowledged_powered_and_brought_back() -> None:
    said = text(told("node3"))
    steps = ["incident ack 77be01d4", "node power on node3", "node online node3"]
    places = [said.index(f"`roundsman {step}`") for step in steps]
    assert places == sorted(places)


def test_a_failed_repair_gives_its_reason_and_the_way_to_try_anew() -> None:
    said = text(told("node5"))
    assert "it came 2 min ago and is failed, because job 7: the repair command failed." in said
    assert "`roundsman incident ack c0ffee00`" in said


def test_silence_is_never_called_health() -> None:
    assert "It cannot be diagnosed (missing: the diagnose command is not there)" in text(told("node4"))
    assert "It has not reported yet. This is no sign of health." in text(told("node6"))
    assert "Its health is off: it has no power." in text(told("node3"))
    assert "It did not answer 2 min ago: connection refused." in text(told("node6"))


def test_a_node_that_has_not_reported_has_no_reports_to_go_by_and_says_how_often_it_is_asked() -> None:
    value = told("node6")
    value["node"]["unreachable"] = None
    said = text(value | {"by_hand": None, "report_interval": 60.0})
    assert "It has not reported yet. This is no sign of health. It is asked every 60 s." in said
    assert "By its reports" not in said
    assert said.endswith("What you do next:\n  Wait for its first report")
    said = text(value | {"by_hand": None, "report_interval": None})
    assert "Nobody asks it, because `diagnose_interval` is 0." in said


def test_rejected_reports_of_a_node_are_told_with_their_remedy() -> None:
    step = "apply the role node_agent to node6 again"
    unheard = {
        "code": "reports-rejected",
        "text": "the reports of node6 have been rejected (forged) since 10:00",
        "step": step,
    }
    value = told("node6")
    said = text(value | {"by_hand": None, "unheard": unheard, "report_interval": 60.0})
    assert "The reports of node6 have been rejected (forged) since 10:00." in said
    assert f"  A{step[1:]}" in said.partition("What you do next:")[2]
    assert "Wait for its first report" not in said


def test_a_clock_that_is_ahead_is_told() -> None:
    assert "The clock of node1 is ahead." in text({**told("node1"), "clock": ["The clock of node1 is ahead"]})


def test_a_silent_node_is_powered_off_before_it_is_set_offline() -> None:
    value, advice = told("node1"), "If it is dead, power it off before you set it offline: "
    value["node"].update(silent=True, offline=False, powered=True, off_confirmed=None)
    assert f"{advice}`roundsman node power off node1 --force`" in text(value)
    value["node"]["powered"] = None
    assert f"{advice}`roundsman node confirm-off node1`" in text(value)
    for known in ({"offline": True}, {"powered": False}, {"off_confirmed": 1.0}, {"silent": False}):
        other = {**value, "node": {**value["node"], **known}}
        assert advice not in text(other), known


def test_what_a_node_said_too_long_ago_is_told_with_its_age_and_is_no_health() -> None:
    value = told("node1")
    value["node"]["health"], value["node"]["last_report"]["age"] = "unknown", 7200.0
    said = text(value)
    assert "Its health is unknown: its last report said Ok 2 h ago, and that is too old to count." in said
    assert "Its last report says Ok." not in said
    assert "Find out why it sends no report" in said
    value["node"]["last_report"]["age"] = -7200.0
    assert "its last report said Ok at a time in the future" in text(value)


def test_a_healthy_node_leaves_nothing_to_do_and_nobody_claims_that_its_instances_run() -> None:
    value = told("node1")
    said = text(value)
    assert said.endswith("By its reports there is nothing for you to do. What runs on it: `roundsman cluster verify`")
    assert "It is the primary of instance2" in said
    value["node"]["primaries"] = []
    assert text(value).endswith("\nThere is nothing for you to do.")


STEP = "restore the replication link between node1 and node2, then run `roundsman instance repair-disks instance2`"
PARTED = {"instance": "instance2", "text": "instance2 is degraded since 10:00", "step": STEP}
DOWN = "instance2 should run on node1, and is down"
START = "Start instance2: `roundsman instance start instance2`"


def test_instances_that_are_degraded_or_down_are_each_a_step_of_their_node() -> None:
    said = text(told("node1") | {"degraded": [PARTED], "down": ["instance2"]})
    assert "instance2 is degraded since 10:00." in said
    assert DOWN in said
    assert said.endswith(f"What you do next:\n  {START}\n  R{STEP[1:]}")


def test_an_instance_that_is_degraded_or_down_has_the_same_steps_and_its_replica_that_is_down_a_line() -> None:
    unlisted = {"volume": None, "fact": None, "last_in_sync": None, "unlisted": 80.0, "unread": None}
    value: dict[str, Any] = {
        "failing": [],
        "at_work": [],
        "moving": None,
        "instance": {"name": "instance2", "primary": "node1", "secondaries": ["node2"]},
        "parted": PARTED,
        "being_made": None,
        "split": None,
        "not_outdated": None,
        "is_down": True,
        "failed_disks": [],
        "replicas": [{"node": "node1", "resource": "r0", **unlisted}],
        "failover": None,
        "broken_off": None,
    }
    said = "\n".join(explanation.instance_sentences(value, now=200.0))
    assert "  node1: r0: down, it is not in the report of 2 min ago." in said
    assert DOWN in said
    assert said.endswith(f"What you do next:\n  {START}\n  R{STEP[1:]}")
    healthy = value | {"parted": None, "is_down": False}
    assert "next" not in "\n".join(explanation.instance_sentences(healthy, now=200.0))
    refused = {"in_sync": False, "reason": "node1 is silent", "unblock": "power node1 off", "loss": None}
    said = "\n".join(
        explanation.instance_sentences(value | {"is_down": False, "failover": refused, **AT_WORK}, now=200.0)
    )
    assert "instance2 is degraded since 10:00; job 6 is at it." in said, "what is known stays"
    assert MOVING in said
    assert "repair-disks" not in said
    assert "power node1 off" not in said
    assert said.endswith(WAIT)


FAILED_DISK = {
    "instance": "instance2",
    "text": "the disk of instance2 on node1 has failed (Diskless)",
    "step": "replace it, then run `roundsman instance repair-disks instance2`",
}


def test_a_failed_disk_is_a_step_of_its_node_unless_a_job_is_at_work_on_the_instance() -> None:
    value = told("node1") | {"failed_disks": [FAILED_DISK]}
    assert "The disk of instance2 on node1 has failed (Diskless)." in text(value)
    assert text(value).endswith("What you do next:\n  Replace it, then run `roundsman instance repair-disks instance2`")
    assert text(value | AT_WORK).endswith(WAIT)


MOVING = "Job 6 has been at work on instance2 for 2 min: move the replica of instance2 from node2 to node3."
WAIT = "What you do next:\n  Wait until job 6 has ended: `roundsman jobs watch 6`"
WHAT = "move the replica of instance2 from node2 to node3"
AT_WORK = {"at_work": [{"job": 6, "subject": "instance2", "what": WHAT, "since": 80.0}]}


def test_an_object_that_a_job_is_changing_has_that_job_and_no_step_against_it() -> None:
    refused = {"instance": "instance2", "in_sync": False, "reason": "x", "unblock": "power node1 off", "loss": None}
    value = told("node1") | {"degraded": [PARTED], "failovers": [refused]}
    said = text(value | AT_WORK)
    assert MOVING in said
    assert "instance2 is degraded since 10:00; job 6 is at it." in said
    assert "power node1 off" not in said
    assert said.endswith(WAIT)
    other = PARTED | {"instance": "instance3"}
    assert text(value | AT_WORK | {"degraded": [PARTED, other]}).endswith(f"What you do next:\n  R{STEP[1:]}")


def test_a_refusal_and_a_verdict_about_what_a_job_is_changing_name_the_job_and_no_way_out() -> None:
    value = told("node2")
    value["refusals"] = [{"subject": "instance2", "reason": "node1 has no room", "unblock": "`roundsman x`"}]
    said = text(value | AT_WORK)
    assert "Refused for instance2: node1 has no room. Job 6 is at it." in said
    assert "roundsman x" not in said.partition("What you do next:")[0]
    silent = {"step": "wait", "reason": "its BMC is silent too", "unblock": "a check on site"}
    busy = [{"job": 6, "subject": "node1", "what": "power node1 off", "since": 80.0}]
    said = text(told("node1") | {"silent": silent, "at_work": busy})
    assert "Its BMC is silent too; next: wait; job 6 is at it." in said
    assert "a check on site" not in said
    assert said.endswith(WAIT)


def test_nobody_powers_a_node_on_or_off_while_a_job_fails_its_instances_over() -> None:
    value = told("node1") | {"by_hand": "node1 is off and is the primary of instance2: power it on, or fail over"}
    assert "power it on" in text(value)
    over = [{"job": 6, "subject": "instance2", "what": "fail instance2 over", "since": 80.0}]
    said = text(value | {"at_work": over})
    assert "power it on" not in said
    assert said.endswith(WAIT)
    said = text(value | {"at_work": [over[0] | {"subject": "instance1"}]})
    assert "power it on" in said, "instance1 has only its secondary there"


def test_an_incident_says_no_way_out_for_an_instance_that_a_job_is_at_work_on() -> None:
    value = told("node2")
    uuid = value["incidents"][0]["uuid"]
    value |= {
        "jobs": [],
        "refusals": [
            {"incident": uuid, "subject": name, "reason": "node1 has no room", "unblock": f"`roundsman move {name}`"}
            for name in ("instance2", "instance3")
        ],
    }
    assert "`roundsman move instance2`" in text(value)
    said = text(value | AT_WORK)
    assert "roundsman move instance2" not in said
    assert "what would unblock it: `roundsman move instance3`" in said
    value["refusals"] = value["refusals"][:1]
    said = text(value | AT_WORK)
    assert "Incident 3f2a91c0 waits, and job 6 is at it: `roundsman jobs watch 6`. To have it ignored" in said


def test_nobody_fences_a_node_for_a_failed_incident_while_a_job_is_at_work_on_it_or_its_instances() -> None:
    value = told("node5")
    (incident,) = value["incidents"]
    failed = {"kind": "failover", "status": "error"}
    job = {"id": incident["jobs"][0], "status": "error", "text": "no", "depends": [], "opcodes": [failed]}
    value |= {"jobs": [job]}
    value["node"] |= {"powered": True, "primaries": ["instance2"]}
    steps = explanation.incident_sentences(value, incident, missing=())
    assert any("Fence the node" in line for line in steps)
    for subject in ("instance2", "node5"):
        busy = value | {"at_work": [AT_WORK["at_work"][0] | {"subject": subject}]}
        steps = explanation.incident_sentences(busy, incident, missing=())
        assert not any("Fence the node" in line for line in steps), subject
        assert "Fence the node" not in "\n".join(explanation._next(busy))
        assert steps[-1].endswith("`roundsman jobs watch 6`")


def test_why_an_earlier_job_failed_is_no_advice_while_another_one_is_at_it() -> None:
    value: dict[str, Any] = {
        "failing": [],
        "instance": {"name": "instance2", "primary": "node1", "secondaries": ["node2"]},
        **dict.fromkeys(("moving", "parted", "being_made", "split", "failover")),
        "not_outdated": "node2 reports its replica as UpToDate: compare it",
        "broken_off": {"job": 5, "text": "start it: `roundsman instance start instance2`"},
        "is_down": False,
        "failed_disks": [],
        "replicas": [],
        "at_work": [],
    }
    said = "\n".join(explanation.instance_sentences(value, now=200.0))
    assert "Job 5 did not succeed: start it" in said
    said = "\n".join(explanation.instance_sentences(value | AT_WORK, now=200.0))
    assert "Job 5" not in said
    assert "compare it" not in said


def test_a_node_whose_role_a_job_is_changing_has_no_step_of_its_own() -> None:
    value = told("node2") | {"incidents": [], "jobs": [], "refusals": [], "planned": []}
    busy = [{"job": 6, "subject": "node2", "what": "undrain node2", "since": 80.0}]
    said = text(value | {"at_work": busy})
    assert "Job 6 has been at work on node2 for 2 min: undrain node2." in said
    assert said.endswith(WAIT)


def test_a_pause_is_lifted_by_resume() -> None:
    value = told("node2")
    value["refusals"] = [{"subject": "node2", "reason": "maintenance is paused: x", "unblock": "the end of the pause"}]
    assert "`roundsman resume`" in text(value)


def test_what_can_never_be_done_says_that_nothing_unblocks_it() -> None:
    value = told("node2")
    value["refusals"] = [{"subject": "instance9", "reason": "its disks are local", "unblock": ""}]
    assert "Refused for instance9: its disks are local. Nothing would unblock it." in text(value)


def test_a_drained_node_without_incidents_may_be_undrained() -> None:
    value = told("node2") | {"incidents": [], "jobs": [], "refusals": [], "planned": []}
    assert "`roundsman node undrain node2`" in text(value)


def test_an_acknowledged_incident_waits_for_the_node_to_say_something_else() -> None:
    value = told("node3")
    value["node"]["tags"] = []
    assert "Incident 77be01d4 is acknowledged" in text(value)


def test_the_tag_of_a_finished_incident_is_told_while_it_is_on_the_node() -> None:
    value = told("node3")
    assert f"The node carries its tag maintd:repairready:{canned.MENDED}." in text(value)
    value["node"]["tags"] = []
    assert "maintd:" not in text(value)


def test_wait_is_said_only_while_a_job_of_the_incident_is_unfinished() -> None:
    value = told("node2")
    assert "Wait: incident 3f2a91c0 is worked on." in text(value)
    for job in value["jobs"]:
        job["status"] = "success"
    assert "Wait:" not in text(value)
    assert "Incident 3f2a91c0 waits; what would unblock it: 1024 MiB on node1. To have it ignored: " in text(value)
    value["refusals"][0]["incident"] = "another"
    assert "Incident 3f2a91c0 waits for the next round. To have it ignored: " in text(value)


def failed(kind: str) -> dict[str, Any]:
    value = told("node5")
    value["node"] |= {"powered": True, "drained": True}
    step = {"kind": kind, "params": {}, "status": "error", "text": ""}
    value["jobs"] = [{"id": 7, "status": "error", "text": "it failed", "names": {}, "depends": [], "opcodes": [step]}]
    return value


def test_a_failed_failover_is_tried_anew_after_fencing() -> None:
    said = text(failed("failover"))
    fenced, acknowledged = said.index("`roundsman node power off node5 --force`"), said.index("`roundsman incident ack")
    assert fenced < acknowledged
    assert "power off" not in text(failed("migrate"))


def test_a_node_with_a_failed_incident_stays_drained() -> None:
    assert "undrain" not in text(failed("migrate"))


def test_during_an_emergency_power_off_its_return_is_the_next_step_and_nothing_is_said_to_run() -> None:
    healthy = told("node1")
    assert healthy["epo"] is None
    command = "`roundsman cluster epo --on`"
    epo = {"held": f"an emergency power off by ops stands: {command}", "returns": True, "instances": ["instance7"]}
    said = text({**healthy, "node": {**healthy["node"], "primaries": ["instance7", "instance8"]}, "epo": epo})
    assert f"Maintenance is held: an emergency power off by ops stands: {command}." in said
    assert "It is the primary of instance7 and instance8" in said
    assert "Here is to return: node1 and instance7." in said
    assert said.endswith(f"What you do next:\n  Return from the emergency power off: {command}")


def test_a_silent_node_says_what_a_person_must_confirm() -> None:
    cure = "a person who sees that node1 is off, and says it: `roundsman node confirm-off node1`"
    value = told("node1") | {"silent": {"step": "wait", "reason": "its BMC is silent too", "unblock": cure}}
    said = text(value)
    assert "Its BMC is silent too; next: wait." in said
    assert said.count("roundsman node confirm-off node1") == 2
    assert "There is nothing for you to do" not in said


def test_a_node_that_does_not_answer_says_what_to_do_about_its_instances() -> None:
    step = "node1 does not answer and is the primary of instance2: power it off, then fail over"
    refused = {"instance": "instance2", "in_sync": False, "reason": "it is Outdated", "unblock": "node1", "loss": None}
    value = told("node1") | {"by_hand": step, "failovers": [refused]}
    value["node"] |= {"silent": True, "health": "unknown"}
    said = text(value)
    assert "instance2 cannot fail over: it is Outdated. What would unblock it: node1." in said
    assert said.endswith(f"What you do next:\n  {step}")
    assert "It is the primary of" in said
    assert "It runs" not in said
    judged = {"silent": {"step": "wait", "reason": "its BMC is silent too", "unblock": "power it off on site"}}
    assert step not in text(value | judged)
    known = refused | {"in_sync": True, "loss": "possible loss: writes of the last 3 s"}
    assert "instance2 can fail over: its secondary counts as in sync; possible loss" in text(
        value | {"failovers": [known]}
    )


def test_what_a_person_stated_is_told_as_that() -> None:
    value = told("node1")
    value["node"] |= {"off_confirmed": 80.0, "off_stated_by": "alice"}
    assert "it is off since 2 min ago by the word of alice" in text(value)


def test_misses_of_an_agent_are_counted_and_no_health() -> None:
    value = told("node1")
    value["node"]["agent"] = {"misses": 3, "since": 80.0, "answered": 20.0, "text": "no answer", "load": None}
    assert "Its agent has missed 3 times in 2 min, and answered 3 min ago. Silence is no sign of health." in text(value)
    value["node"]["agent"] |= {"misses": 1, "answered": None}
    assert "Its agent has missed once in 2 min, and has not answered since the daemon began." in text(value)


def test_an_agent_that_answers_without_a_report_says_so() -> None:
    value = told("node1")
    value["node"]["agent"] = {"misses": 0, "since": None, "answered": 20.0, "text": "it answers with status 404"}
    value["node"]["last_report"] = {"said": "Ok", "age": 80.0}
    assert "Its agent gives no report: it answers with status 404." in text(value)
    assert "No report with its signature has come for 1 min." in text(value)
    value["node"]["last_report"] = None
    assert "No report with its signature has come yet." in text(value)
    value["node"]["agent"] |= {"text": ""}
    assert "agent" not in text(value)


def test_what_fails_in_the_daemon_is_said_first_and_never_that_there_is_nothing_to_do() -> None:
    value = told("node1")
    failure = {
        "part": "report intake",
        "since": 80.0,
        "last": 190.0,
        "times": 3,
        "text": "no room",
        "remedy": "free it",
    }
    value["failing"] = [failure]
    said = text(value)
    assert said.startswith("roundsmand: report intake fails (3 times, first 2 min ago): no room.\n  Remedy: free it.")
    assert "nothing for you to do" not in said


UNFINISHED = {
    "instance": "instance2",
    "node": "node2",
    "text": "a migration of instance2 from node1 to node2 has not ended, so it may run on node2",
    "step": "run `roundsman instance start instance2`, which looks for it on both",
}


def test_a_migration_that_has_not_ended_is_told_of_its_nodes_and_its_instance_with_what_ends_it() -> None:
    value: dict[str, Any] = {
        "failing": [],
        "at_work": [],
        "moving": UNFINISHED,
        "instance": {"name": "instance2", "primary": "node1", "secondaries": ["node2"]},
        **dict.fromkeys(("parted", "being_made", "split", "not_outdated", "failover", "broken_off")),
        "is_down": False,
        "failed_disks": [],
        "replicas": [],
    }
    for said in (
        text(told("node1") | {"moving": [UNFINISHED]}),
        "\n".join(explanation.instance_sentences(value, now=2.0)),
    ):
        assert "A migration of instance2 from node1 to node2 has not ended, so it may run on node2." in said
        assert said.endswith(
            "What you do next:\n  Run `roundsman instance start instance2`, which looks for it on both"
        )
