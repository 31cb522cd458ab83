"""Each mutant is still what it says: its text is there once, and what it makes of the rule is the unsafe form."""

from __future__ import annotations

import ast
import dataclasses
from typing import TYPE_CHECKING, Any

import jinja2
import pytest
import yaml
from ansible_collections.roundsman.cluster.daemon.lab.simulator import fake, simulated_node
from ansible_collections.roundsman.cluster.plugins.action import failover_check
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks import replacements, replicas
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks.drbd import (
    Connection,
    Disk,
    Generation,
    Role,
    Side,
    Volume,
)
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.power import power
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.module_utils.storage import peer_data
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import known_off
from ansible_collections.roundsman.cluster.plugins.plugin_utils.disks import drbd_repairs, failovers, possible_loss
from ansible_collections.roundsman.cluster.plugins.plugin_utils.opcodes import contract, node_work
from ansible_collections.roundsman.cluster.plugins.plugin_utils.silent_nodes import dead_nodes

from tests.chaos import trees
from tests.chaos.mutants import __main__ as fitting
from tests.chaos.mutants import known, rounds
from tests.chaos.mutants.mutant import ROOT, Edit, Mutant
from tests.unit.plugins.plugin_utils.silent_nodes import test_dead_nodes

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.mark.parametrize("edit", trees.SHORTER, ids=lambda edit: edit.path)
def test_each_limit_that_is_shortened_is_still_there(edit: Edit) -> None:
    text = (ROOT / edit.path).read_text()
    assert edit.edited(text) != text


@pytest.mark.parametrize("mutant", known.MUTANTS, ids=lambda mutant: mutant.name)
def test_each_mutant_applies_and_can_be_read(mutant: Mutant) -> None:
    for path in {edit.path for edit in mutant.edits}:
        assert mutant.module(path) if path.endswith(".py") else yaml.safe_load(mutant.text(path))


@pytest.mark.parametrize("mutant", known.MUTANTS, ids=lambda mutant: mutant.name)
def test_each_edit_of_a_mutant_changes_more_than_the_text(mutant: Mutant) -> None:
    for edit in mutant.edits:
        parse = _tree if edit.path.endswith(".py") else yaml.safe_load
        text = (ROOT / edit.path).read_text()
        assert parse(edit.edited(text)) != parse(text), edit


def _tree(text: str) -> str:
    return ast.dump(ast.parse(text))


def test_a_mutant_whose_text_is_gone_does_not_apply(tmp_path: Path) -> None:
    (tmp_path / "rule.py").write_text("safe = True\nsafe = True\n")
    with pytest.raises(ValueError, match="2 times"):
        Edit("rule.py", "safe = True", "safe = False").apply(tmp_path)
    with pytest.raises(ValueError, match="0 times"):
        Edit("rule.py", "gone", "").apply(tmp_path)


def test_the_command_of_make_check_names_each_mutant_whose_text_is_gone() -> None:
    assert not fitting.unfit(fitting.ALL)
    gone = (Edit("galaxy.yml", "no such text", ""), Edit("no/such/file.py", "", ""))
    there = Mutant("there", 0, "", (Edit("galaxy.yml", "namespace: roundsman\n", ""),))
    found = fitting.unfit((Mutant("gone", 0, "", gone), there))
    assert [line.split("\n")[0] for line in found] == [
        "gone: galaxy.yml has 0 times, and not once:",
        f"gone: [Errno 2] No such file or directory: '{ROOT / 'no/such/file.py'}'",
    ]


def fenced_after_a_reading(module: Any) -> Any:
    """Whether a node has lived since it was fenced, whose BMC read on before that."""
    node = clusters.Node(uuid="n2", name="node2", group="g", powered=False, off_since=1000.0, alive_at=990.0)
    return module.has_lived(node)


def split_brain(module: Any) -> Any:
    """What the repair decides after a split brain about which nobody was asked."""

    def side(role: Role, current: int) -> Side:
        return Side(
            "r0", role, Connection.STANDALONE, (Volume(0, Disk.UP_TO_DATE, generation=Generation(current, 0x10)),)
        )

    pair = module.Pair(side(Role.PRIMARY, 0x20), side(Role.SECONDARY, 0x30))
    return module.decide(pair).kind.name


def reads_off(module: Any) -> Any:
    """The step about a silent node whose BMC reads off and was sent nothing."""
    reading = module.Reading(power.State.OFF)
    silence, cluster = module.Silence(misses=5, since=100.0), test_dead_nodes.cluster_of()
    judged = module.judge(
        cluster, cluster.nodes["n2"], silence=silence, silences={"n2": silence}, answering=5, reads=reading
    )
    return judged.step.name


def interrupted(module: Any, folder: Path) -> list[str]:
    """The instances that run on the source once one has run on the target, which booted since."""
    source, target = folder / "a", folder / "b"
    for root in (source, target):
        (root / simulated_node.LAB).mkdir(parents=True)
        (root / fake.RUNNING).mkdir(parents=True)
        simulated_node.new_boot(root)
        simulated_node.rewire(root)
    driver = module.Driver(source, opcode="1/0")
    driver.start("instance1", {})
    simulated_node.set_fault(source, simulated_node.MIGRATION, "paused")
    with pytest.raises(Exception, match="not migrated"):
        driver.migrate("instance1", str(target / "wire"), hvparams={}, target_lacks=str)
    module.Driver(source, opcode="find").recover("instance1")
    return fake.Driver(source, opcode="").running()


def of_a_source_that_was_seen_long_ago(module: Any) -> Any:
    """Whether a failover may go on whose survivor saw its source minutes before that was off."""
    disk = module.Disk("r0", "UpToDate", age=400.0)
    asked = module.Question("web1", "node1", "node2", 1000.0, 5000.0, (disk,), since_off=60.0, limit=120.0)
    return module.judge(asked).verdict.name


def of_a_source_that_wrote_alone(module: Any) -> Any:
    """The same of one that was seen just before, and has said that it writes alone."""
    disk = module.Disk("r0", "UpToDate", age=70.0)
    asked = module.Question("web1", "node1", "node2", 1000.0, 5000.0, (disk,), since_off=60.0, limit=120.0, word=900.0)
    return module.judge(asked).verdict.name


def of_a_pair_that_is_replaced(module: Any) -> Any:
    """The same of one whose disks were being replaced."""
    disk = module.Disk("r0", "UpToDate", age=70.0)
    asked = module.Question(
        "web1", "node1", "node2", 1000.0, 5000.0, (disk,), since_off=60.0, limit=120.0, unfinished="to node3"
    )
    return module.judge(asked).verdict.name


def of_another_peer(module: Any) -> Any:
    """The age of a sight of the source, where the survivor has seen another peer."""
    seen = {"192.0.2.9": 3.0}
    replica = failovers.Replica("r0", is_synced=False, disk="UpToDate", is_connected=False, seen=seen)
    return module._disk(replica, "192.0.2.1", None).age


def of_an_unanswered_question(module: Any) -> Any:
    """Whether a failover goes on whose loss is for a person to accept."""
    loss = possible_loss.Answer(possible_loss.Verdict.ASK, 300.0, "it may lack some", "a person")
    alone = module.Replica("Connecting", is_synced=False, disk="UpToDate", is_connected=False)
    target = module.Node("node2", replicas=(alone,))
    asked = module.Failover("web1", is_replicated=True, source=None, target=target, loss=loss, is_off=True)
    return not module.objection(asked)


def of_an_off_that_was_accepted(module: Any) -> Any:
    """Whether a BMC that took an off, and was not asked since, has fenced its node."""
    on, fence = module.State.ON, module.Command.FENCE
    return module.is_done(fence, before=on, seen=(on,), attempts=(module.Attempt(module.Answer.ACCEPTED),))


def of_lost_secondary(module: Any) -> Any:
    """Whether a secondary is outdated that its running primary has lost."""
    fact = replicas.ReplicaFact("r0", 0, Role.SECONDARY, Connection.CONNECTING, Disk.UP_TO_DATE, Disk.UNKNOWN, 16)
    primary, secondary = (
        replicas.followed(None, replicas.NodeFacts("", (said,)), at=replicas.Moment(1.0))
        for said in (dataclasses.replace(fact, role=Role.PRIMARY), fact)
    )
    return module.to_outdate(primary, secondary, ["r0"])


def of_stale_target(module: Any) -> Any:
    """Whether a failover goes on, though both nodes say that the pair has parted, and may promote the target."""
    replica = module.Replica("Secondary, Connecting, UpToDate", is_synced=False, disk="UpToDate", is_connected=False)
    nodes = (module.Node(name, replicas=(replica,)) for name in ("node2", "node3"))
    asked = module.Failover("instance1", True, *nodes)
    return module.objection(asked) == "", module.may_be_alone(asked)


def of_primary_without_disk(module: Any) -> Any:
    """Whether the old replica may be removed though the primary has lost its own disk."""
    primary = module.Node("node2", (module.Replica("Primary, Diskless", "Diskless"),))
    return module.objection("instance1", primary, module.Node("node3", (module.Replica("good", "UpToDate"),))) == ""


class Silent:
    """Facts of a cluster in which no node answers."""

    @staticmethod
    def is_silent(_node: str) -> bool:
        return True


def of_silent_node(module: Any) -> Any:
    """Whether a node that does not answer is refused."""
    try:
        module.refuse_silent(test_dead_nodes.cluster_of(), Silent(), "n2")
    except errors.Refused:
        return "refused"
    return "taken"


def of_returning_node(module: Any) -> Any:
    """Whether a node that comes back is asked what it runs."""
    before = test_dead_nodes.cluster_of()
    one = clusters.Instance("i1", "instance1", "n2")
    return module.SecondCopies("n2").moot(dataclasses.replace(before, instances={"i1": one})) == ""


def tasks(text: str) -> list[str]:
    """The names of a task file's tasks that may do something, blocks opened, in order."""
    found: list[str] = []
    for task in yaml.safe_load(text):
        found += [one["name"] for one in task.get("block", [task]) if one.get("when") is not False]
    return found


def test_the_mutant_that_asks_once_does_not_refuse_between_stop_and_demotion() -> None:
    name = "Refuse before a disk changes hands"
    assert name in tasks((ROOT / known.FAILOVER_ACT).read_text())
    assert name not in tasks(known.find("source_asked_once").text(known.FAILOVER_ACT))


def test_the_mutant_that_forgets_what_is_left_behind_does_not_record_it() -> None:
    def records_it(text: str) -> bool:
        task = next(one for one in yaml.safe_load(text) if one["name"].startswith("Record the new secondary"))
        return "left" in task["roundsman.cluster.record"]["changes"]

    assert records_it((ROOT / known.REPLACE).read_text())
    assert not records_it(known.find("left_behind_forgotten").text(known.REPLACE))


def test_the_mutant_that_records_first_does_so_before_it_asks_the_target() -> None:
    def records_first(text: str) -> bool:
        names = tasks(text)
        record = next(number for number, name in enumerate(names) if name.startswith("Record the new primary"))
        return record < names.index("Promote the disks on the target")

    assert not records_first((ROOT / known.FAILOVER_ACT).read_text())
    assert records_first(known.find("recorded_before_look").text(known.FAILOVER_ACT))


CONCLUSIONS = "roles/instance/vars/main.yml"


def test_the_mutant_that_fences_by_status_commands_nothing_and_takes_a_bmc_that_reads_off_for_a_fence() -> None:
    def command(text: str) -> str:
        (task,) = (one for one in yaml.safe_load(text) if "roundsman.cluster.oob_power" in one)
        return str(task["roundsman.cluster.oob_power"]["command"])

    def is_fenced(text: str) -> str:
        rule = yaml.safe_load(text)["instance_fenced"]
        reads_off = {"instance_alive": "", "instance_fence_confirmed": False, "step": {"source_stated_off": False}}
        return jinja2.Environment(autoescape=True).from_string(rule).render(reads_off, instance_fence_state="off")

    mutant = known.find("status_is_fence")
    assert (command((ROOT / known.FENCE).read_text()), command(mutant.text(known.FENCE))) == ("confirm_off", "status")
    assert (is_fenced((ROOT / CONCLUSIONS).read_text()), is_fenced(mutant.text(CONCLUSIONS))) == ("False", "True")


CASES: dict[str, tuple[str, Callable[..., Any], Any, Any, Any]] = {
    "split_brain_discarded": (known.REPAIRS, split_brain, drbd_repairs, "REFUSED", "REPAIR"),
    "dead_source_unjudged": (known.FAILOVERS, of_an_unanswered_question, failovers, False, True),
    "source_word_ignored": (known.LOSS, of_a_source_that_wrote_alone, possible_loss, "REFUSE", "GO"),
    "unfinished_ignored": (known.LOSS, of_a_pair_that_is_replaced, possible_loss, "REFUSE", "GO"),
    "loss_unlimited": (known.LOSS, of_a_source_that_was_seen_long_ago, possible_loss, "ASK", "GO"),
    "sight_undated": (known.LOSS, of_a_source_that_was_seen_long_ago, possible_loss, "ASK", "GO"),
    "off_now": (known.LOSS, of_a_source_that_was_seen_long_ago, possible_loss, "ASK", "GO"),
    "any_peer_seen": (known.CHECK, of_another_peer, failover_check, None, 3.0),
    "life_before_fence": (known.KNOWN_OFF, fenced_after_a_reading, known_off, False, True),
    "never_outdated": (known.REPLICAS, of_lost_secondary, replicas, True, False),
    "source_unchecked": (known.FAILOVERS, of_stale_target, failovers, (False, False), (True, True)),
    "replica_removed_unasked": (known.REPLACEMENTS, of_primary_without_disk, replacements, False, True),
    "silent_target": (known.CONTRACT, of_silent_node, contract, "refused", "taken"),
    "second_copies_online": (known.NODE_WORK, of_returning_node, node_work, True, False),
    "off_unread": (known.POWER, of_an_off_that_was_accepted, power, False, True),
    "status_is_fence": (known.DEAD_NODES, reads_off, dead_nodes, "CONFIRM", "FAIL_OVER"),
}


OTHERS = {
    ("migration_resumed", known.FAKE),
    *((name, known.FAILOVER_ACT) for name in ("source_asked_once", "recorded_before_look")),
    ("recorded_before_look", known.FAILOVER),
    ("left_behind_forgotten", known.REPLACE),
    ("outdated_by_role", known.OUTDATE),
    *(("status_is_fence", path) for path in (known.FENCE, CONCLUSIONS)),
    ("life_unrecorded", known.FENCE),
    ("target_unwatched", known.PEER_DATA),
    *((name, known.FAILOVER_ACT) for name in ("demotion_may_fail", "answer_forgotten")),
    *((mutant.name, edit.path) for mutant in rounds.MUTANTS for edit in mutant.edits),
}
"""The edited files that a test of their own judges; `test_mutants_of_rounds.py` has those of the rounds."""


def test_each_file_that_a_mutant_edits_is_judged() -> None:
    judged = OTHERS | {(name, case[0]) for name, case in CASES.items()}
    assert judged == {(mutant.name, edit.path) for mutant in known.MUTANTS for edit in mutant.edits}


@pytest.mark.parametrize("name", CASES)
def test_each_mutant_changes_behaviour(name: str) -> None:
    path, act, module, safe, unsafe = CASES[name]
    assert act(module) == safe
    assert act(known.find(name).module(path)) == unsafe


def test_the_mutant_of_interrupted_migrations_resumes_an_instance_whose_disks_are_newer(tmp_path: Path) -> None:
    assert interrupted(fake, tmp_path / "safe") == []
    mutant = known.find("migration_resumed").module(known.FAKE)
    assert interrupted(mutant, tmp_path / "unsafe") == ["instance1"]


def test_the_mutant_that_outdates_by_role_does_not_ask_for_the_guest() -> None:
    def is_refused(text: str) -> bool:
        (step,) = (task for task in yaml.safe_load(text) if task["name"].startswith("Refuse to outdate"))
        found = jinja2.Environment(autoescape=True).compile_expression(step["when"])
        return bool(found(step={"instance": {"name": "web1"}}, repair_primary={"running": []}))

    mutant = known.find("outdated_by_role")
    assert (is_refused((ROOT / known.OUTDATE).read_text()), is_refused(mutant.text(known.OUTDATE))) == (True, False)


def test_target_unwatched_lets_a_guest_go_where_its_writes_are_not() -> None:
    alone = Volume(0, Disk.UP_TO_DATE, Disk.UNKNOWN)
    side = Side("web1-disk0", Role.PRIMARY, Connection.CONNECTING, (alone,))
    assert peer_data.lacking("web1-disk0", side)
    assert (
        not known.find("target_unwatched")
        .module("plugins/module_utils/storage/peer_data.py")
        .lacking("web1-disk0", side)
    )
