"""Opcodes, numbers and a pause in words."""

from __future__ import annotations

import string
from typing import TYPE_CHECKING, Any

from ..disks import replica_texts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..cluster.maintenance_settings import Settings


TAGGING = {"tags_set": "tag", "tags_del": "untag"}
SETTING = {"cluster_modify": "modify", "group_modify": "modify", "node_modify": "modify"}
SETTING["instance_modify"] = "modify"
SETTING |= {"group_add": "add", "node_add": "add", "group_remove": "remove", "node_remove": "remove"}
RISKS = {"ignore_consistency": ", ignoring consistency", "discard": ", discarding what {discard} wrote"}
"""What is added where a person accepts that writes are lost."""
AT_BMCS = frozenset({"power", "health"})
OWN_WORDS = frozenset({"node_role", *AT_BMCS, *TAGGING})
"""Kinds whose words depend on their parameters."""
BY_PARAMETERS = frozenset({"cluster_redist_conf", "test_delay"})
"""Kinds that are said by their name and parameters, as nobody but Ganeti's clients and testers asks for them."""
PATTERNS = {
    "migrate": "migrate {instance} from {source} to {target}",
    "failover": "fail {instance} over from {source} to {target}",
    "replace_disks": "move the replica of {instance} from {old} to {new}",
    "repair_command": "run {command} on {node}",
    "diagnose": "diagnose {node}",
    "second_copies": "look for second copies on {node}",
    "outdate_replica": "outdate the replica of {instance} on {node}",
    "remove_replica": "remove the replica that {instance} left on {node}",
    "node_evacuate": "evacuate {node} ({mode})",
    "run_plan": "run the plan of `{command}`",
    "node_migrate": "migrate the primaries of {node}",
    "cluster_adopt": "take over what is there",
    "cluster_verify": "verify the cluster",
    "instance_query_data": "read the record of {instance}",
    "instance_reserve": "find a place for {name}",
    "instance_create": "make {instance}",
    "instance_remove": "remove {instance}",
    "startup": "start {instance}",
    "find_instance": "look where {instance} runs",
    "shutdown": "stop {instance}",
    "activate_disks": "activate the disks of {instance}",
    "deactivate_disks": "deactivate the disks of {instance}",
    "verify_disks": "verify the disks of {instance}",
    "repair_disks": "repair the disks of {instance}",
    "recreate_disks": "recreate the disks of {instance}",
    "reinstall": "reinstall {instance}",
    "node_confirm_off": "record that a person confirmed {node} off",
}
DRY_RUN = "dry run"
NAMED = 3
"""Of more nodes than these only the number is told."""


def opcode(step: Mapping[str, Any], names: Mapping[str, str]) -> str:
    """One step in words, with names for UUIDs; a dry run says so."""
    is_dry_run = step.get("dry_run") or (step["kind"] in AT_BMCS and step["params"].get("check"))
    return f"{DRY_RUN}: {_action(step, names)}" if is_dry_run else _action(step, names)


def _action(step: Mapping[str, Any], names: Mapping[str, str]) -> str:
    told = {key: names.get(str(value), value) for key, value in step["params"].items()}
    kind = str(step["kind"])
    if kind == "node_role":
        return _role(told)
    if kind == "instance_reserve":
        told["name"] = told.get("fields", {}).get("name", "")
    if kind in AT_BMCS:
        return _at_bmcs(kind, told, names)
    if kind in TAGGING:
        return f"{TAGGING[kind]} {told.get('object') or 'the cluster'}: {', '.join(map(str, told.get('tags', ())))}"
    if kind in SETTING:
        return _setting(kind, told)
    try:
        return PATTERNS[kind].format_map(told) + _risk(told)
    except KeyError:
        return " ".join([kind.replace("_", " "), *(f"{key}={value}" for key, value in told.items())])


def summary(step: Mapping[str, Any], names: Mapping[str, str]) -> str:
    """One step in words for anybody: of what is set only the names of the parameters, none of their values."""
    params, kind = dict(step["params"]), str(step["kind"])
    if kind in SETTING:
        fields = dict(params.get("fields", {}))
        shown = {"name": fields.pop("name")} if kind.endswith("_add") and "name" in fields else {}
        text = opcode({**step, "params": {**params, "fields": shown}}, names)
        return f"{text}: {', '.join(sorted(fields))}" if fields else text
    if kind == "instance_reserve":
        params = {"fields": {"name": params.get("fields", {}).get("name", "")}}
    elif kind not in OWN_WORDS:
        named = {field for _, field, _, _ in string.Formatter().parse(PATTERNS.get(kind, ""))}
        params = {name: value for name, value in params.items() if name in named or name in RISKS}
    return opcode({**step, "params": params}, names)


def pause(settings: Settings) -> str:
    """Why a person paused maintenance, and when that ends by itself; '' where nobody has."""
    ends = f" (until {replica_texts.clock(settings.pause_ends)})" if settings.paused and settings.pause_ends else ""
    return f"{settings.paused}{ends}"


def count(number: int, noun: str) -> str:
    """How many there are, in the right number: `1 node`, `2 nodes`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def both(nodes: int, instances: int) -> str:
    """How many nodes and instances there are."""
    return f"{count(nodes, 'node')} and {count(instances, 'instance')}"


def _risk(told: Mapping[str, Any]) -> str:
    return "".join(text.format_map(told) for name, text in RISKS.items() if told.get(name))


def _at_bmcs(kind: str, told: Mapping[str, Any], names: Mapping[str, str]) -> str:
    nodes = [str(names.get(node, node)) for node in told.get("nodes", ())] or [str(told.get("node"))]
    subject = ", ".join(nodes) if len(nodes) <= NAMED else f"{len(nodes)} nodes"
    if kind == "health":
        return f"read the health of {subject}"
    return f"power {told.get('command')} {subject}"


def _setting(kind: str, told: Mapping[str, Any]) -> str:
    fields = dict(told.get("fields", {}))
    noun = kind.partition("_")[0]
    subject = told.get(noun) or (fields.pop("name", "") if kind.endswith("_add") else "")
    words = " ".join(filter(None, [SETTING[kind], noun, str(subject)]))
    return f"{words}: {', '.join(f'{name}={value}' for name, value in fields.items())}" if fields else words


def _role(told: Mapping[str, Any]) -> str:
    node = told.get("node")
    if told.get("offline") is not None:
        return f"set {node} offline" if told["offline"] else f"bring {node} online"
    return f"drain {node}" if told.get("drained") else f"undrain {node}"
