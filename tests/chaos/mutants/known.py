"""The mutants: for each rule that keeps data its earlier form, which lost some."""

from __future__ import annotations

from tests.chaos.mutants.mutant import Edit, Mutant

DEAD_NODES = "plugins/module_utils/domain/dead_nodes.py"
REPAIRS = "plugins/module_utils/domain/drbd_repairs.py"
FAKE = "plugins/module_utils/hypervisor/fake.py"
EVIDENCE = "plugins/module_utils/domain/evidence.py"
REPLICAS = "plugins/module_utils/domain/replicas.py"
FAILOVERS = "plugins/module_utils/domain/failovers.py"
REPLACEMENTS = "plugins/module_utils/domain/replacements.py"
ROLES = "plugins/module_utils/storage/drbd_roles.py"
FAILOVER = "roles/instance/tasks/failover.yml"
REPLACE = "roles/instance/tasks/replace_disks.yml"
CONTRACT = "plugins/plugin_utils/opcodes/contract.py"
NODE_WORK = "plugins/plugin_utils/opcodes/node_work.py"

MUTANTS = (
    Mutant(
        "dead_source_unjudged",
        1,
        "a failover from a dead node takes the replica for in sync, whatever the nodes had reported",
        (
            Edit(
                EVIDENCE,
                "    reason = lived_on or next((text for text in reasons if text), ",
                "    reason = lived_on or next((text for text in reasons if not text), ",
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
                FAILOVER,
                '        msg: "{{ instance_check.objection }}"\n      when: instance_check.objection | length > 0\n',
                '        msg: "{{ instance_check.objection }}"\n      when: false\n',
            ),
            Edit(
                FAILOVER,
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
                FAILOVER,
                "- name: Hand the disks over, or start the instance again where it was\n",
                "- name: Record the new primary before anything is known of it\n"
                "  roundsman.cluster.record:\n"
                "    change: instance_nodes\n"
                '    instance: "{{ instance.uuid }}"\n'
                '    primary: "{{ instance_target.uuid }}"\n'
                '    secondaries: "{{ instance_secondaries }}"\n'
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
                "[moved] if instance_old.uuid == instance_new.uuid else [moved, left]",
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
            Edit("roles/instance/tasks/fence_source.yml", "    command: confirm_off\n", "    command: status\n"),
            Edit(
                "roles/instance/vars/main.yml",
                "     (instance_fence_confirmed or (instance_source_stated_off",
                "     (instance_fence_state == 'off' or (instance_source_stated_off",
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
                '        elif simulated_node.boot_id(target) != begun["boot"]:\n',
                "        elif not begun:\n",
            ),
        ),
    ),
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
