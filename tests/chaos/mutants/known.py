"""The mutants: for each rule that keeps data its earlier form, which lost some."""

from __future__ import annotations

from tests.chaos.mutants import rounds
from tests.chaos.mutants.mutant import Edit, Mutant

DEAD_NODES = "plugins/plugin_utils/silent_nodes/dead_nodes.py"
REPAIRS = "plugins/plugin_utils/disks/drbd_repairs.py"
FAKE = "daemon/lab/simulator/fake.py"
KNOWN_OFF = "plugins/plugin_utils/cluster/known_off.py"
LOSS = "plugins/plugin_utils/disks/possible_loss.py"
CHECK = "plugins/action/failover_check.py"
REPLICAS = "plugins/module_utils/domain/disks/replicas.py"
FAILOVERS = "plugins/plugin_utils/disks/failovers.py"
REPLACEMENTS = "plugins/module_utils/domain/disks/replacements.py"
PEER_DATA = "plugins/module_utils/storage/peer_data.py"
ROLES = "plugins/module_utils/storage/drbd_roles.py"
FAILOVER = "roles/instance/tasks/failover.yml"
FENCE = "roles/instance/tasks/fence_source.yml"
POWER = "plugins/module_utils/domain/power/power.py"
FAILOVER_ACT = "roles/instance/tasks/failover_act.yml"
REPLACE = "roles/instance/tasks/replace_disks.yml"
OUTDATE = "roles/repair/tasks/outdate_replica.yml"
CONTRACT = "plugins/plugin_utils/opcodes/contract.py"
NODE_WORK = "plugins/plugin_utils/opcodes/node_work.py"

MUTANTS = (
    Mutant(
        "dead_source_unjudged",
        1,
        "a failover from a dead node takes the replica for in sync, whatever its node answers",
        (
            Edit(
                FAILOVERS,
                "    if found.verdict is Verdict.GO or not (asked.is_off or found.verdict is Verdict.REFUSE):\n",
                "    if found.verdict is not None:\n",
            ),
        ),
    ),
    Mutant(
        "loss_unlimited",
        1,
        "a failover that nobody ordered may lose the writes of any time",
        (
            Edit(
                LOSS,
                "    if not (by_hand and allowed and seconds <= allowed):\n",
                "    if not (by_hand and allowed and seconds >= 0):\n",
            ),
        ),
    ),
    Mutant(
        "any_peer_seen",
        1,
        "a survivor that saw another peer in sync counts as one that saw the source",
        (
            Edit(
                CHECK,
                "        age=replica.seen.get(address),\n",
                "        age=min(replica.seen.values(), default=replica.seen.get(address)),\n",
            ),
        ),
    ),
    Mutant(
        "sight_undated",
        1,
        "how long ago the survivor saw the source in sync does not count",
        (Edit(LOSS, "    return min(ages, default=None)\n", "    return 0.0 if ages else None\n"),),
    ),
    Mutant(
        "off_now",
        1,
        "the source counts as off since the survivor was asked, and not since it was known to be off",
        (
            Edit(
                LOSS,
                "    seconds = None if age is None else max(0.0, age - (asked.since_off or 0.0))\n",
                "    seconds = None if age is None else max(0.0, age - max(age, asked.since_off or 0.0))\n",
            ),
        ),
    ),
    Mutant(
        "source_word_ignored",
        1,
        "a failover from a dead node goes on though that node had reported that it writes alone",
        (
            Edit(
                LOSS,
                "    texts = (asked.unfinished, *(_unfit(asked, disk) for disk in asked.disks), _own_word(asked))\n",
                "    texts = (asked.unfinished, *(_unfit(asked, disk) for disk in asked.disks))\n",
            ),
        ),
    ),
    Mutant(
        "unfinished_ignored",
        1,
        "a failover goes on though the source may have written to a new replica and not to the target",
        (
            Edit(
                LOSS,
                "    texts = (asked.unfinished, *(_unfit(asked, disk) for disk in asked.disks), _own_word(asked))\n",
                "    texts = (*(_unfit(asked, disk) for disk in asked.disks), _own_word(asked))\n",
            ),
        ),
    ),
    Mutant(
        "life_before_fence",
        1,
        "a BMC that read on before the fence is a sign of life after it: no failover follows",
        (
            Edit(
                KNOWN_OFF,
                "    return is_off(node) and node.alive_at > seen_off(node)\n",
                "    return is_off(node) and node.alive_at > 0\n",
            ),
        ),
    ),
    Mutant(
        "never_outdated",
        1,
        "a secondary that its running primary has lost is not outdated",
        (
            Edit(
                REPLICAS,
                "        if any(_may_be_outdated(track) for track in secondary.of_resource(resource).values()):\n"
                "            return True\n",
                "        if any(_may_be_outdated(track) for track in secondary.of_resource(resource).values()):\n"
                "            return False\n",
            ),
        ),
    ),
    Mutant(
        "outdated_by_role",
        1,
        "a secondary is outdated on the word of a primary on which its instance does not run",
        (
            Edit(
                OUTDATE,
                "  when: step.instance.name not in (repair_primary.running | default([]))\n",
                "  when: repair_primary is not defined\n",
            ),
        ),
    ),
    Mutant(
        "source_unchecked",
        1,
        "a failover does not ask whether the pair is in sync, though both nodes answer, and promotes what DRBD lets it",
        (
            Edit(
                FAILOVERS,
                '    return _of_target(asked) or (_of_pair(asked) if asked.is_replicated else "")\n',
                "    return _of_target(asked)\n",
            ),
            Edit(
                FAILOVERS,
                "    return asked.is_replicated and (asked.ignore_consistency or not asked.source_answers)\n",
                "    return asked.is_replicated\n",
            ),
        ),
    ),
    Mutant(
        "source_asked_once",
        1,
        "a failover does not ask again after the stop whether the pair has parted meanwhile",
        (
            Edit(
                FAILOVER_ACT,
                '        msg: "{{ instance_check.objection }}"\n      when: instance_check.objection | length > 0\n',
                '        msg: "{{ instance_check.objection }}"\n      when: false\n',
            ),
            Edit(
                FAILOVER_ACT,
                '        instance_disks_alone: "{{ instance_check.alone }}"\n',
                "        instance_disks_alone: true\n",
            ),
        ),
    ),
    Mutant(
        "recorded_before_look",
        2,
        "a failover stops the source and records the new primary before it has asked the target",
        (
            Edit(
                FAILOVER_ACT,
                "- name: Hand the disks over, or start the instance again where it was\n",
                "- name: Record the new primary before anything is known of it\n"
                "  roundsman.cluster.record:\n"
                "    change: instance_nodes\n"
                '    instance: "{{ instance.uuid }}"\n'
                '    primary: "{{ step.target.uuid }}"\n'
                '    secondaries: "{{ step.secondaries }}"\n'
                "\n"
                "- name: Hand the disks over, or start the instance again where it was\n",
            ),
            Edit(
                FAILOVER,
                'and not stopped: {{ instance_check.objection }}"\n  when: instance_check.objection | length > 0\n',
                'and not stopped: {{ instance_check.objection }}"\n  when: false\n',
            ),
        ),
    ),
    Mutant(
        "replica_removed_unasked",
        4,
        "replace-disks removes the old replica and does not ask the primary for its own",
        (
            Edit(
                REPLACEMENTS,
                "    if primary.replicas is None:\n",
                '    if primary:\n        return ""\n    if primary.replicas is None:\n',
            ),
        ),
    ),
    Mutant(
        "left_behind_forgotten",
        11,
        "a replica that stays on a node which does not answer is not remembered",
        (
            Edit(
                REPLACE,
                "[moved] if step.old.uuid == step.new.uuid else [moved, left]",
                "[moved]",
            ),
        ),
    ),
    Mutant(
        "silent_target",
        5,
        "a node that does not answer is a target for new replicas",
        (
            Edit(
                CONTRACT,
                "        if facts.is_silent(cluster.node(uuid).uuid):\n",
                "        if not name:\n",
            ),
        ),
    ),
    Mutant(
        "second_copies_online",
        7,
        "a node that comes back is not asked what it still runs",
        (
            Edit(
                NODE_WORK,
                '        return "" if cluster.instances else "there are no instances"\n',
                '        return "nobody asked"\n',
            ),
        ),
    ),
    Mutant(
        "split_brain_discarded",
        3,
        "after a split brain the repair discards what the secondary wrote, and asks nobody",
        (
            Edit(
                REPAIRS,
                "    loser = sides.pair.discard\n    if loser is None:\n",
                "    loser = sides.pair.discard or Where.SECONDARY\n    if loser is None:\n",
            ),
        ),
    ),
    Mutant(
        "status_is_fence",
        6,
        "a BMC that reads off before anything was commanded counts as a fence",
        (
            Edit(
                DEAD_NODES,
                "    return Verdict(Step.CONFIRM, told)\n",
                "    return Verdict(Step.FAIL_OVER, told)\n",
            ),
            Edit(FENCE, "    command: confirm_off\n", "    command: status\n"),
            Edit(
                "roles/instance/vars/main.yml",
                "     (instance_fence_confirmed or (step.source_stated_off",
                "     (instance_fence_state == 'off' or (step.source_stated_off",
            ),
        ),
    ),
    Mutant(
        "off_unread",
        6,
        "an off that a BMC took counts as a fence before it is read back",
        (
            Edit(
                POWER,
                "        return start is not None and list(seen[start:][-FENCE_READS:]) == [State.OFF] * FENCE_READS\n",
                "        return start is not None\n",
            ),
        ),
    ),
    Mutant(
        "life_unrecorded",
        1,
        "a failover records that its source lives where that did not answer, and not where it did",
        (
            Edit(
                FENCE,
                "  when: instance_alive | length > 0\n",
                "  when: instance_alive | length == 0\n",
            ),
        ),
    ),
    Mutant(
        "demotion_may_fail",
        1,
        "a failover goes on though its source did not demote its replica",
        (
            Edit(
                FAILOVER_ACT,
                '        instance_member: "{{ step.source }}"\n        instance_disks_may_fail: false\n',
                '        instance_member: "{{ step.source }}"\n        instance_disks_may_fail: true\n',
            ),
        ),
    ),
    Mutant(
        "answer_forgotten",
        1,
        "a failover forgets, when it asks again, that its source said in sync before it fell silent",
        (
            Edit(
                FAILOVER_ACT,
                '        instance_look_in_sync: "{{ instance_was_in_sync }}"\n',
                "        instance_look_in_sync: false\n",
            ),
        ),
    ),
    Mutant(
        "migration_resumed",
        10,
        "an interrupted migration goes on at the source though the target has booted since",
        (
            Edit(
                FAKE,
                '        if simulated_node.boot_id(target) != begun["boot"]:\n',
                "        if not begun:\n",
            ),
        ),
    ),
    Mutant(
        "target_unwatched",
        31,
        "a migration goes on although its target is not connected any more, and lacks what the guest writes",
        (
            Edit(
                PEER_DATA,
                "        if side.connection is not Connection.CONNECTED or volume.peer_disk is not Disk.UP_TO_DATE:\n",
                "        if volume.peer_disk is Disk.INCONSISTENT:\n",
            ),
        ),
    ),
    *rounds.MUTANTS,
)


def find(name: str) -> Mutant:
    """The mutant of this name.

    Raises:
        ValueError: there is none; the text names all.
    """
    for mutant in MUTANTS:
        if mutant.name == name:
            return mutant
    raise ValueError(f"there is no mutant {name!r}: use one of {', '.join(one.name for one in MUTANTS)}")
