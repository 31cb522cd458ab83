"""What each step of the role that guards data refuses, and what it lets pass: what is not known refuses."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleError
from ansible_collections.roundsman.cluster.plugins.module_utils.storage import disks
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes, left_replicas, recording

from tests.unit.roles import role_tasks

DRBD = {"uuid": "u-web1", "name": "web1", "disk_template": "drbd", "admin_state": "up"}
DOWN = {**DRBD, "admin_state": "down"}
ONE, TWO, THREE = ({"uuid": f"u-{name}", "name": name} for name in ("node1", "node2", "node3"))
SILENT: dict[str, Any] = {"unreachable": True, "msg": "no route to host"}
FAILED: dict[str, Any] = {"failed": True, "msg": "the module crashed"}
ABSENT: dict[str, Any] = {"running": []}
SKIPPED: dict[str, Any] = {"skipped": True}
SYNCED: dict[str, Any] = {"disks": [{"role": "Primary", "text": "in sync"}], "synced": True}
UNSYNCED = {"disks": [{"role": "Primary", "text": "50 %"}], "synced": False}
FENCED: dict[str, Any] = {"results": [{"after": "off", "before": "off", "confirmed": True}]}
GUARDED: dict[str, Any] = {
    "instance": DRBD,
    "step.source": ONE,
    "step.target": TWO,
    "step.primary": ONE,
    "instance_members": [ONE, TWO],
    "step.source_oob": "ipmi",
    "step.allow_failover": True,
    "step.source_stated_off": False,
    "step.old": TWO,
    "step.new": THREE,
    "step.old_reachable": True,
    "instance_old_kept": "",
    "step.old_generations": [],
    "instance_left_at": THREE,
    "step.now_nodes": [ONE, TWO],
    "step.discard": False,
    "step.known": [ONE["uuid"], TWO["uuid"]],
    "step.known_off": [],
    "step.unasked": [],
}
Told = dict[str, Any]
ENDS: Told = {"instance_check": {"end": "virsh destroy it"}}


NOT_OFF = "Refuse to start a second copy where the source is not off any more"
NOT_STOPPED: dict[str, Any] = {"instance_stop": SILENT, "instance_life": {"alive": ""}, "instance_fence": FENCED}
NOTED = "Note when the source was known to be off, if it did not confirm the stop"
READ_AGAIN = "Read its power once more, right before the target may write"


def check(objection: str, **more: Any) -> Told:
    return {"instance_check": {"objection": objection, "forced": "", "alone": False, **more}}


def guests(*answers: Told) -> Told:
    return {"results": [{"item": node, **answer} for node, answer in zip((ONE, TWO), answers, strict=False)]}


def unconfirmed(before: str, after: str, reason: str = "not_off", *, read_on: bool = False) -> Told:
    told = {"before": before, "after": after, "reason": reason, "read_on": read_on or "on" in {before, after}}
    return {"results": [{**told, "confirmed": False, "text": "it is not"}]}


READS_ON = unconfirmed("on", "on")
IDLE: Told = {"running": [], "states": {}, "replicas": ["web1"]}
AT_PRIMARY = {"disks": [{"role": "Primary"}]}
AT_SECONDARY = {"disks": [{"role": "Secondary"}]}
OBJECTED = "Refuse before the instance is stopped", "Refuse before a disk changes hands"
FENCE = "Refuse to start a second copy of an instance that may still run"
DEMOTED = "See that the old primary is demoted"
WRITES = "See that the target may write them"
DOWN_AGAIN = "See that it is demoted"
ARRIVED = "Refuse to record a new primary that does not confirm"
OLDER = "Refuse to start the older replica"
REPLACE = "Refuse before anything is removed"
MADE = "Keep the record and the old replica unless the new secondary has the data"
IN_SYNC = "Keep the old replica unless the new one is in sync"
UP = {"instance_replica_answer": AT_SECONDARY}
ACCEPTS = {"alive": "", "accepts": "its SSH port accepts connections"}
STATED_OFF = {"instance_life": {"alive": ""}, "step.source_stated_off": True}

LIVE_ONLY = "Refuse to fail over an instance that shall be migrated live only"
GUESTS: Told = {"running": [], "states": {}, "migrations": {}}
RUNS = {"instance_source_guests": {**GUESTS, "states": {"web1": "running"}}, "instance_target_guests": SKIPPED}
CRASHED = {"instance_source_guests": GUESTS, "instance_target_guests": GUESTS}

REFUSALS: list[tuple[str, str, Told, bool]] = [
    *(("failover", name, check("it has the older data"), True) for name in OBJECTED),
    *(("failover", name, check(""), False) for name in OBJECTED),
    *(("failover", name, {"instance_check": FAILED}, True) for name in OBJECTED),
    *(("failover", name, {"instance_check": SKIPPED}, True) for name in OBJECTED),
    ("failover", DEMOTED, {"instance_stop": {"running": False}, "instance_disks_told": SILENT}, True),
    ("failover", DEMOTED, {"instance_stop": {"running": False}, "instance_disks_told": SYNCED}, False),
    ("failover", WRITES, {**check(""), "instance_disks_told": SILENT}, True),
    ("failover", WRITES, {**check(""), "instance_disks_told": SYNCED}, False),
    ("failover", DOWN_AGAIN, {"instance": DOWN, **check("", forced="web1"), "instance_disks_told": SILENT}, True),
    ("failover", DOWN_AGAIN, {"instance": DOWN, **check("", forced="web1"), "instance_disks_told": SYNCED}, False),
    ("fence_source", FENCE, {"instance_life": {"alive": ""}, "instance_fence": FENCED}, False),
    ("fence_source", FENCE, {"instance_life": {"alive": "it runs programs"}, "instance_fence": FENCED}, True),
    # Whoever has its address accepts connections, and outweighs neither its BMC nor a person.
    ("fence_source", FENCE, {"instance_life": ACCEPTS, "instance_fence": FENCED}, False),
    ("fence_source", FENCE, {**STATED_OFF, "instance_life": ACCEPTS, "instance_fence": SKIPPED}, False),
    ("fence_source", FENCE, {"instance_life": ACCEPTS, "instance_fence": FAILED}, True),
    *(("fence_source", FENCE, {"instance_life": one, "instance_fence": FENCED}, True) for one in (SILENT, FAILED)),
    *(
        ("fence_source", FENCE, {"instance_life": {"alive": ""}, "instance_fence": one}, True)
        for one in (READS_ON, SILENT, FAILED, SKIPPED, unconfirmed("off", "off", "refused"))
    ),
    # What a person says counts where its BMC says nothing, or says off and takes no command; never against the BMC.
    *(
        ("fence_source", FENCE, {**STATED_OFF, "instance_fence": one}, False)
        for one in (
            SKIPPED,
            FAILED,
            unconfirmed("off", "off", "refused"),
            unconfirmed("off", "unknown", "timeout"),
        )
    ),
    *(
        ("fence_source", FENCE, {**STATED_OFF, "instance_fence": one}, True)
        for one in (READS_ON, unconfirmed("off", "off"), unconfirmed("off", "unknown", "timeout", read_on=True))
    ),
    ("failover", NOT_OFF, {**NOT_STOPPED, "instance_power": {"results": [{"after": "off"}]}}, False),
    *(
        ("failover", NOT_OFF, {**NOT_STOPPED, "instance_power": one}, True)
        for one in ({"results": [{"after": "on"}]}, {"results": [{"after": "unknown"}]}, FAILED, SKIPPED)
    ),
    ("migrate_live", ARRIVED, {"instance_arrival": {"running": ["web1"]}}, False),
    *(("migrate_live", ARRIVED, {"instance_arrival": one}, True) for one in (ABSENT, SILENT, FAILED, SKIPPED)),
    ("migrate", LIVE_ONLY, CRASHED, False),
    ("migrate", LIVE_ONLY, {**CRASHED, "step.allow_failover": False}, True),
    ("migrate", LIVE_ONLY, {**RUNS, "step.allow_failover": False}, False),
    ("start_look", OLDER, {**UP, **check("node1 has the older replica")}, True),
    ("start_look", OLDER, {**UP, **check("")}, False),
    *(("start_look", OLDER, {**UP, "instance_check": one}, True) for one in (FAILED, SKIPPED)),
    ("replace_disks", REPLACE, check("it is needed"), True),
    ("replace_disks", REPLACE, check(""), False),
    *(("replace_disks", REPLACE, {"instance_check": one}, True) for one in (FAILED, SKIPPED)),
    ("replace_disks", MADE, check("it is not in sync"), True),
    ("replace_disks", MADE, check(""), False),
    *(("replace_disks", MADE, {"instance_check": one}, True) for one in (FAILED, SKIPPED)),
    ("replace_disks", IN_SYNC, {"instance_disks_told": SYNCED}, False),
    *(("replace_disks", IN_SYNC, {"instance_disks_told": one}, True) for one in (UNSYNCED, SILENT, FAILED, SKIPPED)),
]


@pytest.mark.parametrize(("file", "name", "told", "expected"), REFUSALS)
def test_a_play_ends_where_what_must_hold_does_not_or_is_not_known(
    file: str, name: str, told: Told, expected: bool
) -> None:
    assert role_tasks.refuses("instance", role_tasks.task("instance", file, name), {**GUARDED, **told}) is expected


RUNNING = "Refuse to touch the disks of what is on the node"
OTHERS = "Keep the replica unless the others are in sync"
WROTE = "Keep a replica that may have such writes, or that is in use"


@pytest.mark.parametrize(
    ("name", "told", "expected"),
    [
        (RUNNING, {"instance_look_left": {"states": {"web1": "paused"}}}, True),
        (RUNNING, {"instance_look_left": {"states": {"web2": "running"}}}, False),
        (RUNNING, {"instance_look_left": SILENT}, True),
        (RUNNING, {"instance_look_left": FAILED}, True),
        (OTHERS, {"instance_disks_told": UNSYNCED}, True),
        (OTHERS, {"instance_disks_told": SYNCED}, False),
        (OTHERS, {"instance_disks_told": SILENT}, True),
        (OTHERS, {"instance_disks_told": FAILED}, True),
        (WROTE, check("it has writes that no other has"), True),
        (WROTE, check(""), False),
        (WROTE, {"instance_check": FAILED}, True),
        (WROTE, {"instance_check": SKIPPED}, True),
        # A person discarded it, or its instance is gone.
        (WROTE, {"step.discard": True, "instance_check": SKIPPED}, False),
        (WROTE, {"step.now_nodes": [], "instance_check": SKIPPED}, False),
    ],
)
def test_a_replica_that_was_left_is_kept_where_it_may_be_needed_or_that_is_not_known(
    name: str, told: Told, expected: bool
) -> None:
    known = {**GUARDED, **told}
    keeps = role_tasks.task("instance", "remove_replica", name)
    assert keeps["ansible.builtin.include_tasks"] == "left_kept.yml"
    try:
        kept = role_tasks.runs("instance", keeps, known)
        text = role_tasks.value("instance", keeps["vars"], known) if kept else {}
    except AnsibleError:
        kept, text = True, {}
    ends = role_tasks.task("instance", "left_kept", "Keep the replica")
    assert (kept and role_tasks.refuses("instance", ends, {**known, **text})) is expected


STOP = "Make sure that a primary that did not confirm the stop has no power"
OFF = "Command a primary off whose BMC reads off, and read it back"
LIVES = "Record that it lives where its BMC reads on"
OPEN = "Promote the disks on the target"
CLOSE = "Demote the replica on the old primary"
CLOSE_FORCED = "Demote a replica that was promoted by force for an instance that stays down"
CLOSE_TARGET = "Demote the replica on the target, if it was promoted"
ONLY_PRIMARY = "Record the only primary of its replicas"
WHERE = "Record where it runs, unless that is a guess"
COMPARE = "Judge whether the replica has writes that no other has"
MAKING = "Record that a replica is made on a node that is not one of the instance's"
DROP = "Remove the replica from the old secondary"
DROPPED = "Record that the old replica is removed"
NOWHERE = {"instance_look": guests(IDLE, IDLE)}

MIGRATES, FAILS_OVER = "Migrate it live", "Fail it over, as it runs on neither node"

STEPS: list[tuple[str, str, Told, bool]] = [
    ("failover", STOP, {"instance_stop": {"running": False}}, False),
    *(("failover", STOP, {"instance_stop": one}, True) for one in ({"running": True}, SILENT, FAILED, SKIPPED)),
    ("failover", CLOSE, {"instance_stop": {"running": False}}, True),
    ("failover", OPEN, check(""), True),
    ("failover", OPEN, {"instance": DOWN, **check("")}, False),
    ("failover", CLOSE_FORCED, {"instance": DOWN, **check("", forced="web1")}, True),
    ("failover", CLOSE_FORCED, check("", forced="web1"), False),
    ("failover_back", CLOSE_TARGET, {}, True),
    *(("fence_source", OFF, {"instance_life": one}, True) for one in ({"alive": ""}, ACCEPTS)),
    ("fence_source", OFF, {"instance_life": {"alive": ""}, "step.source_oob": ""}, False),
    *(("fence_source", OFF, {"instance_life": one}, False) for one in ({"alive": "it answers"}, SILENT, FAILED)),
    *(("fence_source", LIVES, {"instance_fence": unconfirmed(*one)}, True) for one in (("on", "off"), ("off", "on"))),
    *(("fence_source", LIVES, {"instance_fence": one}, False) for one in (unconfirmed("off", "off"), FAILED, SKIPPED)),
    ("find_instance", ONLY_PRIMARY, {**NOWHERE, "instance_roles": guests(AT_SECONDARY, AT_PRIMARY)}, True),
    *(
        ("find_instance", ONLY_PRIMARY, {**NOWHERE, "instance_roles": guests(AT_PRIMARY, one)}, False)
        for one in (AT_PRIMARY, SILENT, FAILED, SKIPPED)
    ),
    ("find_instance", ONLY_PRIMARY, {**NOWHERE, "instance_roles": guests(AT_SECONDARY, AT_SECONDARY)}, False),
    (
        "find_instance",
        ONLY_PRIMARY,
        {**NOWHERE, "instance_members": [ONE], "instance_roles": guests(AT_PRIMARY)},
        False,
    ),
    *(
        (
            "find_instance",
            ONLY_PRIMARY,
            {"instance_look": guests(IDLE, one), "instance_roles": guests(AT_PRIMARY, AT_SECONDARY)},
            False,
        )
        for one in (SILENT, FAILED, {**IDLE, "running": ["web1"], "states": {"web1": "running"}})
    ),
    ("find_instance", WHERE, {"instance_look": guests({**IDLE, "running": ["web1"]}, IDLE)}, True),
    ("find_instance", WHERE, {"instance_look": guests(SILENT, {**IDLE, "running": ["web1"]})}, False),
    *(
        ("migrate", way, told, is_down == (way == FAILS_OVER))
        for way in (MIGRATES, FAILS_OVER)
        for told, is_down in (
            (CRASHED, True),
            ({**CRASHED, "instance_source_guests": {**GUESTS, "states": {"web1": "crashed"}}}, True),
            (
                {**CRASHED, "instance_source_guests": {**GUESTS, "states": {"web1": "crashed, and is kept paused"}}},
                True,
            ),
            # What is alive, or may be, is never ended: a migration says why it cannot take it.
            (RUNS, False),
            ({**CRASHED, "instance_source_guests": {**GUESTS, "states": {"web1": "paused by somebody"}}}, False),
            ({**CRASHED, "instance_source_guests": {**GUESTS, "states": {"web1": "in migration"}}}, False),
            ({**CRASHED, "instance_source_guests": {**GUESTS, "migrations": {"web1": {}}}}, False),
            *(({**CRASHED, "instance_source_guests": one}, False) for one in (SILENT, FAILED)),
            *(({**CRASHED, "instance_target_guests": one}, False) for one in (SILENT, FAILED, SKIPPED)),
            ({**CRASHED, "instance_target_guests": {**GUESTS, "states": {"web1": "running"}}}, False),
        )
    ),
    ("remove_replica", COMPARE, {}, True),
    ("replace_disks", MAKING, {}, True),
    ("replace_disks", MAKING, {"step.new": TWO}, False),
    ("replace_disks", DROP, {}, True),
    ("replace_disks", DROP, {"step.new": TWO}, False),
    ("replace_disks", DROPPED, {"instance_disks_told": {"disks": []}}, True),
    *(("replace_disks", DROPPED, {"instance_disks_told": one}, False) for one in (SILENT, FAILED)),
    ("replace_disks", DROPPED, {"instance_disks_told": {"disks": []}, "step.old_reachable": False}, False),
    ("start_look", "Judge whether the primary has the older replica", UP, True),
]


@pytest.mark.parametrize(("file", "name", "told", "expected"), STEPS)
def test_a_step_runs_where_what_it_needs_is_known(file: str, name: str, told: Told, expected: bool) -> None:
    assert role_tasks.runs("instance", role_tasks.task("instance", file, name), {**GUARDED, **told}) is expected


@pytest.mark.parametrize(
    ("file", "order"),
    [
        ("failover", [OBJECTED[0], "Stop the instance on its primary", STOP, OBJECTED[1], CLOSE, DEMOTED, OPEN]),
        ("failover", [NOTED, OBJECTED[1], READ_AGAIN, NOT_OFF, OPEN]),
        ("failover_look", ["Note when the target is asked", "Ask the target for its replica"]),
        ("failover", [OPEN, WRITES, CLOSE_FORCED, DOWN_AGAIN, "Record the new primary"]),
        ("failover_back", [CLOSE_TARGET, "Start the instance again where it was"]),
        ("fence_source", [OFF, FENCE]),
        ("migrate_live", ["Ask the target whether the instance runs there", ARRIVED, "Record the new primary"]),
        ("remove_replica", [RUNNING, OTHERS, COMPARE, WROTE, "Remove the replica"]),
        (
            "replace_disks",
            [
                REPLACE,
                "Remove the replica that is made again on the same node",
                MAKING,
                "Make a replica on the new secondary",
                "Disconnect the new secondary until the primary waits for it",
                "Disconnect what may connect in its place",
                "Have the primary copy to the new secondary",
                "Have the new secondary connect to the primary",
                "Judge whether the new secondary has the data",
                MADE,
                "Record the new secondary, and that the old replica is left behind",
                IN_SYNC,
                DROP,
                DROPPED,
            ],
        ),
    ],
)
def test_what_may_refuse_is_asked_before_what_cannot_be_undone(file: str, order: list[str]) -> None:
    assert [one["name"] for one in role_tasks.tasks("instance", file) if one["name"] in order] == order


def test_the_time_since_when_a_source_is_off_is_noted_once_that_is_known() -> None:
    again = role_tasks.task("instance", "failover", "Look at both nodes again")
    told = {"instance_time_look": 10.0, "instance_time_off": 70.0}
    assert role_tasks.value("instance", again["vars"]["instance_look_times"], told) == {"look": 10.0, "seen_off": 70.0}
    text = (role_tasks.ROLES / "instance/tasks/failover_act.yml").read_text()
    assert text.index("import_tasks: fence_source.yml") < text.index(NOTED) < text.index(again["name"])


@pytest.mark.parametrize(
    ("told", "by"),
    [
        (NOT_STOPPED, "bmc"),
        ({**NOT_STOPPED, "instance_stop": {"running": False}}, ""),
        ({**NOT_STOPPED, "instance_fence": unconfirmed("off", "off", "refused")}, ""),
        (
            {
                **NOT_STOPPED,
                "instance_fence": unconfirmed("off", "off", "refused"),
                "step.source_stated_off": True,
            },
            "stated",
        ),
    ],
)
def test_an_off_that_its_bmc_did_not_take_is_no_word_of_the_bmc(told: Told, by: str) -> None:
    assert role_tasks.value("instance", "{{ instance_fenced_by }}", {**GUARDED, **told}) == by


@pytest.mark.parametrize(
    ("told", "command"),
    [
        ({"instance_life": {"alive": "it runs programs"}, "instance_fence": SKIPPED}, "node power off node1 --force"),
        ({"instance_life": ACCEPTS, "instance_fence": READS_ON}, "node power off node1 --force"),
        ({"instance_life": ACCEPTS, "instance_fence": FAILED}, "node confirm-off node1"),
        ({"instance_life": ACCEPTS, "instance_fence": SKIPPED, "step.source_oob": ""}, "node confirm-off node1"),
    ],
)
def test_a_refusal_for_a_source_that_is_not_fenced_names_the_command_that_its_bmc_allows(
    told: Told, command: str
) -> None:
    text = role_tasks.value("instance", "{{ instance_fence_remedy }}", {**GUARDED, **told})
    assert f"`roundsman {command}`" in text


@pytest.mark.parametrize(
    ("file", "removes"),
    [
        ("recreate_disks", "Remove its disks, those of the primary last"),
        ("instance_remove", "Remove its disks from each of its nodes"),
    ],
)
def test_each_node_answers_before_anything_of_an_instance_is_removed(file: str, removes: str) -> None:
    asks = "See that each of its nodes answers, before anything of it is removed"
    names = [one["name"] for one in role_tasks.tasks("instance", file)]
    one = role_tasks.task("instance", file, asks)
    assert names.index(asks) < names.index(removes)
    assert one["ansible.builtin.include_tasks"] == "disks_of_member.yml"
    assert one["loop"] == "{{ instance_members }}"
    assert (one["when"], one["vars"]["instance_disks_state"], one["vars"]["instance_disks_may_fail"]) == (
        [],
        "info",
        False,
    )


AS_THEY_SHALL_BE = "Work on disks: {{ instance_disks_work }}"


def test_the_name_of_a_step_says_what_is_done_to_which_disks_on_which_node() -> None:
    member = {"uuid": "n3", "name": "node3"}
    for state in disks.State:
        known = {**GUARDED, "instance_disks_state": state.value, "instance_member": member}
        told = role_tasks.value("instance", "{{ instance_disks_work }}", known)
        assert told.endswith(f"of {DRBD['name']} on node3"), told
    known |= {"instance_disks_state": "standby", "instance": {**DRBD, "disks": [{"size": 1}]}}
    assert (
        role_tasks.value("instance", "{{ instance_disks_work }}", known) == f"demote disk 0 of {DRBD['name']} on node3"
    )
    known["instance"] = {**DRBD, "disks": [{"size": 1}] * 3}
    assert "disks 0 to 2 of" in role_tasks.value("instance", "{{ instance_disks_work }}", known)


@pytest.mark.parametrize(
    ("may_fail", "told", "fails"), [(False, FAILED, True), (False, SYNCED, False), (True, FAILED, False)]
)
def test_disks_that_are_not_as_they_shall_be_end_the_play(may_fail: bool, told: Told, fails: bool) -> None:
    one = role_tasks.task("instance", "disks_of_member", AS_THEY_SHALL_BE)
    failing = {**one, "when": [one["failed_when"]]}
    known = {**GUARDED, "instance_disks_told": told, "instance_disks_may_fail": may_fail}
    assert role_tasks.runs("instance", failing, known) is fails


@pytest.mark.parametrize(
    ("state", "keeps", "expected"), [("primary", True, True), ("present", True, False), ("primary", False, False)]
)
def test_a_replica_keeps_the_peer_that_it_has_unless_it_is_made(state: str, keeps: bool, expected: bool) -> None:
    one = role_tasks.task("instance", "disks_of_member", AS_THEY_SHALL_BE)
    known = {**GUARDED, "instance": {**DRBD, "keeps_peer": keeps}, "instance_disks_state": state}
    assert role_tasks.value("instance", one["vars"]["instance_peer_stays"], known) is expected


def test_what_a_step_asks_of_disks_reaches_the_module_on_its_node() -> None:
    one = role_tasks.task("instance", "disks_of_member", AS_THEY_SHALL_BE)
    passed = {
        "state": "disks_state",
        "new_secret": "disks_new_secret",
        "alone": "disks_alone",
        "force": "disks_force",
        "last": "disks_last",
        "generations": "disks_generations",
        "wait_synced": "disks_wait",
        "wait_connected": "disks_connecting",
    }
    known = {**GUARDED, **{f"instance_{name}": f"the {name}" for name in passed.values()}, "instance_member": TWO}
    module = one["roundsman.cluster.instance_disks"]
    asked = role_tasks.value("instance", {key: module[key] for key in (*passed, "uuid", "here")}, known)
    expected = {key: f"the {name}" for key, name in passed.items()}
    assert asked == {**expected, "uuid": "u-web1", "here": {"name": "node2"}}
    assert role_tasks.value("instance", one["delegate_to"], known) == "node2"
    peer = {"instance_peer_stays": False, "instance_peer_number": 1, "omit": "none"}
    known |= {**peer, "instance": {**DRBD, "keeps_peer": False}}
    known |= {
        name: role_tasks.value("instance", one["vars"][name], known) for name in ("instance_peer", "instance_number")
    }
    assert role_tasks.value("instance", module["peer"], known) == {"name": "node1", "node_id": 1}
    assert role_tasks.value("instance", module["peer"], {**known, "instance_peer_stays": True}) == "none"


# What a step may do to disks beyond what DRBD and the module allow by themselves; no other step may.
ALLOWED = {
    ("activate_disks", "instance_disks_alone"): [True],
    ("failover", "instance_disks_alone"): ["{{ instance_check.alone }}"],
    ("failover", "instance_disks_force"): ["{{ instance_check.forced | length > 0 }}"],
    ("failover_act", "instance_disks_alone"): ["{{ instance_check.alone }}"],
    ("failover_act", "instance_disks_force"): ["{{ instance_check.forced | length > 0 }}"],
    ("recreate_disks", "instance_disks_last"): [True],
    ("reinstall", "instance_disks_alone"): [True],
    ("instance_remove", "instance_disks_last"): [True],
    ("remove_replica", "instance_disks_last"): [True],
    ("replace_disks", "instance_disks_alone"): [True],
    ("replace_disks", "instance_disks_last"): [True, "{{ instance_old_judged }}"],
    ("replace_disks", "instance_disks_new_secret"): ["{{ not instance_is_copied }}"] * 3,
    ("start", "instance_disks_alone"): [True],
    ("startup", "instance_disks_force"): ["{{ step.discarded | length > 0 }}"],
}


def test_no_step_but_those_that_checked_before_opens_alone_forces_removes_the_last_or_changes_a_secret() -> None:
    switches = [f"instance_disks_{name}" for name in ("alone", "force", "last", "new_secret")]
    found: dict[tuple[str, str], list[Any]] = {}
    for path in sorted((role_tasks.ROLES / "instance/tasks").glob("*.yml")):
        for one in role_tasks.tasks("instance", path.stem):
            for name in one.get("vars", {}).keys() & set(switches):
                found.setdefault((path.stem, name), []).append(one["vars"][name])
    assert found == ALLOWED
    assert [role_tasks.value("instance", "{{ " + name + " }}", GUARDED) for name in switches] == [False] * 4


@pytest.mark.parametrize(
    ("primary", "new", "expected"),
    [
        ([("node3", True)], "node3", True),
        ([("node3", True), ("node3", False)], "node3", False),
        ([("node3", True), ("", True)], "node3", False),
        ([("node2", True)], "node3", False),
        # What the primary is connected to is removed, and made there again.
        ([("node2", True)], "node2", False),
        ([("node3", True)], "node2", False),
    ],
)
def test_only_a_new_secondary_to_which_the_primary_copies_already_stays_connected(
    primary: list[tuple[str, bool]], new: str, expected: bool
) -> None:
    one = role_tasks.task(
        "instance", "replace_disks", "Remember whether the primary copies to the new secondary already"
    )
    disks = [{"peer": peer, "connected": is_connected} for peer, is_connected in primary]
    known = {**GUARDED, "instance_at_primary": {"disks": disks}}
    known |= {"step.new": {"uuid": new, "name": new}, "step.old": {"uuid": "node2", "name": "node2"}}
    assert role_tasks.value("instance", one["ansible.builtin.set_fact"], known) == {"instance_is_copied": expected}
    step = role_tasks.task("instance", "replace_disks", "Disconnect the new secondary until the primary waits for it")
    assert role_tasks.runs("instance", step, {**known, "instance_is_copied": expected}) is not expected
    secrets = [
        role_tasks.value(
            "instance", one["vars"]["instance_disks_new_secret"], {**known, "instance_is_copied": expected}
        )
        for one in role_tasks.tasks("instance", "replace_disks")
        if "instance_disks_new_secret" in one.get("vars", {})
    ]
    assert secrets == [not expected] * 3, "both nodes keep theirs, or both get the new one"


@pytest.mark.parametrize(
    ("told", "reachable", "judged"),
    [(SYNCED, True, True), (SYNCED, False, False), (SILENT, True, False), (FAILED, True, False)],
)
def test_only_a_replica_that_was_judged_is_removed_as_the_last(told: Told, reachable: bool, judged: bool) -> None:
    one = role_tasks.task("instance", "replace_disks", "Remember whether the replica of the old secondary was judged")
    known = {**GUARDED, "instance_disks_told": told, "step.old_reachable": reachable}
    assert role_tasks.value("instance", one["ansible.builtin.set_fact"], known) == {"instance_old_judged": judged}


OF_OLD = "Ask the old secondary for its replica, and bring it up where it is down"
ANEW = "Remove the replica that is made again on the same node"
MAKE = "Make a replica on the new secondary"
APART = "Disconnect the new secondary until the primary waits for it"
COPY = "Have the primary copy to the new secondary"
CONNECT = "Have the new secondary connect to the primary"
WAIT = "Wait until its replicas are equal"
ASKED = {"generations": True, "may_fail": True}
ANEW_SECRET = {"new_secret": True}
REPLACING: list[tuple[str, str, str, dict[str, Any]]] = [
    ("Ask the primary for its replica", "step.primary", "info", {"generations": True}),
    (OF_OLD, "step.old", "standby", {**ASKED, "ignore_unreachable": True}),
    (ANEW, "step.old", "absent", {"last": True}),
    (MAKE, "step.new", "present", {**ANEW_SECRET, "peer_number": 1}),
    (APART, "step.new", "disconnected", {}),
    (
        "Disconnect what may connect in its place",
        "step.let_go",
        "disconnected",
        {"may_fail": True, "ignore_unreachable": True},
    ),
    (COPY, "step.primary", "active", {**ANEW_SECRET, "alone": True}),
    (CONNECT, "step.new", "present", {**ANEW_SECRET, "peer_number": 1}),
    (WAIT, "step.primary", "disks_synced.yml", {}),
    ("Ask the primary for what it has copied", "step.primary", "info", ASKED),
    ("Ask the new secondary for what it has received", "step.new", "info", ASKED),
    ("Ask the primary once more, before the old replica is removed", "step.primary", "info", {}),
    (DROP, "step.old", "absent", {"last": True, "ignore_unreachable": True}),
]
REPLACED: Told = {
    **GUARDED,
    "instance_old_judged": True,
    "instance_is_copied": False,
    "instance_at_primary": {"node_id": 1},
    "step.let_go": [THREE],
}


def included(one: role_tasks.Task, known: Told) -> tuple[str, str, str, Told]:
    """A task's name, the variable with the node or nodes at which it is done, the state that it asks for, and more."""
    includes, asked, loop = one["ansible.builtin.include_tasks"], one.get("vars", {}), one.get("loop_control", {})
    told = includes if isinstance(includes, dict) else {"file": includes}
    more = {
        name: role_tasks.value("instance", asked[f"instance_{prefix}{name}"], known)
        for prefix, names in (
            ("disks_", ("generations", "last", "alone", "force", "new_secret", "may_fail")),
            ("", ("peer_number",)),
        )
        for name in names
        if f"instance_{prefix}{name}" in asked
    }
    more |= told.get("apply", {})
    member = one["loop"] if loop.get("loop_var") == "instance_member" else asked["instance_member"]
    state = told["file"]
    if state == "disks_of_member.yml":
        state = role_tasks.value("instance", asked["instance_disks_state"], known)
    return one["name"], member.strip("{ }"), state, {name: each for name, each in more.items() if each}


def test_each_step_of_a_replacement_is_at_its_node() -> None:
    steps = [one for one in role_tasks.tasks("instance", "replace_disks") if "ansible.builtin.include_tasks" in one]
    assert [included(one, REPLACED) for one in steps] == REPLACING
    (down,) = [included(one, {**REPLACED, "instance": DOWN}) for one in steps if one["name"] == COPY]
    assert down[2] == "present", "nothing opens the disks of an instance that is down"


@pytest.mark.parametrize(
    ("told", "left_out"),
    [
        ({}, {ANEW}),
        # What is connected already is not disconnected; all else is done again.
        ({"instance_is_copied": True}, {ANEW, APART}),
        ({"step.old_reachable": False}, {ANEW, OF_OLD, DROP}),
        ({"step.new": TWO}, {DROP}),
        ({"instance_old_kept": "the replica of web1 on node2 may have writes that no other has"}, {ANEW, DROP}),
        (
            {"instance": {**DRBD, "disk_template": "plain"}},
            {name for name, *_ in REPLACING} - {MAKE, DROP},
        ),
    ],
)
def test_a_replacement_leaves_no_step_out_but_what_does_not_apply(told: Told, left_out: set[str]) -> None:
    known = {**REPLACED, **told}
    one = {each["name"]: each for each in role_tasks.tasks("instance", "replace_disks")}
    assert {name for name, *_ in REPLACING if not role_tasks.runs("instance", one[name], known)} == left_out


def test_a_replacement_holds_its_instance_alone_and_every_node_where_it_changes_something() -> None:
    four = {"uuid": "u-node4", "name": "node4"}
    hold = role_tasks.task("instance", "replace_disks", "Hold the instance and its nodes")
    known = {**GUARDED, "step.let_go": [four]}
    known["held"] = role_tasks.value("instance", hold["vars"]["held"], known)
    held = role_tasks.value("instance", hold["roundsman.cluster.hold"], known)
    assert held == {
        "instances": {"u-web1": "exclusive"},
        "nodes": {one["uuid"]: "shared" for one in (ONE, TWO, THREE, four)},
    }


SYNCING = "Wait until the replicas are equal"


@pytest.mark.parametrize(("told", "is_over"), [(SYNCED, True), (UNSYNCED, False), (FAILED, True)])
def test_replicas_are_waited_for_at_the_node_that_was_named(told: Told, is_over: bool) -> None:
    one = role_tasks.task("instance", "disks_synced", SYNCING)
    known = {**GUARDED, "instance_member": TWO, "instance_sync": told}
    assert role_tasks.value("instance", one["delegate_to"], known) == "node2"
    assert role_tasks.runs("instance", {"when": [one["until"]]}, known) is is_over
    assert one["roundsman.cluster.instance_disks"]["state"] == "info"
    assert one["roundsman.cluster.instance_disks"]["wait_synced"] > 0


ENDLESS: Told = {
    "failed": True,
    "msg": "Task failed: Action failed: Unknown error.",
    "attempts": 3,
    "synced": False,
    "disks": [{"text": "SyncSource 50 %"}, {"text": "SyncSource 60 %"}],
    "_ansible_delegated_vars": {"ansible_delegated_host": "node1"},
}


@pytest.mark.parametrize(
    ("failed", "expected"),
    [
        (FAILED, "the module crashed"),
        ({**FAILED, "_ansible_delegated_vars": {"ansible_delegated_host": "node3"}}, "node3: the module crashed"),
        ({"failed": True}, "no reason is known"),
        # Ansible's own message where the tries are over says nothing.
        (ENDLESS, "node1: the replicas of web1 are still not in sync (SyncSource 50 %, SyncSource 60 %)"),
    ],
)
@pytest.mark.parametrize(
    ("new", "kept"),
    [(THREE, "web1 keeps its replica on node2"), (TWO, "the new replica of web1 on node2 is not in sync")],
)
def test_a_replacement_that_fails_says_where_and_why_and_how_it_goes_on(
    failed: Told, expected: str, new: Told, kept: str
) -> None:
    one = role_tasks.task("instance", "replace_disks", "Say how the new secondary is made when a step fails")
    known = {**GUARDED, "step.new": new, "ansible_failed_result": failed}
    again = f"Run `roundsman instance replace-disks web1 --to {new['name']}` again"
    assert role_tasks.value("instance", one["ansible.builtin.fail"]["msg"], known) == f"{kept}: {expected}. {again}"
    keeps = role_tasks.task("instance", "replace_disks", MADE)
    known |= check("node3 is behind")
    assert (
        role_tasks.value("instance", keeps["ansible.builtin.fail"]["msg"], known) == f"{kept}: node3 is behind. {again}"
    )
    waited = role_tasks.task("instance", "disks_synced", "Say why the replicas are not equal")
    assert role_tasks.value("instance", waited["ansible.builtin.fail"]["msg"], known) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (REPLACE, "The replica of web1 on node2 was not replaced: it is needed"),
        (
            IN_SYNC,
            (
                "web1 has its new secondary on node3, but the two are not in sync any more (50 %): the old replica is "
                "left on node2"
            ),
        ),
    ],
)
def test_a_replacement_that_ends_says_what_it_left(name: str, expected: str) -> None:
    one = role_tasks.task("instance", "replace_disks", name)
    known = {**GUARDED, **check("it is needed"), "instance_disks_told": UNSYNCED}
    assert role_tasks.value("instance", one["ansible.builtin.fail"]["msg"], known) == expected


def test_every_step_of_a_replacement_from_its_first_change_to_its_resync_says_how_it_goes_on() -> None:
    file = role_tasks.ROLES / "instance/tasks/replace_disks.yml"
    (block,) = (each for each in yaml.safe_load(file.read_text()) if "block" in each)
    names = [one["name"] for one in role_tasks.tasks("instance", "replace_disks")]
    first, last = names.index("Refuse before anything is removed"), names.index("Wait until its replicas are equal")
    assert [one["name"] for one in block["block"]] == names[first + 1 : last + 1]
    assert block.keys() == {"name", "block", "rescue"}
    assert [one["name"] for one in block["rescue"]] == ["Say how the new secondary is made when a step fails"]


@pytest.mark.parametrize(("new", "runs"), [(TWO, True), (THREE, False)])
def test_only_a_replica_that_is_made_on_the_same_node_is_removed_first(new: Told, runs: bool) -> None:
    one = role_tasks.task("instance", "replace_disks", "Remove the replica that is made again on the same node")
    assert role_tasks.runs("instance", one, {**GUARDED, "step.new": new}) is runs


def test_who_is_judged_and_what_is_recorded_of_a_replacement() -> None:
    known = {**GUARDED, "instance_at_primary": "at primary", "instance_copied": "copied", "instance_disks_told": SYNCED}
    old = role_tasks.task("instance", "replace_disks", "Judge whether the replica of the old secondary is needed")
    (judged,) = [one for key, one in old.items() if key.endswith("replica_check")]
    asked = role_tasks.value("instance", judged, {**known, "instance_old_answered": True})
    assert (asked["primary"]["name"], asked["old"]["name"], "made" in asked) == ("node1", "node2", False)
    assert (asked["primary"]["disks"], asked["old"]["disks"]) == ("at primary", SYNCED)
    new = role_tasks.task("instance", "replace_disks", "Judge whether the new secondary has the data")
    (judged,) = [one for key, one in new.items() if key.endswith("replica_check")]
    asked = role_tasks.value("instance", judged, known)
    assert (asked["primary"]["name"], asked["old"]["name"], asked["made"]) == ("node1", "node3", True)
    assert (asked["primary"]["disks"], asked["old"]["disks"]) == ("copied", SYNCED)
    record = role_tasks.task("instance", "replace_disks", MAKING)["roundsman.cluster.record"]
    told = role_tasks.value("instance", record, {**known, **check("", generations=[])})
    assert (told["node"], told["present"], told["is_new"]) == ("u-node3", True, True)


@pytest.mark.parametrize(
    ("reachable", "new", "told", "answered"),
    [
        (True, THREE, SYNCED, True),
        (True, THREE, FAILED, False),
        # On the same node nothing is removed that was not judged.
        (True, TWO, FAILED, True),
        (False, THREE, SYNCED, False),
    ],
)
def test_what_the_old_secondary_said_is_judged(reachable: bool, new: Told, told: Told, answered: bool) -> None:
    one = role_tasks.task("instance", "replace_disks", "Judge whether the replica of the old secondary is needed")
    known = {**GUARDED, "step.old_reachable": reachable, "step.new": new, "instance_disks_told": told}
    assert role_tasks.value("instance", one["vars"]["instance_old_answered"], known) is answered


def test_a_replacement_judges_with_what_is_on_record_and_records_what_was_judged() -> None:
    judges = role_tasks.task("instance", "replace_disks", "Judge whether the replica of the old secondary is needed")
    records = role_tasks.task("instance", "replace_disks", MAKING)
    known = {**GUARDED, **check("", generations=["00000000000000a0"]), "step.old_generations": ["00000000000000b0"]}
    asked = {"instance_at_primary": SYNCED, "instance_disks_told": UNSYNCED, "instance_old_answered": True}
    told = role_tasks.value("instance", judges["roundsman.cluster.replica_check"], {**known, **asked})
    assert (told["recorded"], told["old"]["disks"]) == (["00000000000000b0"], UNSYNCED)
    names = [one["name"] for one in role_tasks.tasks("instance", "replace_disks")]
    between = role_tasks.tasks("instance", "replace_disks")[names.index(judges["name"]) + 1 : names.index(MAKING)]
    assert not [one for one in between if one.get("register") == "instance_check"]
    change = recording.decode(role_tasks.value("instance", records["roundsman.cluster.record"], known))
    assert change == left_replicas.ReplicaLeft("u-web1", "u-node3", True, True, ("00000000000000a0",))


def test_a_step_of_an_evacuation_has_what_was_planned_for_it() -> None:
    included = role_tasks.task("evacuate", "move", "Do the step")
    planned = {"instance": {"name": "web1"}, "old": {"name": "node2"}}
    known = {"evacuate_step": {"kind": "replace_disks", "variables": planned}}
    assert role_tasks.value("evacuate", included["vars"], known) == {"step": planned}
    asked = role_tasks.value("evacuate", included["ansible.builtin.include_role"], known)
    assert asked == {"name": "roundsman.cluster.instance", "tasks_from": "replace_disks"}


@pytest.mark.parametrize("has_replicas", [False, True])
def test_before_memory_is_sent_to_it_the_target_and_no_other_node_confirms_its_address(*, has_replicas: bool) -> None:
    known = {**GUARDED, "instance_has_replicas": has_replicas, "roundsman_opcode": "migrate"}
    asked = []
    for one in role_tasks.tasks("instance", "migrate_live"):
        given = one.get("vars", {})
        if "instance_disks_own_address" not in given or not role_tasks.runs("instance", one, known):
            continue
        for member in [ONE, TWO] if "loop" in one else [role_tasks.value("instance", given["instance_member"], known)]:
            told = {**known, "instance_member": member}
            if role_tasks.value("instance", given["instance_disks_own_address"], told) is True:
                asked.append((one["name"], member["name"]))
    [(name, node)] = asked
    names = [one["name"] for one in role_tasks.tasks("instance", "migrate_live")]
    assert node == "node2"
    assert names.index(name) < names.index("Hand the running instance over to its new primary")
    module = next(one for one in role_tasks.tasks("instance", "disks_of_member") if "timeout" in one)
    (arguments,) = (value for key, value in module.items() if key.endswith(".instance_disks"))
    told = {**known, "instance_disks_own_address": True}
    assert role_tasks.value("instance", arguments["own_address"], told) is True


def test_that_an_instance_may_run_on_either_node_is_on_record_before_it_is_handed_over() -> None:
    names = [one["name"] for one in role_tasks.tasks("instance", "migrate_live")]
    order = [
        "Record that it may run on either node from now on",
        "Hand the running instance over to its new primary",
        "Record the new primary",
    ]
    assert [name for name in names if name in order] == order


@pytest.mark.parametrize(
    ("source", "is_fenced", "is_refused"),
    [
        ({"states": {}}, False, False),
        ({"states": {DRBD["name"]: "running"}}, False, True),
        ({"states": {DRBD["name"]: "paused in migration"}}, False, True),
        (SILENT, True, False),
        (FAILED, True, False),
        (SKIPPED, True, False),
    ],
)
def test_a_guest_is_recorded_where_a_migration_took_it_once_its_source_has_not_got_it_or_is_off(
    source: Told, is_fenced: bool, is_refused: bool
) -> None:
    told = {"instance_source_guests": source}
    fence = role_tasks.task("instance", "failover_adopt", "Make sure that a source that does not say so has no power")
    twice = role_tasks.task("instance", "failover_adopt", "Refuse to record an instance that both nodes have")
    assert role_tasks.runs("instance", fence, {**GUARDED, **told}) is is_fenced
    assert role_tasks.refuses("instance", twice, {**GUARDED, **told}) is is_refused
    if is_refused:
        text = role_tasks.value("instance", twice["ansible.builtin.fail"]["msg"], {**GUARDED, **told, **ENDS})
        is_twice = source["states"][DRBD["name"]] == "running"
        where = "the node whose guest has the older data" if is_twice else ONE["name"]
        assert text.endswith(f": run `virsh destroy it` on {where}, then retry")
    names = [one["name"] for one in role_tasks.tasks("instance", "failover_adopt")]
    assert names.index(fence["name"]) < names.index("Record it where it runs")
    assert not any("start" in name.lower() for name in names)


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ({"step.unfinished": False}, True),
        ({"step.unfinished": True, "instance_whereabouts": {"step": "stays"}}, True),
        ({"step.unfinished": True, "instance_whereabouts": {"step": "nowhere"}}, True),
        ({"step.unfinished": True, "instance_whereabouts": {"step": "moved"}}, False),
        ({"step.unfinished": True, "instance_whereabouts": {"step": "fail over"}}, False),
    ],
)
def test_an_instance_is_started_on_its_primary_unless_it_runs_elsewhere(told: Told, expected: bool) -> None:
    starts = role_tasks.task("instance", "startup", "Start the instance on its primary")
    assert role_tasks.runs("instance", starts, {**GUARDED, **told}) is expected


RUNS_THERE = "Record that it is where it was"
RAN_NOWHERE = "Record that no migration may have taken it elsewhere"


@pytest.mark.parametrize(
    ("step", "recorded"), [("stays", [RUNS_THERE]), ("nowhere", [RAN_NOWHERE]), ("moved", []), ("fail over", [])]
)
def test_that_an_instance_runs_nowhere_is_recorded_after_its_replicas_were_compared_and_before_it_starts(
    step: str, recorded: list[str]
) -> None:
    known = {**GUARDED, "step.unfinished": True, "instance_whereabouts": {"step": step}}
    look = role_tasks.task("instance", "start_unfinished", RUNS_THERE)
    start = role_tasks.task("instance", "startup", RAN_NOWHERE)
    assert [one["name"] for one in (look, start) if role_tasks.runs("instance", one, known)] == recorded
    assert not role_tasks.runs("instance", start, {**GUARDED, "step.unfinished": False})
    names = [one["name"] for one in role_tasks.tasks("instance", "startup")]
    order = [
        "Bring up its replicas, and see that its primary has not the older one",
        RAN_NOWHERE,
        "Start the instance on its primary",
    ]
    assert [name for name in names if name in order] == order
    given = {**known, "step.secondaries": [TWO["uuid"]]}
    change = recording.decode(role_tasks.value("instance", start["roundsman.cluster.record"], given))
    assert change == changes.InstanceNodes(DRBD["uuid"], ONE["uuid"], (TWO["uuid"],))


@pytest.mark.parametrize(
    ("file", "name", "step", "expected"),
    [
        ("startup", "Start the instance on its primary", "", False),
        ("startup", "Start the instance on its primary", "stays", False),
        ("startup", "Start the instance on its primary", "nowhere", True),
        ("failover_back", "Start the instance again where it was", "", False),
        ("failover_back", "Start the instance again where it was", "fail over", False),
        ("failover", "Start the instance on its new primary", "", True),
        ("failover", "Start the instance on its new primary", "fail over", True),
    ],
)
def test_the_start_of_a_guest_is_told_what_was_found_out_about_other_nodes(
    file: str, name: str, step: str, *, expected: bool
) -> None:
    included = role_tasks.task("instance", file, name).get("vars", {})
    given = {key: included[key] for key in included.keys() & {"instance_runs_nowhere"}}
    asked = role_tasks.task("instance", "start_guest", "Start the instance")["roundsman.cluster.instance_state"]
    known = {**GUARDED, "step.unfinished": bool(step), "instance_whereabouts": {"step": step}, **given}
    assert role_tasks.value("instance", asked["runs_nowhere"], known) is expected


@pytest.mark.parametrize(("step", "must"), [("", False), ("stays", False), ("nowhere", True)])
def test_what_the_other_node_answered_is_compared_though_its_replica_is_down_and_must_be_if_it_may_have_run_there(
    step: str, *, must: bool
) -> None:
    judged = role_tasks.task("instance", "start_look", "Judge whether the primary has the older replica")
    asked = judged["roundsman.cluster.replica_check"]
    answer = {"failed": True, "msg": "the kernel has no DRBD"}
    known = {**GUARDED, "step.unfinished": bool(step), "instance_whereabouts": {"step": step}}
    known["instance_replica_answer"] = answer
    assert role_tasks.value("instance", asked["may_have_run"], known) is must
    assert role_tasks.value("instance", asked["old"]["disks"], known) == answer


@pytest.mark.parametrize("unfinished", [True, False])
def test_the_role_of_a_replica_does_not_say_where_an_instance_was_whose_migration_has_not_ended(
    *, unfinished: bool
) -> None:
    look = role_tasks.task("instance", "find_instance", "See which replica is primary where the instance runs nowhere")
    nowhere = {"results": [{"item": node, "states": {}, "running": []} for node in (ONE, TWO)]}
    known = {**GUARDED, "step.unfinished": unfinished, "instance_look": nowhere}
    assert role_tasks.runs("instance", look, known) is not unfinished
