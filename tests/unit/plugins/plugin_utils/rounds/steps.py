"""Jobs as text, so that a plan in a test reads like one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Iterable

if TYPE_CHECKING:
    from ansible_collections.roundsman.cluster.plugins.plugin_utils.rounds import work

_ORDER = {
    "migrate": ("instance", "source", "target"),
    "failover": ("instance", "source", "target"),
    "startup": ("instance",),
    "replace_disks": ("instance", "old", "new"),
    "node_role": ("node", "drained", "offline", "empty"),
    "power": ("node", "command", "empty"),
    "repair_command": ("node", "command"),
}


def text(job: work.Job) -> list[str]:
    """The opcodes of a job: `migrate instance1 node1 node2`, `node_role node1 drained`."""
    found = []
    for opcode in job.opcodes:
        words = [opcode.kind]
        for name in _ORDER[opcode.kind]:
            value = opcode.params.get(name)
            if value is True:
                words.append(name)
            elif value is not None:
                words.append(str(value).removeprefix("u-"))
        found.append(" ".join(words))
    return found


def of(jobs: Iterable[work.Job]) -> dict[str, list[str]]:
    return {job.key: text(job) for job in jobs}
