"""Clusters with one instance more, and new instances to put there."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.allocation import allocator
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.models import model
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Mapping

TEMPLATES = (model.Template.DRBD, model.Template.DRBD, model.Template.PLAIN, model.Template.RBD)


def new(
    memory: int,
    *,
    name: str = "new1",
    disk: int = 10240,
    vcpus: int = 1,
    primary: str = "",
    secondary: str = "",
    template: model.Template = model.Template.DRBD,
    tags: tuple[str, ...] = (),
) -> model.Instance:
    return model.Instance(
        name=name,
        memory=memory,
        disk=disk,
        vcpus=vcpus,
        status="running",
        auto_balance=True,
        primary=primary,
        secondary=secondary,
        template=template,
        tags=tags,
        spindles=1,
    )


@st.composite
def wanted(draw: st.DrawFn, *, name: str = "new1") -> allocator.Wanted:
    """New instances of many sizes; their tags are those of the generated clusters."""
    disk = draw(st.sampled_from((1024, 20480, 204800, 1_000_000)))
    tags = [f"service:{draw(st.integers(0, 12))}"] * draw(st.booleans())
    tags += [f"rack:{draw(st.integers(0, 4))}"] * draw(st.booleans())
    one = new(
        draw(st.sampled_from((128, 1024, 8192, 30000, 65536))),
        name=name,
        disk=disk,
        vcpus=draw(st.sampled_from((1, 4, 16))),
        template=draw(st.sampled_from(TEMPLATES)),
        tags=tuple(tags),
    )
    return allocator.Wanted(replace(one, auto_balance=draw(st.booleans())), disks=(disk,))


def added(cluster: model.Model, one: model.Instance) -> model.Model:
    """The cluster with an instance that is where its primary and secondary say; free memory and disk follow."""
    return replace(
        cluster,
        instances=(*cluster.instances, one),
        nodes=tuple(_with(node, one) for node in cluster.nodes),
    )


def _with(node: model.Node, one: model.Instance) -> model.Node:
    disk = one.disk * (node.name in {one.primary, one.secondary}) * one.template.is_on_volumes
    return replace(
        node,
        f_mem=node.f_mem - one.memory * (node.name == one.primary),
        f_disk=node.f_disk - disk,
        free_spindles=node.free_spindles - (one.spindles or 0) * bool(disk),
    )


def by_name(cluster: model.Model) -> Mapping[str, model.Node]:
    return {one.name: one for one in cluster.nodes}
