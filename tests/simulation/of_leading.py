"""The bugs of who leads that issue and enumeration name, where they are code that the simulation runs."""

from __future__ import annotations

from tests.chaos.mutants.mutant import Edit, Mutant

BARRIER = "daemon/maintenance/barrier.py"
EPOCHS = "plugins/module_utils/domain/agent/epochs.py"
LEADING = "daemon/maintenance/leading.py"
ELECTORATE = "daemon/maintenance/electorate.py"
LEADERSHIP = "daemon/maintenance/leadership.py"
LOCK = "plugins/module_utils/instance_lock.py"
RECORD = "plugins/module_utils/leader_record.py"

OF_LEADING = (
    Mutant(
        "same_number",
        32,
        "two controllers lead in epochs of the same number",
        (
            Edit(
                EPOCHS,
                "    return offered == kept.epoch or offered.id in kept.goes_on\n",
                "    return offered.number == kept.epoch.number or offered.id in kept.goes_on\n",
            ),
        ),
    ),
    Mutant(
        "majority_of_all",
        33,
        "a majority is counted over all nodes, and not over those that vote",
        (
            Edit(
                ELECTORATE,
                "        return [node for node in cluster.nodes.values() if clusters.reachable(cluster, node)]\n",
                "        return list(cluster.nodes.values())\n",
            ),
        ),
    ),
    Mutant(
        "compared_before_lock",
        34,
        "the epoch is compared before the lock is held",
        (
            Edit(
                LOCK,
                "        _wait(descriptor, name=name, deadline=time.monotonic() + "
                "(TIME_LIMIT if time_limit is None else time_limit))\n"
                "        leader_record.require_ordered(root, any_boot=only_stops)\n",
                "        leader_record.require_ordered(root, any_boot=only_stops)\n"
                "        _wait(descriptor, name=name, deadline=time.monotonic() + "
                "(TIME_LIMIT if time_limit is None else time_limit))\n",
            ),
        ),
    ),
    Mutant(
        "epoch_not_synced",
        35,
        "the epoch is not durable on the node",
        (
            Edit(RECORD, "            os.fsync(file.fileno())\n", ""),
            Edit(RECORD, "        durable_names.replace(temporary, path)\n", "        temporary.replace(path)\n"),
        ),
    ),
    Mutant(
        "answer_of_before",
        36,
        "the barrier takes an answer from before it",
        (Edit(LEADING, "        if reply is None or reply.epoch != epoch:\n", "        if reply is None:\n"),),
    ),
    Mutant(
        "off_not_read",
        37,
        "a node that is only recorded as off counts as fenced",
        (
            Edit(
                BARRIER,
                "        fenced = dict.fromkeys(self._off_since_start(), epoch)\n",
                "        fenced = {node.uuid: epoch for node in cluster.nodes.values() if known_off.is_off(node)}\n",
            ),
        ),
    ),
    Mutant(
        "epoch_used_again",
        38,
        "a restored backup goes on in the epoch of its file",
        (
            Edit(
                LEADERSHIP,
                "        return record.place == controller_epoch.place(self._where)\n",
                "        return True\n",
            ),
            Edit(
                LEADERSHIP,
                "        if here is None or here.order is None or here.boot != unsynced.boot():\n",
                "        if here is None or here.order is None:\n",
            ),
        ),
    ),
    Mutant(
        "boot_not_compared",
        39,
        "a node does what was ordered for its boot before",
        (Edit(EPOCHS, '    return order.boot in {"", boot}\n', '    return order.boot != "" or boot != ""\n'),),
    ),
)
