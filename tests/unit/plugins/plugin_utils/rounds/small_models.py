"""The planner's models for tests, from a few lines.

`node1 4096` is a node with that much memory (MiB), all of it free but for what runs there; more words: `master`,
`offline`, `group=b`, `disk=MiB`, `tag=x`, `missing=MiB` (memory that nothing on record takes).
`web1 1024 node1 node2` is a DRBD pair, `web1 1024 node1` is plain, each with 10 MiB of disk; more words: `disk=MiB`,
`rbd`, `down`, `gone` (ADMIN_offline), `loose` (no auto balance).
"""

from __future__ import annotations

from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.models import model

STATUSES = {"down": "ADMIN_down", "gone": "ADMIN_offline"}


def make(text: str) -> model.Model:
    lines = [line.split() for line in text.splitlines() if line.strip()]
    instances = [_instance(words) for words in lines if not words[0].startswith("node")]
    nodes = [_node(words, instances) for words in lines if words[0].startswith("node")]
    groups = dict.fromkeys(node.group for node in nodes)
    return model.Model(tuple(model.Group(name, name) for name in groups), tuple(nodes), tuple(instances))


def _node(words: list[str], instances: list[model.Instance]) -> model.Node:
    name, memory = words[0], int(words[1])
    given = dict(word.split("=") for word in words[2:] if "=" in word)
    disk = int(given.get("disk", 100_000))
    at = [one for one in instances if name in {one.primary, one.secondary}]
    used = sum(one.memory for one in at if one.primary == name and one.takes_memory)
    return model.Node(
        name=name,
        group=given.get("group", "a"),
        t_mem=memory,
        n_mem=0,
        f_mem=memory - used - int(given.get("missing", 0)),
        t_disk=disk,
        f_disk=disk - sum(one.disk for one in at if one.template.is_local),
        pcpus=8,
        offline="offline" in words,
        master="master" in words,
        tags=(given["tag"],) if "tag" in given else (),
    )


def _instance(words: list[str]) -> model.Instance:
    nodes = [word for word in words[2:] if word.startswith("node")]
    given = dict(word.split("=") for word in words[2:] if "=" in word)
    alone = model.Template.RBD if "rbd" in words else model.Template.PLAIN
    return model.Instance(
        name=words[0],
        memory=int(words[1]),
        disk=int(given.get("disk", 10)),
        vcpus=1,
        status=next((STATUSES[word] for word in words if word in STATUSES), "running"),
        auto_balance="loose" not in words,
        primary=nodes[0],
        secondary=nodes[1] if len(nodes) > 1 else "",
        template=model.Template.DRBD if len(nodes) > 1 else alone,
    )
