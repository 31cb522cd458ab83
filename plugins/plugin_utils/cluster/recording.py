"""The changes that a play may record: their JSON form, and the lock that whoever records one must hold."""

from __future__ import annotations

import dataclasses
import math
from typing import Mapping

from ...module_utils.domain.values import errors
from . import changes, left_replicas, locks, membership

WHOLE = "cluster/BGL"
"""The lock of who changes the cluster as a whole."""
OF_INSTANCES = (
    changes.InstanceMoving,
    changes.InstanceNodes,
    changes.InstanceState,
    left_replicas.ReplicaLeft,
    membership.InstanceGone,
    membership.InstanceMade,
)
RECORDABLE: Mapping[str, type] = {
    "epo_gone": changes.EpoGone,
    "epo_stands": changes.EpoStands,
    "instance_gone": membership.InstanceGone,
    "instance_made": membership.InstanceMade,
    "instance_moving": changes.InstanceMoving,
    "instance_nodes": changes.InstanceNodes,
    "instance_state": changes.InstanceState,
    "node_lived": changes.NodeLived,
    "node_powered": changes.NodePowered,
    "node_role": changes.NodeRole,
    "replica_left": left_replicas.ReplicaLeft,
}


def encode(change: changes.Change) -> dict[str, object]:
    """The JSON object of a change that a play may record."""
    name = next((name for name, kind in RECORDABLE.items() if kind is type(change)), None)
    if name is None:
        raise errors.InvalidInput(f"a play cannot record {type(change).__name__}")
    return {"change": name, **dataclasses.asdict(change)}


def decode(value: Mapping[str, object]) -> changes.Change:
    """The change that a JSON object of `encode` states.

    Raises:
        InvalidInput: the object states no change, or one of its fields is missing, unknown or of the wrong type.
    """
    if not isinstance(value, dict):
        raise errors.InvalidInput(f"{value!r} is not a change that can be recorded")
    fields = dict(value)
    kind = RECORDABLE.get(str(fields.pop("change", "")))
    if kind is None:
        raise errors.InvalidInput(f"{value.get('change')!r} is not a change that can be recorded")
    expected = {field.name: field for field in dataclasses.fields(kind)}
    for name in fields:
        if name not in expected:
            raise errors.InvalidInput(f"{value['change']}: there is no field {name!r}")
    for name, field in expected.items():
        if name in fields or field.default is dataclasses.MISSING:
            _check(str(value["change"]), name, fields.get(name), str(field.type))
    fields = {name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}
    change: changes.Change = kind(**fields)
    return change


def _check(change: str, name: str, value: object, wanted: str) -> None:
    strings = isinstance(value, (list, tuple)) and all(isinstance(entry, str) for entry in value)
    # Neither a truth value nor what is no number is a time; a time of no clock would be the last sign of life for ever.
    is_time = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < math.inf
    fits = {
        "str": isinstance(value, str),
        "bool": isinstance(value, bool),
        "float": is_time,
        "tuple[str, ...]": strings,
    }[wanted]
    if not fits:
        raise errors.InvalidInput(f"{change}: {name} is {value!r}, which is not a {wanted}")


def refuse_unheld(held: Mapping[str, locks.Mode], change: changes.Change) -> None:
    """Refuse a change whose lock is not held exclusively; a sign of life needs a shared one only.

    Who has the power of a node alone records it, too: a fence waits for nobody who works on the node.

    Raises:
        Refused: it is not.
    """
    if isinstance(change, changes.NodePowered) and locks.covers(held, f"node-res/{change.node}", locks.Mode.EXCLUSIVE):
        return
    if isinstance(change, changes.NodeLived) and locks.covers(held, lock_of(change), locks.Mode.SHARED):
        return
    locks.refuse_unless_alone(held, lock_of(change))


def lock_of(change: changes.Change) -> str:
    """The lock that whoever records a change must hold."""
    if isinstance(change, OF_INSTANCES):
        return f"instance/{change.instance}"
    if isinstance(change, (changes.NodeLived, changes.NodePowered, changes.NodeRole)):
        return f"node/{change.node}"
    if isinstance(change, (changes.EpoStands, changes.EpoGone)):
        return WHOLE
    raise errors.InvalidInput(f"a play cannot record {type(change).__name__}")
