"""Every kind of opcode: to add one, write it in a file of this folder and name it here."""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, Any

import pydantic

from ...module_utils.domain.values import errors
from . import (
    adoption,
    cluster_verify,
    disk_repair,
    instance_disks,
    instance_looks,
    instance_making,
    instance_moves,
    instance_runs,
    left_replica,
    node_evacuation,
    node_power,
    node_work,
    parameters,
    plan_run,
    reading,
    tag_work,
    test_delay,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TypeAlias

    from . import contract

    Made: TypeAlias = contract.PlayOpcode | contract.ChangeOpcode | contract.SubmitOpcode | contract.DelayOpcode

_CLASSES: tuple[type[Made], ...] = (
    adoption.ClusterAdopt,
    instance_making.InstanceReserve,
    instance_making.InstanceCreate,
    instance_making.InstanceRemove,
    instance_making.InstanceModify,
    instance_moves.Migrate,
    instance_moves.Failover,
    instance_moves.ReplaceDisks,
    disk_repair.RepairDisks,
    disk_repair.OutdateReplica,
    left_replica.RemoveReplica,
    instance_runs.Startup,
    instance_runs.Shutdown,
    instance_looks.FindInstance,
    instance_disks.ActivateDisks,
    instance_disks.DeactivateDisks,
    instance_disks.VerifyDisks,
    instance_disks.RecreateDisks,
    instance_disks.Reinstall,
    node_work.RepairCommand,
    node_power.Power,
    node_power.Health,
    node_work.Diagnose,
    node_work.SecondCopies,
    node_work.NodeRole,
    node_work.NodeConfirmOff,
    node_evacuation.NodeEvacuate,
    node_evacuation.NodeMigrate,
    plan_run.RunPlan,
    reading.InstanceQueryData,
    reading.ClusterRedistConf,
    tag_work.TagsSet,
    tag_work.TagsDel,
    test_delay.TestDelay,
    cluster_verify.ClusterVerify,
    parameters.ClusterModify,
    parameters.GroupAdd,
    parameters.GroupModify,
    parameters.GroupRemove,
    parameters.NodeAdd,
    parameters.NodeModify,
    parameters.NodeRemove,
)
_KINDS: dict[str, Any] = {opcode.kind: opcode for opcode in _CLASSES}


def make(kind: str, params: Mapping[str, Any]) -> Made:
    """The opcode of a kind with these parameters.

    Raises:
        InvalidInput: there is no such kind, or a parameter is missing, unknown or of the wrong type.
    """
    if kind not in _KINDS:
        raise errors.InvalidInput(f"there is no opcode {kind!r}: use one of {', '.join(sorted(_KINDS))}")
    unknown = set(params) - {field.name for field in _fields(kind)}
    if unknown:
        raise errors.InvalidInput(f"opcode {kind}: there is no parameter {min(unknown)!r}")
    try:
        made: Made = _adapter(kind).validate_python(dict(params))
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = "/".join(str(part) for part in first["loc"])
        raise errors.InvalidInput(f"opcode {kind}: {where}: {first['msg']}") from error
    return made


def op_id(kind: str) -> str:
    """The name of a kind of opcode in Ganeti's API."""
    opcode = _KINDS.get(kind)
    return (opcode.op_id if opcode is not None else "") or f"OP_{kind.upper()}"


@functools.cache
def _adapter(kind: str) -> pydantic.TypeAdapter[Any]:
    return pydantic.TypeAdapter(_KINDS[kind])


def _fields(kind: str) -> tuple[Any, ...]:
    return dataclasses.fields(_KINDS[kind])
