"""What a node tells of its DRBD resources, as it goes from the node to whoever decides: JSON objects and back."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ..domain.disks import replacements, replicas
from ..domain.disks.drbd import Connection, Disk, Generation, Replication, Role, Side, Volume
from ..domain.values import errors

NOT_UNDERSTOOD = "its answer cannot be understood"


def encode(side: Side) -> Dict[str, Any]:
    """A side as a JSON object; identifiers are hexadecimal texts, which no reader of JSON rounds."""
    return {
        "resource": side.resource,
        "role": side.role.value,
        "connection": side.connection.value,
        "peer_role": side.peer_role.value,
        "volumes": [_volume(volume) for volume in side.volumes],
    }


def decode(told: Mapping[str, Any]) -> Side:
    """The side that `encode` made this of.

    Raises:
        InvalidInput: it is not such an object.
    """
    try:
        return Side(
            resource=str(told["resource"]),
            role=Role(told["role"]),
            connection=Connection(told["connection"]),
            volumes=tuple(_of_volume(volume) for volume in told["volumes"]),
            peer_role=Role(told["peer_role"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise errors.InvalidInput(f"this is no side of a DRBD resource: {error!r}") from error


def _volume(volume: Volume) -> Dict[str, Any]:
    return {
        "number": volume.number,
        "minor": volume.minor,
        "disk": volume.disk.value,
        "peer_disk": volume.peer_disk.value,
        "replication": volume.replication.value,
        "out_of_sync": volume.out_of_sync,
        "done": volume.done,
        "paused_by_user": volume.paused_by_user,
        "generation": encode_generation(volume.generation),
    }


def _of_volume(told: Mapping[str, Any]) -> Volume:
    return Volume(
        number=told["number"],
        disk=Disk(told["disk"]),
        peer_disk=Disk(told["peer_disk"]),
        minor=told["minor"],
        replication=Replication(told["replication"]),
        out_of_sync=told["out_of_sync"],
        done=told["done"],
        paused_by_user=told["paused_by_user"],
        generation=decode_generation(told["generation"]),
    )


def encode_generation(generation: Optional[Generation]) -> Optional[Dict[str, Any]]:
    """The identifiers of a replica as a JSON object; None where they are unknown."""
    if generation is None:
        return None
    identifiers: List[int] = [generation.current, generation.bitmap, *generation.history]
    return {"identifiers": [f"{each:016x}" for each in identifiers], "crashed_primary": generation.crashed_primary}


def decode_generation(told: Optional[Mapping[str, Any]]) -> Optional[Generation]:
    """The identifiers that `encode_generation` made this of."""
    if told is None:
        return None
    current, bitmap, *history = (int(each, 16) for each in told["identifiers"])
    return Generation(current, bitmap, tuple(history), bool(told["crashed_primary"]))


def decode_replicas(told: Sequence[Mapping[str, Any]]) -> Optional[Tuple[replacements.Replica, ...]]:
    """The replicas of an instance on a node, as `disks.as_result` told them; None if that cannot be understood."""
    try:
        return tuple(_replica(disk) for disk in told)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        return None


def _replica(disk: Mapping[str, Any]) -> replacements.Replica:
    return replacements.Replica(
        text=str(disk["text"]),
        disk=str(disk["disk"]),
        peer_disk=str(disk["peer_disk"]),
        is_connected=disk["connected"] is True,
        generation=decode_generation(disk["generation"]),
        exists=disk["size"] is not None,
        role=str(disk["role"]),
        peer=str(disk["peer"]),
        out_of_sync=disk["out_of_sync"] if isinstance(disk.get("out_of_sync"), int) else None,
        alone=_alone(disk),
    )


def _alone(disk: Mapping[str, Any]) -> Optional[float]:
    """For how many seconds the node has not seen the replica in sync with its peer; None where it does not know."""
    seen = disk.get("seen")
    age = seen.get(disk.get("peer_address")) if isinstance(seen, dict) else None
    return float(age) if isinstance(age, (int, float)) and 0 <= float(age) <= replicas.OLDEST else None
