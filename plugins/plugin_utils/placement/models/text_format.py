"""Ganeti's text format: a whole cluster as five sections of lines, as its htools read and write it.

Sections stand one empty line apart: groups, nodes, instances, cluster tags, policies; later ones are ignored.
Memory and disk are in MiB.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....module_utils.domain.values import errors
from . import model, text_fields

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

SECTIONS = ("groups", "nodes", "instances", "cluster tags", "policies")
NEEDED = 4
GROUP = ("name", "uuid", "alloc_policy", "tags", "networks")
NODE = (
    *("name", "t_mem", "n_mem", "f_mem", "t_disk", "f_disk", "pcpus", "flag", "group"),
    *("spindles", "tags", "exclusive_storage", "free_spindles", "os_vcpus", "cpu_speed"),
)
NODE_DEFAULTS = ("1", "", "N", "0", "1", "1.0")
MEASURED = ("t_mem", "n_mem", "f_mem", "t_disk", "f_disk", "pcpus")
INSTANCE = (
    *("name", "memory", "disk", "vcpus", "status", "auto_balance", "primary", "secondary", "template", "tags"),
    *("spindle_use", "spindles", "forthcoming"),
)
INSTANCE_DEFAULTS = ("1", "-", "N")
STATUSES = (
    *("running", "ADMIN_down", "ADMIN_offline", "USER_down", "ERROR_up", "ERROR_down"),
    *("ERROR_nodedown", "ERROR_nodeoffline", "ERROR_wrongnode"),
)
POLICY = ("owner", "std", "bounds", "templates", "vcpu_ratio", "spindle_ratio")
SPEC = ("memory", "vcpus", "disk", "disks", "nics", "spindle_use")
UNKNOWN = "?"

Numbered = list[tuple[int, str]]


def read(text: str) -> model.Model:
    """The cluster of a text.

    Raises:
        InvalidInput: a line cannot be understood, names what is not there or is impossible; with line and field.
    """
    groups, nodes, instances, tags, policies = _sections(text)
    group_lines = list(_lines(groups, GROUP, ("",)))
    names, uuids = _distinct(group_lines, "name"), _distinct(group_lines, "uuid")
    owned = _policies(list(_lines(policies, POLICY)), names)
    node_lines = list(_lines(nodes, NODE, NODE_DEFAULTS))
    instance_lines = list(_lines(instances, INSTANCE, INSTANCE_DEFAULTS))
    _distinct(instance_lines, "name")
    node_names = _distinct(node_lines, "name")
    return model.Model(
        groups=tuple(_group(line, owned) for line in group_lines),
        nodes=tuple(_node(line, uuids) for line in node_lines),
        instances=tuple(_instance(line, node_names) for line in instance_lines),
        tags=tuple(tag for _, tag in tags),
        policy=owned.get("", model.Policy()),
    )


def _sections(text: str) -> list[Numbered]:
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    found: list[Numbered] = [[]]
    for number, line in enumerate(lines, start=1):
        if line:
            found[-1].append((number, line))
        else:
            found.append([])
    if len(found) < NEEDED:
        expected = ", ".join(SECTIONS)
        raise errors.InvalidInput(
            f"line {max(1, len(lines))}: {len(found)} sections, and {NEEDED} or more were expected: {expected}"
        )
    return [*found, []][: len(SECTIONS)]


def _lines(section: Numbered, fields: Sequence[str], defaults: Sequence[str] = ()) -> Iterator[text_fields.Line]:
    return (text_fields.split(text, number, fields=fields, defaults=defaults) for number, text in section)


def _distinct(lines: Iterable[text_fields.Line], field: str) -> frozenset[str]:
    seen: dict[str, int] = {}
    for line in lines:
        name = line.name(field)
        if name in seen:
            raise line.wrong(field, f"'{name}' stands already in line {seen[name]}")
        seen[name] = line.number
    return frozenset(seen)


def _known(line: text_fields.Line, field: str, names: frozenset[str], kind: str) -> str:
    if line.text(field) not in names:
        raise line.wrong(field, f"there is no {kind} '{line.text(field)}'")
    return line.text(field)


def _group(line: text_fields.Line, policies: dict[str, model.Policy]) -> model.Group:
    return model.Group(
        name=line.name("name"),
        uuid=line.name("uuid"),
        alloc_policy=line.one_of("alloc_policy", model.AllocPolicy),
        tags=line.names("tags"),
        networks=line.names("networks"),
        policy=policies.get(line.name("name"), model.Policy()),
    )


def _node(line: text_fields.Line, groups: frozenset[str]) -> model.Node:
    flag = line.text("flag")
    if flag not in {"Y", "M", "N"}:
        raise line.wrong("flag", f"'{flag}' is not one of Y (offline), M (master), N")
    group = _known(line, "group", groups, "group with the UUID")
    if any(line.text(field) == UNKNOWN for field in MEASURED):
        return unknown_node(line.name("name"), group, master=flag == "M")
    above = None if flag == "Y" else 0.0
    return model.Node(
        name=line.name("name"),
        group=group,
        t_mem=line.real("t_mem", above=above),
        n_mem=line.whole("n_mem"),
        f_mem=line.whole("f_mem", least=None),
        t_disk=line.real("t_disk"),
        f_disk=line.whole("f_disk", least=None),
        pcpus=line.real("pcpus", above=above),
        offline=flag == "Y",
        master=flag == "M",
        spindles=line.whole("spindles"),
        tags=line.names("tags"),
        exclusive_storage=line.flag("exclusive_storage"),
        free_spindles=line.whole("free_spindles", least=None),
        os_vcpus=line.whole("os_vcpus"),
        cpu_speed=line.real("cpu_speed", above=0.0),
    )


def unknown_node(name: str, group: str, *, master: bool = False) -> model.Node:
    """A node whose numbers nobody could read: empty and offline."""
    return model.Node(
        name, group, 0.0, 0, 0, 0.0, 0, 0.0, offline=True, master=master, spindles=0, os_vcpus=0, is_known=False
    )


def _instance(line: text_fields.Line, nodes: frozenset[str]) -> model.Instance:
    if line.text("status") not in STATUSES:
        raise line.wrong("status", f"'{line.text('status')}' is not one of {', '.join(STATUSES)}")
    primary = _known(line, "primary", nodes, "node")
    secondary = _known(line, "secondary", nodes, "node") if line.text("secondary") else ""
    if primary == secondary:
        raise line.wrong("secondary", f"{secondary} is the primary too")
    return model.Instance(
        name=line.name("name"),
        memory=line.whole("memory"),
        disk=line.whole("disk"),
        vcpus=line.whole("vcpus"),
        status=line.text("status"),
        auto_balance=line.flag("auto_balance"),
        primary=primary,
        secondary=secondary,
        template=line.one_of("template", model.Template),
        tags=line.names("tags"),
        spindle_use=line.whole("spindle_use"),
        spindles=None if line.text("spindles") == "-" else line.whole("spindles"),
        forthcoming=line.flag("forthcoming"),
    )


def _policies(lines: list[text_fields.Line], groups: frozenset[str]) -> dict[str, model.Policy]:
    """By group's name, "" for the cluster."""
    found: dict[str, model.Policy] = {}
    for line in lines:
        owner = _known(line, "owner", groups | {""}, "group")
        if owner in found:
            raise line.wrong("owner", f"a policy of '{owner}' stands already above")
        found[owner] = _policy(line)
    return found


def _policy(line: text_fields.Line) -> model.Policy:
    bounds = line.text("bounds").split(";") if line.text("bounds") else []
    if len(bounds) % 2:
        raise line.wrong("bounds", f"{len(bounds)} specs, and pairs of min;max were expected")
    specs = [_spec(line, "bounds", text) for text in bounds]
    return model.Policy(
        std=_spec(line, "std", line.text("std")),
        bounds=tuple(zip(specs[::2], specs[1::2], strict=True)),
        templates=tuple(line.as_one_of("templates", name, model.Template) for name in line.names("templates")),
        vcpu_ratio=line.real("vcpu_ratio"),
        spindle_ratio=line.real("spindle_ratio"),
    )


def _spec(line: text_fields.Line, field: str, text: str) -> model.Spec:
    parts = text.split(",")
    if len(parts) != len(SPEC):
        raise line.wrong(field, f"'{text}' has not the {len(SPEC)} numbers {','.join(SPEC)}")
    return model.Spec(*(line.as_whole(field, part) for part in parts))


def write(cluster: model.Model) -> str:
    """The text of a cluster, every field and every policy written out; htools read it as the same cluster.

    Raises:
        InvalidInput: a name or tag has a character that the format has no way to write.
    """
    sections = (
        [
            _fields(group.name, group.uuid, group.alloc_policy.value, _list(group.tags), _list(group.networks))
            for group in cluster.groups
        ],
        [_node_text(node) for node in cluster.nodes],
        [_instance_text(instance) for instance in cluster.instances],
        [_tag(tag) for tag in cluster.tags],
        [_policy_text("", cluster.policy), *(_policy_text(group.name, group.policy) for group in cluster.groups)],
    )
    return "\n".join("".join(f"{line}\n" for line in lines) for lines in sections)


def _fields(*values: str) -> str:
    for value in values:
        if "|" in value or "\n" in value:
            raise errors.InvalidInput(f"{value!r} cannot be written: fields end at '|' and lines at their end")
    return "|".join(values)


def _list(values: Sequence[str]) -> str:
    for value in values:
        if not value or "," in value:
            raise errors.InvalidInput(f"{value!r} cannot be written in a list: its parts end at ','")
    return ",".join(values)


def _tag(value: str) -> str:
    if not value or "\n" in value:
        raise errors.InvalidInput(f"{value!r} cannot be written: a cluster tag is a line that is not empty")
    return value


def _real(value: float) -> str:
    return f"{value:.0f}" if value == int(value) else repr(value)


def _flag(value: bool) -> str:  # noqa: FBT001 - one field, one value
    return "Y" if value else "N"


def _node_text(node: model.Node) -> str:
    numbers = (
        _real(node.t_mem),
        str(node.n_mem),
        str(node.f_mem),
        _real(node.t_disk),
        str(node.f_disk),
        _real(node.pcpus),
    )
    kept = ("Y" if node.offline else "M" if node.master else "N", node.group)
    if not node.is_known:
        return _fields(node.name, *(UNKNOWN for _ in numbers), "M" if node.master else "Y", node.group)
    return _fields(
        *(node.name, *numbers, *kept, str(node.spindles), _list(node.tags), _flag(node.exclusive_storage)),
        *(str(node.free_spindles), str(node.os_vcpus), repr(node.cpu_speed)),
    )


def _instance_text(instance: model.Instance) -> str:
    return _fields(
        *(
            instance.name,
            str(instance.memory),
            str(instance.disk),
            str(instance.vcpus),
            instance.status,
            _flag(instance.auto_balance),
        ),
        *(
            instance.primary,
            instance.secondary,
            instance.template.value,
            _list(instance.tags),
            str(instance.spindle_use),
        ),
        *("-" if instance.spindles is None else str(instance.spindles), _flag(instance.forthcoming)),
    )


def _policy_text(owner: str, policy: model.Policy) -> str:
    bounds = ";".join(_spec_text(spec) for pair in policy.bounds for spec in pair)
    templates = _list([template.value for template in policy.templates])
    return _fields(
        owner, _spec_text(policy.std), bounds, templates, _real(policy.vcpu_ratio), _real(policy.spindle_ratio)
    )


def _spec_text(spec: model.Spec) -> str:
    return ",".join(
        str(value) for value in (spec.memory, spec.vcpus, spec.disk, spec.disks, spec.nics, spec.spindle_use)
    )
