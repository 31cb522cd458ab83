from __future__ import annotations

from typing import Any

from ansible_collections.roundsman.cluster.plugins.module_utils.domain.power import power
from ansible_collections.roundsman.cluster.plugins.plugin_utils import findings, module_answers


def test_what_a_candidate_lacks_is_a_finding_and_so_is_one_that_nobody_could_look_at() -> None:
    looks: dict[str, dict[str, Any]] = {
        "node10": {"problems": {"/b/oob": "does not exist", "/a/oob": "is not a regular file"}},
        "node2": {"problems": {}},
        "node3": {"unreachable": True, "msg": "no route"},
        "node4": {"failed": True, "msg": "no Python there"},
    }
    found = findings.of_programs(looks, paths=["/a/oob", "/b/oob"], unseen={"node5": "is not contacted"})
    assert [one.as_dict() for one in found] == [
        {"check": "oob_program", "node": name, "text": text}
        for name, text in (
            ("node3", "node3 is a master candidate and does not answer"),
            ("node4", "node4 is a master candidate and no Python there"),
            ("node5", "node5 is a master candidate and is not contacted"),
            ("node10", "/a/oob is not a regular file on node10"),
            ("node10", "/b/oob does not exist on node10"),
        )
    ]


def test_host_variables_that_no_run_uses_are_a_finding_with_the_remedy() -> None:
    found = findings.of_host_variables({"node2": ["b", "a"], "node1": []})
    assert [(one.check, one.node) for one in found] == [("hostvars", "node2")]
    assert "etc/roundsman/host_vars/node2.yml" in found[0].text
    assert found[0].text.endswith("`roundsman node modify node2 hostvars.a=default hostvars.b=default`")


def test_a_node_with_another_diagnose_command_is_a_finding() -> None:
    found = findings.of_diagnose_commands({"node10": "b", "node2": "a"})
    assert [one.as_dict() for one in found] == [
        {"check": "diagnose_command", "node": "node2", "text": "a"},
        {"check": "diagnose_command", "node": "node10", "text": "b"},
    ]


def test_a_node_whose_power_is_not_as_on_record_is_a_finding_and_so_is_a_silent_bmc() -> None:
    states = {"node1": power.State.ON, "node2": power.State.OFF, "node3": power.State.UNKNOWN}
    read = [power.judge(power.Command.STATUS, name=name, before=state, seconds=0.1) for name, state in states.items()]
    found = findings.of_power(read, records={"node1": True, "node2": True, "node3": False})
    assert [(one.check, one.node) for one in found] == [("powered", "node2"), ("powered", "node3")]


def test_the_findings_of_a_node_are_bounded_and_can_be_printed() -> None:
    long = "x" * 90_000
    found = [findings.Finding("instances", "node3", f"{number}\x1b[2J\n{long}") for number in range(200)]
    found += [findings.Finding("instances", "node3", "y")] * 119_800
    told = findings.bounded([findings.Finding("instances", "node2", "a"), *found], escape=module_answers.shown)
    assert [(one.check, one.node) for one in told] == [("instances", "node2")] + [("instances", "node3")] * 101
    assert told[-1].text == "and 119900 more on node3"
    assert all(one.text.isprintable() for one in told)
    assert max(len(one.text) for one in told) < 600
