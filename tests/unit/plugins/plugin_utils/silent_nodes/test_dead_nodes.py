"""Silence alone moves nothing; a node is dead when its power is known to be off."""

from __future__ import annotations

import dataclasses
import enum
import itertools

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent import diagnosis
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.power import power
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import json_values
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import incidents
from ansible_collections.roundsman.cluster.plugins.plugin_utils.silent_nodes import dead_nodes, witnesses
from ansible_collections.roundsman.cluster.plugins.plugin_utils.silent_nodes.dead_nodes import Reading, Silence, Step
from ansible_collections.roundsman.cluster.plugins.plugin_utils.silent_nodes.witnesses import Finding, Peer, Word

LONG = Silence(misses=5, since=100.0, ssh_misses=5)
ON, OFF, UNKNOWN = (Reading(state) for state in (power.State.ON, power.State.OFF, power.State.UNKNOWN))
FENCED = Reading(power.State.OFF, is_commanded=True, is_fenced=True)
DENIED = Reading(power.State.ON, is_commanded=True)
UNSTEADY = Reading(power.State.OFF, is_commanded=True)
ALIVE = Reading(power.State.UNKNOWN, is_commanded=True, alive="it is alive: its SSH port accepts connections")
WITNESS = (Peer("node3", Word.LOST, 110.0, reaches=True),)
DEAF = (Peer("node3", Word.CONNECTED, 130.0),)
OUTVOTED = (*DEAF, Peer("node4", Word.LOST, 110.0), Peer("node5", Word.LOST, 110.0))
UNHEARD = (Peer("node3", Word.UNKNOWN, why="node3 has not reported since node2 fell silent"),)
DOUBTED = (Peer("node3", Word.LOST, 110.0, has_third=True),)
READINGS = (None, ON, OFF, UNKNOWN, FENCED, DENIED, UNSTEADY, ALIVE)


def cluster_of(count: int = 6, *, policy: str = "failover", oob: str = "ipmi") -> clusters.Cluster:
    """Nodes n1 to n<count>, of which n1 is the master; five misses in a row are too many."""
    nodes = {
        f"n{one}": clusters.Node(f"n{one}", f"node{one}", "g", ndparams={"oob_program": oob})
        for one in range(1, count + 1)
    }
    settings = clusters.Settings(dead_after=5, dead_node_policy=policy)
    return clusters.Cluster(
        clusters.Parameters("c", "c", "n1"),
        nodegroups={"g": clusters.Group("g", "default")},
        nodes=nodes,
        maintenance=clusters.Maintenance(settings=settings),
    )


def judged(
    cluster: clusters.Cluster,
    *,
    silence: Silence = LONG,
    reads: Reading | None = None,
    others: tuple[str, ...] = (),
    answering: int = 5,
    node: str = "n2",
    peers: tuple[Peer, ...] = WITNESS,
    booting: str = "",
) -> dead_nodes.Verdict:
    silences = {node: silence, **dict.fromkeys(others, LONG)}
    return dead_nodes.judge(
        cluster,
        cluster.nodes[node],
        silence=silence,
        silences=silences,
        answering=answering,
        reads=reads,
        peers=peers,
        booting=booting,
    )


def with_node(cluster: clusters.Cluster, **fields: object) -> clusters.Cluster:
    return clusters.with_node(cluster, dataclasses.replace(cluster.nodes["n2"], **fields))  # type: ignore[arg-type]


def test_a_few_misses_mean_nothing() -> None:
    assert judged(cluster_of(), silence=Silence(4, 100.0)) == dead_nodes.Verdict(Step.WAIT)


def test_where_nobody_asks_for_it_silence_means_nothing() -> None:
    cluster = cluster_of()
    settings = dataclasses.replace(cluster.maintenance.settings, dead_after=0)
    quiet = dataclasses.replace(cluster, maintenance=dataclasses.replace(cluster.maintenance, settings=settings))
    assert judged(quiet, silence=Silence(10**6, 0.0)) == dead_nodes.Verdict(Step.WAIT)


def test_the_bmc_of_a_silent_node_is_asked_first() -> None:
    assert judged(cluster_of()).step is Step.ASK


@pytest.mark.parametrize("policy", ["failover", "fence"])
def test_a_bmc_that_says_off_is_put_to_the_test_before_instances_start_elsewhere(policy: str) -> None:
    assert judged(cluster_of(policy=policy), reads=OFF).step is Step.CONFIRM
    assert judged(cluster_of(policy=policy), reads=FENCED).step is Step.FAIL_OVER


@pytest.mark.parametrize("reads", [None, ON, OFF, UNKNOWN])
def test_what_is_on_record_as_off_is_put_to_the_test_too(reads: Reading | None) -> None:
    cluster = with_node(cluster_of(), powered=False)
    assert judged(cluster, reads=reads).step is Step.CONFIRM
    assert judged(cluster, reads=FENCED).step is Step.FAIL_OVER


def test_a_bmc_that_takes_off_back_when_it_is_commanded_has_lied() -> None:
    verdict = judged(with_node(cluster_of(), powered=False), reads=DENIED)
    assert verdict.step is Step.WAIT
    assert "says that it is on when it is commanded off" in verdict.reason


def test_a_bmc_that_does_not_stay_with_its_answer_is_not_believed() -> None:
    verdict = judged(cluster_of(policy="fence"), reads=UNSTEADY)
    assert verdict.step is Step.WAIT
    assert "does not stay with its answer" in verdict.reason
    assert "roundsman node confirm-off node2" in verdict.unblock


@pytest.mark.parametrize(
    ("before", "answer"),
    [(power.State.OFF, power.Answer.REJECTED), (power.State.ON, power.Answer.LOST)],
)
def test_a_bmc_that_reads_off_and_took_no_off_is_not_believed_and_a_person_is_told_why(
    before: power.State, answer: power.Answer
) -> None:
    untaken = power.judge(
        power.Command.FENCE,
        name="node2",
        before=before,
        seen=[power.State.OFF] * 2,
        attempts=[power.Attempt(answer)],
        seconds=1.0,
        failure=power.Failure(power.Reason.AUTH, "access denied"),
    )
    verdict = judged(cluster_of(policy="fence"), reads=dead_nodes.reading(untaken))
    assert verdict.step is Step.WAIT
    assert "its BMC reads off but accepted no command to power off (auth)" in verdict.reason
    assert "its BMC repaired" in verdict.unblock
    assert "roundsman node confirm-off node2" in verdict.unblock


@pytest.mark.parametrize("powered", [True, False])
@pytest.mark.parametrize("policy", ["failover", "fence"])
def test_a_silent_node_that_is_alive_is_left_to_a_person(policy: str, *, powered: bool) -> None:
    verdict = judged(with_node(cluster_of(policy=policy), powered=powered), reads=ALIVE)
    assert verdict.step is Step.WAIT
    assert "it is alive: its SSH port accepts connections" in verdict.reason
    assert "roundsman node power off node2 --force" in verdict.unblock


def test_a_silent_bmc_stops_everything_and_says_what_a_person_must_confirm() -> None:
    verdict = judged(cluster_of(), reads=UNKNOWN)
    assert verdict.step is Step.WAIT
    assert "its BMC does not answer either" in verdict.reason
    assert "roundsman node confirm-off node2" in verdict.unblock


def test_a_node_without_a_bmc_waits_for_a_person() -> None:
    verdict = judged(cluster_of(oob="!"))
    assert verdict.step is Step.WAIT
    assert "confirm-off" in verdict.unblock


def test_what_a_person_has_confirmed_is_as_good_as_a_bmc() -> None:
    assert judged(with_node(cluster_of(oob="!"), off_confirmed=200.0)).step is Step.FAIL_OVER


def test_what_is_confirmed_before_a_sign_of_life_does_not_count_and_what_is_confirmed_after_it_does() -> None:
    recorded = with_node(cluster_of(policy="fence"), powered=False, off_since=10.0, alive_at=20.0)
    assert judged(recorded).step is Step.ASK
    assert judged(recorded, reads=ON).step is Step.FENCE
    for reads in (OFF, FENCED):
        verdict = judged(recorded, reads=reads)
        assert verdict.step is Step.WAIT
        assert "it showed that it lives, after it was known to be off" in verdict.reason
        assert "`roundsman node power off node2 --force`" in verdict.unblock
    again = with_node(recorded, off_since=21.0)
    assert (judged(again, reads=OFF).step, judged(again, reads=FENCED).step) == (Step.CONFIRM, Step.FAIL_OVER)

    stated = with_node(cluster_of(oob="!"), off_confirmed=10.0, off_since=10.0, alive_at=20.0)
    for blind in (stated, with_node(stated, off_confirmed=0.0, powered=False)):
        verdict = judged(blind)
        assert verdict.step is Step.WAIT
        assert "it showed that it lives, after it was known to be off" in verdict.reason
        assert "`roundsman node confirm-off node2`" in verdict.unblock
        assert "`roundsman node power" not in verdict.unblock, "nothing commands what has no BMC"
    assert judged(with_node(stated, off_confirmed=21.0, off_since=21.0)).step is Step.FAIL_OVER


@pytest.mark.parametrize(("policy", "step"), [("none", Step.WAIT), ("failover", Step.WAIT), ("fence", Step.FENCE)])
def test_a_node_that_is_on_is_powered_off_only_where_the_policy_says_so(policy: str, step: Step) -> None:
    verdict = judged(cluster_of(policy=policy), reads=ON)
    assert verdict.step is step
    assert "it may run its instances" in verdict.reason


def test_without_a_policy_a_node_that_is_off_is_only_told() -> None:
    verdict = judged(cluster_of(policy="none"), reads=OFF)
    assert verdict.step is Step.WAIT
    assert "roundsman evacuate node2 --failover" in verdict.unblock


def test_when_nobody_answers_the_fault_is_here() -> None:
    verdict = judged(cluster_of(policy="fence"), reads=ON, others=("n3",), answering=0)
    assert verdict.step is Step.WAIT
    assert "the fault may be here" in verdict.reason


@pytest.mark.parametrize(
    ("peers", "reason", "unblock"),
    [
        (DEAF, "but it is deaf, not dead: node3 reports at 1970-01-01 00:02:10 UTC", "its management link repaired"),
        (UNHEARD, "node3 has not reported since node2 fell silent", "the next report of node3"),
        (DOUBTED, "only node3 reports that it lost it", "the replication link of node3 restored"),
    ],
)
def test_a_node_that_is_on_is_not_powered_off_for_its_silence_alone(
    peers: tuple[Peer, ...], reason: str, unblock: str
) -> None:
    for reads in (ON, DENIED):
        verdict = judged(cluster_of(policy="fence"), reads=reads, peers=peers)
        assert verdict.step is Step.WAIT
        assert reason in verdict.reason
        assert unblock in verdict.unblock
        assert "`roundsman node power off node2 --force`" in verdict.unblock


def test_replication_that_lives_is_told_whatever_its_bmc_says_and_keeps_its_power() -> None:
    for cluster, reads in (
        (cluster_of(policy="failover"), ON),
        (cluster_of(policy="failover"), OFF),
        (cluster_of(policy="fence"), UNKNOWN),
        (cluster_of(oob="!"), None),
        (with_node(cluster_of(), powered=False), None),
    ):
        verdict = judged(cluster, reads=reads, peers=DEAF)
        assert verdict.step is Step.WAIT
        assert "it is deaf, not dead: node3 reports at" in verdict.reason
        assert verdict.unblock
    assert judged(cluster_of(), peers=DEAF).step is Step.ASK, "its BMC is read all the same"


def test_one_peer_that_all_others_contradict_does_not_keep_a_node_that_reads_off_from_being_confirmed() -> None:
    told = "but node3 alone reports at 1970-01-01 00:02:10 UTC that it is connected to it by replication"
    for cluster, reads, step in (
        (cluster_of(policy="fence"), OFF, Step.CONFIRM),
        (with_node(cluster_of(), powered=False), None, Step.CONFIRM),
        (cluster_of(policy="fence"), ON, Step.WAIT),
        (cluster_of(policy="fence"), UNKNOWN, Step.WAIT),
    ):
        verdict = judged(cluster, reads=reads, peers=OUTVOTED)
        assert verdict.step is step
        assert f"{told}, and node4 and node5 lost it" in verdict.reason
        assert judged(cluster, reads=reads, peers=(*OUTVOTED, *UNHEARD)).step is Step.WAIT


def test_answers_that_a_node_did_not_sign_keep_its_power_and_do_not_keep_its_death_from_being_confirmed() -> None:
    unsigned = Silence(misses=1, since=100.0, ssh_misses=9, unsigned=4)
    for reads, step in ((None, Step.ASK), (OFF, Step.CONFIRM), (FENCED, Step.FAIL_OVER), (ON, Step.WAIT)):
        for peers in ((), WITNESS):
            verdict = judged(cluster_of(policy="fence"), silence=unsigned, reads=reads, peers=peers)
            assert verdict.step is step
            assert "what answers as its agent has signed none of 5 answers" in verdict.reason
    assert judged(cluster_of(policy="fence"), silence=dataclasses.replace(unsigned, unsigned=3)).step is Step.WAIT
    answers_no_more = dataclasses.replace(unsigned, misses=5)
    assert judged(cluster_of(policy="fence"), silence=answers_no_more, reads=ON).step is Step.FENCE


def test_where_no_peer_can_say_it_the_silence_of_its_ssh_server_is_the_second_witness() -> None:
    pair = (Peer("node3", Word.LOST, 110.0),)
    for peers in ((), pair):
        for misses, step in ((0, Step.WAIT), (4, Step.WAIT), (5, Step.FENCE)):
            silence = Silence(9, 100.0, ssh_misses=misses)
            verdict = judged(cluster_of(policy="fence"), silence=silence, reads=ON, peers=peers)
            assert verdict.step is step
            waits = f"its SSH server has been silent for {misses} of 5 questions in a row"
            assert (waits in verdict.reason) is (step is Step.WAIT)
    greets = Silence(9, 100.0, ssh_misses=0)
    assert judged(cluster_of(policy="fence"), silence=greets, reads=ON, peers=WITNESS).step is Step.FENCE


def test_where_only_the_master_answers_no_node_is_powered_off_for_its_silence() -> None:
    """The controller is on the master: with its own network cut it hears that node, and no other."""
    pair = (Peer("node1", Word.LOST, 110.0),)
    for peers in ((), pair):
        verdict = judged(cluster_of(3, policy="fence"), reads=ON, others=("n3",), peers=peers)
        assert verdict.step is Step.WAIT
        assert "of all other nodes only the master answers: the fault may be here" in verdict.reason
        assert "another node that answers" in verdict.unblock
        assert judged(cluster_of(3, policy="fence"), reads=ON, peers=peers).step is Step.FENCE, "node3 answers"
        assert judged(cluster_of(2, policy="fence"), reads=ON, peers=peers).step is Step.FENCE, "there is no third node"
    away = clusters.with_node(
        cluster_of(3, policy="fence"), dataclasses.replace(cluster_of().nodes["n3"], offline=True)
    )
    assert judged(away, reads=ON, peers=pair).step is Step.FENCE, "node3 is not asked"
    witnessed = (Peer("node1", Word.LOST, 110.0, reaches=True),)
    assert judged(cluster_of(3, policy="fence"), reads=ON, others=("n3",), peers=witnessed).step is Step.FENCE


def test_in_a_storm_no_node_is_powered_off_for_its_silence() -> None:
    cluster = cluster_of(policy="fence")
    assert judged(cluster, reads=ON, others=("n3",)).step is Step.FENCE
    verdict = judged(cluster, reads=ON, others=("n3", "n4"))
    assert verdict.step is Step.WAIT
    assert "storm: 3 of 6" in verdict.reason


def test_nodes_that_answer_with_a_wrong_clock_hold_up_no_fence_of_a_dead_one() -> None:
    """Three of ten have another NTP server, an hour off; before today they were not silent, and n2 was fenced."""
    cluster = cluster_of(10, policy="fence")
    wrong = dead_nodes.Silence(0, 100.0, unsigned=500)
    silences = {"n2": LONG, "n8": wrong, "n9": wrong, "n10": wrong}

    def step(silent: dict[str, dead_nodes.Silence]) -> dead_nodes.Verdict:
        return dead_nodes.judge(
            cluster,
            cluster.nodes["n2"],
            silence=LONG,
            silences=silent,
            answering=10 - len(silent),
            reads=ON,
            peers=WITNESS,
        )

    assert step({"n2": LONG}).step is dead_nodes.Step.FENCE
    assert step(silences).step is dead_nodes.Step.FENCE, step(silences).reason


def test_the_master_is_never_taken_for_dead() -> None:
    assert judged(cluster_of(policy="fence"), node="n1", reads=OFF).step is Step.WAIT


def test_nothing_is_moved_or_powered_off_unless_the_power_is_known_whatever_else_is_true() -> None:
    for policy, oob, reads, powered, confirmed, answering, others, alive, peers in itertools.product(
        dead_nodes.POLICIES,
        ("ipmi", "!"),
        READINGS,
        (True, False),
        (0.0, 9.0),
        (0, 5),
        ((), ("n3",), ("n3", "n4")),
        (0.0, 20.0),
        ((), WITNESS, DEAF, OUTVOTED, UNHEARD, DOUBTED),
    ):
        cluster = with_node(
            cluster_of(policy=policy, oob=oob), powered=powered, off_confirmed=confirmed, off_since=9.0, alive_at=alive
        )
        step = judged(cluster, reads=reads, answering=answering, others=others, peers=peers).step
        has_lived = alive > 0 and (confirmed > 0 or not powered)
        is_off = not has_lived and (confirmed or (reads is FENCED and oob == "ipmi"))
        assert step is not Step.FAIL_OVER or (is_off and policy != "none")
        assert step is not Step.CONFIRM or (policy != "none" and oob == "ipmi" and answering and reads is not ALIVE)
        assert step is not Step.CONFIRM or (not has_lived and peers is not DEAF)
        assert step is not Step.FENCE or (policy == "fence" and reads in {ON, DENIED} and answering and len(others) < 2)
        assert step is not Step.FENCE or peers in {(), WITNESS}


@pytest.mark.parametrize("command", list(power.Command))
@pytest.mark.parametrize("before", list(power.State))
def test_only_a_fence_that_was_read_back_is_one(command: power.Command, before: power.State) -> None:
    off = [power.State.OFF] * 3
    sent = [power.Attempt(power.Answer.ACCEPTED)]
    outcome = power.judge(command, name="node2", before=before, seen=off, attempts=sent, seconds=1.0)
    assert dead_nodes.reading(outcome).is_fenced is command.fences
    unread = power.judge(command, name="node2", before=power.State.OFF, seconds=1.0)
    assert not dead_nodes.reading(unread).is_fenced


def test_the_report_of_a_dead_node_is_always_the_same_and_asks_for_failover() -> None:
    node = cluster_of().nodes["n2"]
    assert dead_nodes.report(node).canonical == dead_nodes.report(node).canonical
    assert dead_nodes.report(node).status is diagnosis.Status.EVACUATE_FAILOVER


def noted(cluster: clusters.Cluster, original: diagnosis.Diagnosis) -> clusters.Cluster:
    one = incidents.note(original, node="n2", uuid="i", now=1.0)
    return dataclasses.replace(cluster, maintenance=dataclasses.replace(cluster.maintenance, incidents=(one,)))


def test_a_dead_node_is_observed_while_it_is_off_or_silent() -> None:
    cluster = noted(cluster_of(), dead_nodes.report(cluster_of().nodes["n2"]))
    assert dead_nodes.observed(cluster, {}) == {}
    assert set(dead_nodes.observed(cluster, {"n2": LONG})) == {"n2"}
    assert set(dead_nodes.observed(with_node(cluster, powered=False), {})) == {"n2"}


def test_what_a_node_says_of_itself_is_not_taken_for_its_silence() -> None:
    said = diagnosis.parse('{"status": "evacuate-failover", "details": {"kind": "dead-node"}}')
    assert not noted(cluster_of(), said).maintenance.incidents[0].is_of_a_dead_node


def test_whether_an_incident_is_one_of_silence_is_read_once_however_often_it_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[str] = []
    parse = json_values.parse

    def reading(text: str) -> json_values.Value:
        read.append(text)
        return parse(text)

    told = diagnosis.parse('{"status": "evacuate-failover", "details": {"kind": "asked often"}}')
    incident = noted(cluster_of(), told).maintenance.incidents[0]
    monkeypatch.setattr(json_values, "parse", reading)
    assert not any(incident.is_of_a_dead_node for _ in range(3))
    assert read == [told.original]


def with_instance(cluster: clusters.Cluster) -> clusters.Cluster:
    instances = {
        "i1": clusters.Instance("i1", "instance1", "n2", ("n3",)),
        "i2": clusters.Instance("i2", "instance2", "n2", ("n3",), admin_state="down"),
    }
    return dataclasses.replace(cluster, instances=instances)


def test_a_node_that_nobody_can_ask_has_a_step_by_hand_for_its_instances() -> None:
    cluster = with_instance(cluster_of())
    step = dead_nodes.step_by_hand(cluster, cluster.nodes["n2"])
    assert step.startswith("node2 does not answer and is the primary of instance1: restore its network link")
    assert step.index("`roundsman node power off node2 --force`") < step.index("`roundsman evacuate node2 --failover`")
    assert dead_nodes.step_by_hand(cluster, cluster.nodes["n3"]) == "", "nothing should run there"
    assert dead_nodes.step_by_hand(cluster, dataclasses.replace(cluster.nodes["n2"], offline=True)) == ""
    off = dataclasses.replace(cluster.nodes["n2"], powered=False)
    assert dead_nodes.step_by_hand(cluster, off) == (
        "node2 is off and is the primary of instance1: power it on, or fail over with "
        "`roundsman evacuate node2 --failover`"
    )
    step = dead_nodes.step_by_hand(cluster, dataclasses.replace(off, off_since=10.0, alive_at=20.0))
    assert step.startswith("node2 is the primary of instance1, and at ")
    assert (
        "after it was known to be off: check on site whether node2 is on; if it is on, run `roundsman node power"
        in step
    )
    assert step.index("`roundsman node power off node2 --force`") < step.index("`roundsman evacuate node2 --failover`")
    has_lived = {"powered": False, "off_since": 10.0, "alive_at": 20.0}
    for fields in ({}, has_lived, {**has_lived, "offline": True}):
        blind = dataclasses.replace(cluster.nodes["n2"], ndparams={}, **fields)  # type: ignore[arg-type] # its fields
        step = dead_nodes.step_by_hand(cluster, blind)
        assert "`roundsman node confirm-off node2`" in step
        assert "`roundsman node power" not in step, "nothing commands what has no BMC"


def lived(**fields: object) -> clusters.Cluster:
    """The primary of instance1, which was recorded as off and has lived since."""
    known = {"powered": False, "off_since": 10.0, "alive_at": 20.0}
    return with_node(with_instance(cluster_of()), **{**known, **fields})


STATED: dict[str, object] = {"powered": True, "off_confirmed": 10.0}
POWER_ON, POWER_OFF = "`roundsman node power on node2`", "`roundsman node power off node2 --force`"
TAKEN_BACK, CORRECTED = "`roundsman node confirm-off node2 --undo`", "`roundsman node modify node2 --powered yes`"


@pytest.mark.parametrize(
    ("fields", "on", "off"),
    [
        ({}, f"{POWER_ON}, or {CORRECTED} if its BMC does not answer", POWER_OFF),
        (STATED, f"{POWER_ON}, or {TAKEN_BACK} if its BMC does not answer", POWER_OFF),
        ({"ndparams": {}}, CORRECTED, "`roundsman node confirm-off node2`"),
        ({"ndparams": {}, **STATED}, TAKEN_BACK, "`roundsman node confirm-off node2`"),
    ],
)
def test_what_a_person_states_of_a_node_that_lived_since_it_was_known_to_be_off_fits_what_is_recorded(
    fields: dict[str, object], on: str, off: str
) -> None:
    cluster = lived(**fields)
    told = dead_nodes.to_confirm_again(cluster, cluster.nodes["n2"])
    assert told.startswith(
        f"check on site whether node2 is on; if it is on, run {on}; if it is off and will stay off, run {off}"
    )
    assert ("if its BMC does not answer" in told) is ("ndparams" not in fields)


@pytest.mark.parametrize("moved", [True, False])
def test_second_copies_on_a_node_that_lived_since_it_was_known_to_be_off_lose_their_power_first(*, moved: bool) -> None:
    cluster = lived(offline=not moved)
    if moved:
        elsewhere = dataclasses.replace(cluster.instances["i1"], primary_node="n3", secondary_nodes=("n2",))
        cluster = dataclasses.replace(cluster, instances={"i1": elsewhere})
    told = dead_nodes.to_confirm_again(cluster, cluster.nodes["n2"])
    assert told.startswith("second copies of instances that were started elsewhere may run on node2: power it off")
    places = [
        told.index(one) for one in (POWER_OFF, "`roundsman node confirm-off node2`", POWER_ON, CORRECTED, "node online")
    ]
    assert places == sorted(places)
    assert ("which also stops instance1" in told) is not moved, "it is still recorded as running there"
    step = dead_nodes.step_by_hand(cluster, cluster.nodes["n2"])
    assert step.startswith("node2 may be on, because at 1970-01-01 00:00:20 UTC it showed that it lives")
    assert "known to be off: second copies of instances" in step
    assert "evacuate" not in step


def test_second_copies_on_a_node_without_a_bmc_are_ended_on_site() -> None:
    cluster = lived(offline=True, ndparams={}, **STATED)
    told = dead_nodes.to_confirm_again(cluster, cluster.nodes["n2"])
    assert "power it off on site, which also stops instance1, and run `roundsman node confirm-off node2`" in told
    assert told.index(TAKEN_BACK) < told.index("`roundsman node online node2`, which refuses")
    assert "BMC" not in told
    assert "node power" not in told


def test_a_node_that_takes_no_instances_has_no_second_copies() -> None:
    cluster = with_node(lived(vm_capable=False), offline=True)
    assert dead_nodes.to_confirm_again(cluster, cluster.nodes["n2"]).startswith("check on site whether node2 is on")


def test_a_node_that_may_be_booting_is_not_fenced_and_one_that_is_off_is_failed_over_all_the_same() -> None:
    cluster = cluster_of(policy="fence")
    assert judged(cluster, reads=ON).step is Step.FENCE
    waits = judged(cluster, reads=ON, booting="it was powered on 40 s ago")
    assert waits.step is Step.WAIT
    assert "it was powered on 40 s ago" in waits.reason
    for reads in (OFF, FENCED, UNKNOWN, None):
        assert judged(cluster, reads=reads, booting="x") == judged(cluster, reads=reads)


class Future(enum.Enum):
    """Findings of a version to come."""

    DYING = "dying"


@pytest.mark.parametrize("finding", [*Finding, Future.DYING])
@pytest.mark.parametrize("reads", [ON, DENIED, OFF])
def test_only_a_finding_that_is_named_has_a_node_commanded_off(
    finding: Finding, reads: Reading, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(witnesses, "judge", lambda _: witnesses.Testimony(finding, "its peers say so"))
    fencing = {Finding.DEAD, Finding.NONE}
    steps = {Step.CONFIRM if reads is OFF else Step.FENCE}
    may_be = {*Finding} - {Finding.DEAF} if reads is OFF else fencing
    verdict = judged(cluster_of(policy="fence"), reads=reads)
    assert {verdict.step} == (steps if finding in may_be else {Step.WAIT})
    assert verdict.step is not Step.WAIT or verdict.unblock


@pytest.mark.parametrize("reads", [None, ON, OFF, FENCED])
def test_a_policy_that_is_not_known_has_nothing_done(reads: Reading | None) -> None:
    assert judged(cluster_of(policy="destroy"), reads=reads).step in {Step.WAIT, Step.ASK}
