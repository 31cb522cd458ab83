from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.roundsman.cluster.plugins.action import epo as epo_action
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes, epo
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.rounds import epo as planning

from tests.unit import small_cluster


def cluster(*, oob: str = "ipmi") -> clusters.Cluster:
    """i1 runs on node2 with its replica on node3; node10 has no BMC; node1 is the master."""
    made = small_cluster.make()
    nodes = {
        uuid: dataclasses.replace(one, ndparams={"oob_program": "!"} if uuid == "n10" else {})
        for uuid, one in made.nodes.items()
    }
    own = dataclasses.replace(made.cluster, ndparams={"oob_program": oob})
    return dataclasses.replace(made, nodes=nodes, cluster=own)


CLUSTER = cluster()


def step(preview: planning.Preview, uuid: str) -> planning.NodeStep:
    return next(one for one in preview.steps if one.uuid == uuid)


@pytest.mark.parametrize(
    ("names", "options", "found"),
    [
        (["node2", "n3", "node2"], {}, ["n2", "n3"]),
        (["rack one"], {"by_group": True}, ["n1", "n2", "n10", "n3"]),
        (["other"], {"by_group": True}, []),
        ([], {"everything": True}, ["n1", "n2", "n10", "n3"]),
    ],
)
def test_nodes_are_meant_by_name_by_group_or_all(names: list[str], options: dict[str, bool], found: list[str]) -> None:
    assert planning.chosen(CLUSTER, names, **{"by_group": False, "everything": False, **options}) == found


@pytest.mark.parametrize(
    ("names", "by_group", "everything"),
    [([], False, False), ([], True, False), (["node1"], False, True), ([], True, True), (["nobody"], False, False)],
)
def test_nothing_named_is_not_everything(names: list[str], by_group: bool, everything: bool) -> None:
    with pytest.raises(errors.InvalidInput):
        planning.chosen(CLUSTER, names, by_group=by_group, everything=everything)


def off(cluster: clusters.Cluster, *names: str) -> planning.Preview:
    return planning.preview(cluster, names, on=False, by_group=False, everything=not names)


def test_off_stops_what_runs_there_and_leaves_the_own_node_for_last() -> None:
    preview = off(CLUSTER)
    assert [one.name for one in preview.steps] == ["node2", "node3", "node10", "node1"]
    assert step(preview, "n2").instances == ("inst1",)
    assert [one.power for one in preview.steps] == [True, True, False, False]
    assert (step(preview, "n10").note, step(preview, "n1").note) == (planning.NO_OOB, planning.SELF)
    assert (preview.last, preview.degraded) == ("node1", ())


def test_an_instance_that_is_down_is_not_stopped() -> None:
    down = changes.apply(CLUSTER, changes.InstanceState("i1", "down"), now=1.0)
    assert off(down, "n2").instances == ()


def test_who_loses_only_a_copy_goes_on_and_is_named() -> None:
    preview = off(CLUSTER, "n3")
    assert (preview.instances, preview.degraded, preview.last) == ((), ("inst1",), "")


def test_a_node_that_is_offline_is_powered_off_but_not_contacted() -> None:
    gone = clusters.with_node(CLUSTER, dataclasses.replace(CLUSTER.nodes["n2"], offline=True))
    found = step(off(gone, "n2"), "n2")
    assert (found.contact, found.power, found.instances, found.note) == (False, True, (), planning.OFFLINE)


def test_a_node_that_is_off_on_record_is_asked_again() -> None:
    dark = changes.apply(CLUSTER, changes.NodePowered("n3", powered=False), now=1.0)
    found = step(off(dark, "n3"), "n3")
    assert (found.contact, found.power, "off on record" in found.note) == (False, True, True)


def test_a_code_stands_for_exactly_one_preview() -> None:
    first = off(CLUSTER, "n2", "n3")
    assert first.code == off(CLUSTER, "n3", "n2").code
    down = changes.apply(CLUSTER, changes.InstanceState("i1", "down"), now=1.0)
    others = [off(CLUSTER, "n2"), off(down, "n2", "n3"), off(cluster(oob="!"), "n2", "n3")]
    assert len({first.code, *(one.code for one in others)}) == 4
    assert all(first.is_confirmed_by(text) for text in (first.code, first.digest[:20], first.digest))
    wrong = ("", first.code[:-1], f"{first.code}x", f"{first.digest}0", others[0].digest)
    assert not any(first.is_confirmed_by(text) for text in wrong)


def standing(cluster: clusters.Cluster) -> clusters.Cluster:
    return changes.apply(cluster, changes.EpoStands(("n2", "n3"), ("i1",), "ops", returning=False), now=7.0)


def test_on_starts_what_was_stopped_and_nothing_else() -> None:
    found = planning.preview(standing(CLUSTER), [], on=True, by_group=False, everything=False)
    assert (found.on, [one.name for one in found.steps], found.instances) == (True, ["node2", "node3"], ("inst1",))


@pytest.mark.parametrize(
    ("names", "options", "found"),
    [
        ([], {"everything": True}, ["node2", "node3"]),
        (["rack one"], {"by_group": True}, ["node2", "node3"]),
        (["node10"], {}, ["node10"]),
    ],
)
def test_only_a_node_that_is_named_returns_although_it_was_off_before(
    names: list[str], options: dict[str, bool], found: list[str]
) -> None:
    wanted = {"by_group": False, "everything": False, **options}
    assert [one.name for one in planning.preview(standing(CLUSTER), names, on=True, **wanted).steps] == found


def test_without_a_name_off_goes_on_with_what_stands() -> None:
    again = planning.preview(standing(CLUSTER), [], on=False, by_group=False, everything=False)
    assert [one.name for one in again.steps] == ["node2", "node3"]


def test_without_an_emergency_a_return_names_its_nodes() -> None:
    with pytest.raises(errors.Refused, match=r"no emergency power off stands.*`roundsman cluster epo --on --all`"):
        planning.preview(CLUSTER, [], on=True, by_group=False, everything=False)


def back(cluster: clusters.Cluster, *names: str, by_group: bool = False) -> planning.Preview:
    """The return from a loss of power: of nodes, of a node group, or of all."""
    return planning.preview(cluster, names, on=True, by_group=by_group, everything=not names)


def begun(cluster: clusters.Cluster, preview: planning.Preview) -> clusters.Cluster:
    """As the action records it."""
    known = cluster.maintenance.epo
    return changes.apply(cluster, epo_action._standing(cluster, preview, known), now=2.0)


def with_one(**fields: object) -> clusters.Cluster:
    """CLUSTER with other fields of node3."""
    return clusters.with_node(CLUSTER, dataclasses.replace(CLUSTER.nodes["n3"], **fields))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("names", "options", "powered", "asked"),
    [
        ([], {}, ["node2", "node3"], []),
        (["rack one"], {"by_group": True}, ["node2", "node3"], []),
        (["node2"], {}, ["node2"], ["node3"]),
        (["node3"], {}, ["node3"], []),
    ],
)
def test_after_a_loss_of_power_what_is_named_returns_and_who_has_other_replicas_is_asked(
    names: list[str], options: dict[str, bool], powered: list[str], asked: list[str]
) -> None:
    preview = back(CLUSTER, *names, **options)
    assert [one.name for one in preview.steps if one.power] == powered
    assert [one.name for one in preview.steps if one.note == planning.ASKED] == asked
    assert preview.instances == (() if names == ["node3"] else ("inst1",))
    held = begun(CLUSTER, preview)
    assert back(held, *names, **options).code == preview.code, "its own hold changes nothing of it"


def test_after_a_loss_of_power_an_instance_waits_for_its_secondary_and_is_told_with_what_helps() -> None:
    held = begun(CLUSTER, back(CLUSTER, "node2"))
    found = planning.returned(held, among={"n2", "n3"}, answered={"n2"}, running=set())
    assert (found.starts, found.waiting) == ({}, ("node3",))
    assert any("inst1 does not run on node2: it waits for node3" in line for line in found.missed)
    assert any("`roundsman instance start inst1`" in line for line in found.missed)
    assert planning.returned(held, among={"n2", "n3"}, answered={"n2", "n3"}, running=set()).starts == {"node2": ["i1"]}


def test_nodes_that_are_named_later_are_added_to_a_return_from_a_loss_of_power_that_stands() -> None:
    held = begun(CLUSTER, back(CLUSTER, "node3"))
    more = back(held, "node2")
    assert ([one.name for one in more.steps if one.power], more.instances) == (["node2"], ("inst1",))
    stands = begun(held, more).maintenance.epo
    assert stands is not None
    assert (set(stands.nodes), stands.instances, stands.lost, stands.returning) == ({"n2", "n3"}, ("i1",), True, True)
    assert "node10" in [one.name for one in back(held).steps]


@pytest.mark.parametrize("fields", [{"offline": True}, {"off_confirmed": 5.0, "off_stated_by": "ops"}])
def test_after_a_loss_of_power_all_leaves_out_who_is_offline_or_off_by_the_word_of_a_person(
    fields: dict[str, object],
) -> None:
    made = with_one(**fields)
    assert [one.name for one in back(made).steps if one.power] == ["node2"]
    named = step(back(made, "node3"), "n3")
    assert named.power
    assert "off_confirmed" not in fields or "is off by the word of ops" in named.note


def test_going_on_with_a_return_powers_nobody_on_whom_a_person_keeps_off() -> None:
    """node3 has the other replica of inst1: it is asked, also when the return goes on without a name."""
    made = with_one(off_confirmed=5.0, off_stated_by="ops")
    first = back(made, "node2")
    assert not step(first, "n3").power
    again = planning.preview(begun(made, first), [], on=True, by_group=False, everything=False)
    assert [one.name for one in again.steps if one.power] == ["node2"]
    assert step(again, "n3").note == planning.ASKED


def test_after_a_loss_of_power_who_was_recorded_as_off_is_named_as_such() -> None:
    assert "is off on record already" in step(back(with_one(powered=False)), "n3").note


def test_what_is_down_on_record_or_on_an_offline_node_does_not_start_after_a_loss_of_power() -> None:
    down = changes.apply(CLUSTER, changes.InstanceState("i1", "down"), now=1.0)
    assert back(down).instances == ()
    offline = clusters.with_node(CLUSTER, dataclasses.replace(CLUSTER.nodes["n2"], offline=True))
    assert back(offline, "node2").instances == ()


def test_a_node_that_answers_is_not_off_any_more_by_whoevers_word() -> None:
    made = clusters.with_node(CLUSTER, dataclasses.replace(CLUSTER.nodes["n2"], off_confirmed=5.0, off_stated_by="ops"))
    found = planning.returned(begun(made, back(made, "node2")), among={"n2"}, answered={"n2"}, running=set())
    assert changes.NodePowered("n2", powered=True) in found.stated


def test_nodes_are_powered_on_in_batches_of_one_group_and_off_all_together() -> None:
    other = dataclasses.replace(CLUSTER.nodes["n3"], group="g2")
    two = clusters.with_node(CLUSTER, other)
    assert on(two).batches(10) == [["node3"], ["node2"]]
    assert on(CLUSTER).batches(1) == [["node2"], ["node3"]]
    assert on(CLUSTER).batches(2) == [["node2", "node3"]]
    assert off(two).batches(1) == [["node3", "node2"]]


def on(cluster: clusters.Cluster) -> planning.Preview:
    return planning.preview(standing(cluster), [], on=True, by_group=False, everything=False)


def returned(cluster: clusters.Cluster, answered: str = "", running: str = "", **options: str) -> planning.Return:
    among = options.get("among", "n2 n3").split()
    return planning.returned(cluster, among=set(among), answered=set(answered.split()), running=set(running.split()))


def test_an_instance_starts_when_all_its_nodes_are_back() -> None:
    once = standing(CLUSTER)
    nobody, primary, both = returned(once), returned(once, "n2"), returned(once, "n2 n3")
    assert (nobody.waiting, nobody.starts) == (("node2", "node3"), {})
    assert (primary.waiting, primary.starts) == (("node3",), {})
    assert (both.waiting, both.starts) == ((), {"node2": ["i1"]})
    assert both.stated == (changes.EpoStands((), ("i1",), "ops", returning=True),)


def test_a_node_that_is_back_brings_up_its_replicas() -> None:
    real = standing(CLUSTER)
    assert returned(real, "n2").replicas == {}
    assert returned(real, "n3").replicas == returned(real, "n2 n3").replicas == {"node3": ["i1"]}
    struck_off = changes.apply(real, changes.EpoStands((), ("i1",), "ops", returning=True), now=1.0)
    assert returned(struck_off).replicas == {"node3": ["i1"]}
    assert returned(struck_off, running="i1").replicas == {}


def test_the_hold_ends_when_all_is_back() -> None:
    assert returned(standing(CLUSTER), "n2 n3", "i1").stated == (changes.EpoGone(),)
    assert returned(CLUSTER, "n2", "i1").stated == ()


def test_who_answers_has_power() -> None:
    off_on_record = changes.apply(standing(CLUSTER), changes.NodePowered("n2", powered=False), now=1.0)
    assert changes.NodePowered("n2", powered=True) in returned(off_on_record, "n2").stated


def test_nobody_waits_for_a_node_that_is_offline_and_its_copies_keep_nothing_down() -> None:
    gone = clusters.with_node(standing(CLUSTER), dataclasses.replace(CLUSTER.nodes["n3"], offline=True))
    found = returned(gone, "n2")
    assert (found.waiting, found.starts) == ((), {"node2": ["i1"]})


def test_what_is_missed_is_told_for_the_nodes_that_are_meant() -> None:
    assert returned(standing(CLUSTER), "n3").missed == ("node2 does not answer", "inst1 does not run on node2")
    assert returned(standing(CLUSTER), "n3", among="n3").missed == ()


def test_what_is_not_in_the_cluster_any_more_keeps_nothing_held() -> None:
    without = dataclasses.replace(standing(CLUSTER), instances={})
    assert returned(without, "n2 n3").stated == (changes.EpoGone(),)


def test_an_emergency_keeps_its_beginning_and_ends() -> None:
    once = standing(CLUSTER)
    assert once.maintenance.epo == epo.Epo(("n2", "n3"), ("i1",), "ops", since=7.0)
    again = changes.apply(once, changes.EpoStands(("n2", "n3"), ("i1",), "ops", returning=True), now=9.0)
    assert again.maintenance.epo == epo.Epo(("n2", "n3"), ("i1",), "ops", since=7.0, returning=True)
    assert changes.apply(again, changes.EpoGone(), now=10.0).maintenance.epo is None
    with pytest.raises(errors.NotFound):
        changes.apply(CLUSTER, changes.EpoStands(("nobody",), (), "", returning=False), now=1.0)


def test_an_instance_that_was_shut_down_since_does_not_start_again() -> None:
    known = changes.apply(CLUSTER, changes.EpoStands(("n2",), ("i1",), "me", returning=False), now=1.0)
    down = changes.apply(known, changes.InstanceState("i1", "down"), now=2.0)
    assert planning.preview(known, [], on=True, by_group=False, everything=False).instances == ("inst1",)
    assert planning.preview(down, [], on=True, by_group=False, everything=False).instances == ()
    found = planning.returned(down, among={"n2"}, answered={"n2"}, running=set())
    assert (found.starts, found.stated) == ({}, (changes.EpoGone(),))


# A migration of inst1 from node2 to node10 has not ended.
MOVING = clusters.with_instance(CLUSTER, dataclasses.replace(CLUSTER.instances["i1"], moving="n10"))


def test_an_instance_is_stopped_wherever_a_migration_may_have_taken_it_and_that_is_told() -> None:
    preview = off(MOVING, "n2", "n10")
    assert (step(preview, "n2").instances, step(preview, "n10").instances) == (("inst1",), ("inst1",))
    assert preview.instances == ("inst1",)
    text = "a migration of inst1 from node2 to node10 has not ended, so it may run on node10"
    assert all(text in step(preview, node).note for node in ("n2", "n10"))
    assert step(off(MOVING, "n10"), "n10").instances == ("inst1",)


def test_an_instance_that_a_migration_may_have_taken_elsewhere_waits_for_a_person_at_the_return() -> None:
    assert on(MOVING).instances == ()
    assert "may run on node10" in step(on(MOVING), "n2").note
    found = returned(standing(MOVING), "n2 n3")
    assert (found.starts, found.replicas) == ({}, {"node3": ["i1"]})
    (missed,) = found.missed
    assert missed.startswith("inst1 does not run on node2, and is not started, as a migration of inst1")
    assert "`roundsman instance start inst1`" in missed
    assert missed.endswith("; then run `roundsman cluster epo --on` again, which ends the hold")


@pytest.mark.parametrize(
    ("answered", "command"), [("n2 n10", "start"), ("n2", "start"), ("n10", "failover"), ("", "start")]
)
def test_the_return_names_the_command_that_ends_a_migration_by_the_nodes_that_have_answered(
    answered: str, command: str
) -> None:
    stands = changes.EpoStands(("n2", "n10"), ("i1",), "ops", returning=False)
    found = returned(changes.apply(MOVING, stands, now=7.0), answered, among="n2 n10")
    assert f"`roundsman instance {command} inst1`" in found.missed[-1]
    assert ("bring node2 back" in found.missed[-1]) is (not answered)


def test_nobody_waits_for_what_has_its_primary_on_an_offline_node() -> None:
    """As the last line of a return says: `node offline NODE --force`, and `cluster epo --on` again."""
    held = begun(CLUSTER, back(CLUSTER))
    gone = clusters.with_node(held, dataclasses.replace(held.nodes["n2"], offline=True))
    found = planning.returned(gone, among={"n1", "n2", "n3", "n10"}, answered={"n1", "n3", "n10"}, running=set())
    assert changes.EpoGone() in found.stated
    assert found.missed == ("inst1 does not run on node2, which is offline: run `roundsman instance failover inst1`",)


def test_an_ordered_return_leaves_off_what_a_person_keeps_off() -> None:
    """Its BMC did not answer when that person said so: it is recorded as powered."""
    stated = changes.apply(CLUSTER, changes.NodeOffConfirmed("n3", 5.0, by="ops"), now=5.0)
    again = planning.preview(begun(stated, off(stated)), [], on=True, by_group=False, everything=False)
    assert "node3" not in [one.name for one in again.steps if one.power]
