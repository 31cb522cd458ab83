"""`roundsman capacity`: how many more instances fit."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Annotated

import typer

from ...plugins.module_utils.domain.values import errors
from . import output, planned

if TYPE_CHECKING:
    from ...plugins.plugin_utils.placement.htools import capacity_report as rules
    from ...plugins.plugin_utils.placement.models import model

Largest = Annotated[
    str | None,
    typer.Option(
        "--max-inst-spec", metavar="MEMORY,DISK,VCPUS", help="The largest instance: MiB, MiB and virtual CPUs."
    ),
]
Template = Annotated[
    str | None, typer.Option("--default-template", metavar="TEMPLATE", help="The disk template of new instances.")
]
CpuRatio = Annotated[
    float | None, typer.Option("--max-cpu-ratio", metavar="RATIO", help="Virtual CPUs for each CPU of a node.")
]
DiskUsage = Annotated[
    float | None, typer.Option("--max-disk-usage", metavar="SHARE", help="How much of a node's disk is used, 0 to 1.")
]
Existing = Annotated[bool, typer.Option("--accept-existing", help="Count groups in which N+1 fails already, too.")]
NUMBERS = 3


def capacity(
    ctx: typer.Context,
    *,
    text: planned.Text = None,
    max_inst_spec: Largest = None,
    default_template: Template = None,
    max_cpu_ratio: CpuRatio = None,
    max_disk_usage: DiskUsage = None,
    accept_existing: Existing = False,
    form: planned.Output = planned.Format.TABLE,
) -> None:
    """Show how many instances still fit: in tiers of shrinking size, and of the standard size.

    A limit of the command line stands over that of a node group, and that over the cluster's. There is nothing to run:
    as commands it is comments.
    """
    # NumPy is loaded by those who need it only.
    from ...plugins.plugin_utils.placement.htools import capacity_report as rules  # noqa: PLC0415
    from ...plugins.plugin_utils.rounds import configured_limits, reboots  # noqa: PLC0415

    seen = planned.source(ctx, text)
    call = rules.Limits(_spec(max_inst_spec), _template(default_template), max_cpu_ratio, max_disk_usage)
    if text is None:
        question = configured_limits.question(seen.cluster, call=call, accepts_existing=accept_existing)
    else:
        question = rules.Question(call=call, accepts_existing=accept_existing)
    found = rules.compute(seen.model, question, ctime=time.time())
    if form is planned.Format.JSON:
        output.as_json(json.dumps(found.document()))
        return
    show = _comment if form is planned.Format.COMMANDS else _show
    show("the whole cluster", found.cluster)
    names = {group.uuid: group.name for group in seen.model.groups}
    for uuid, (group_capacity, _limits) in found.groups.items():
        show(f"node group {names[uuid]}", group_capacity)
    if not found.cluster.tiers and text is None:
        for node, why in reboots.out_of_service(seen.cluster):
            output.warning(f"{node} is left out: it {why}.")


def _show(title: str, found: rules.Capacity) -> None:
    output.title(title.capitalize())
    if found.refusal:
        output.line(f"Nothing: {found.refusal}.")
        return
    rows = [(tier.size.memory, tier.size.disk, tier.size.vcpus, tier.count) for tier in found.tiers]
    output.table(
        ("MEMORY MIB", "DISK MIB", "VCPUS", "INSTANCES"), rows, empty=f"No instance fits, however small: {found.lack}."
    )
    output.line(f"Of the standard size: {found.standard}")


def _comment(title: str, found: rules.Capacity) -> None:
    for tier in found.tiers:
        size = f"{tier.size.memory} MiB of memory, {tier.size.disk} MiB of disk, {tier.size.vcpus} vcpus"
        output.line(f"# {title}: {tier.count} of {size}")
    output.line(f"# {title}: {found.refusal or found.lack or f'{found.standard} of the standard size'}")


def _spec(text: str | None) -> tuple[int, int, int] | None:
    if text is None:
        return None
    parts = text.split(",")
    if len(parts) != NUMBERS or not all(part.strip().isascii() and part.strip().isdigit() for part in parts):
        raise errors.InvalidInput(f"--max-inst-spec: {text!r} is not MEMORY,DISK,VCPUS, as in 32768,1048576,8")
    memory, disk, vcpus = (int(part) for part in parts)
    return memory, disk, vcpus


def _template(name: str | None) -> model.Template | None:
    from ...plugins.plugin_utils.placement.models.model import Template as Known  # noqa: PLC0415 - only its values

    known = [template.value for template in Known]
    if name is not None and name not in known:
        raise errors.InvalidInput(f"--default-template: {name!r} is not one of {', '.join(known)}")
    return None if name is None else Known(name)
