"""What the files of a lab's simulated disks hold: the replicas and logical volumes of a node, as JSON."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Dict, Mapping, Optional, Tuple

from .simulated_replica import Content, Device, Metadata, Side, Writer

if TYPE_CHECKING:
    from pathlib import Path

MIB = 1024


@dataclass(frozen=True)
class Volume:
    """A logical volume: `size` in MiB; `resource` is the DRBD resource that has its data or metadata on it."""

    size: int
    is_active: bool = True
    is_open: bool = False
    resource: str = ""
    instance: str = ""
    has_failed: bool = False
    content: Content = field(default_factory=Content)
    opened_by: Tuple[str, ...] = ()
    writer: Optional[Writer] = None

    def at(self, now: int) -> Volume:
        """The volume at a later moment: an instance on it has written on."""
        if self.writer is None or self.has_failed:
            return self if self.writer is None else dataclasses.replace(self, writer=self.writer.at(now, moves=False))
        writer = self.writer.at(now)
        content = self.content.written(writer.run, writer.counter) if writer.counter > self.writer.counter else None
        return dataclasses.replace(self, writer=writer, content=content or self.content)


@dataclass(frozen=True)
class Replica:
    """A node's replica of a disk: the names of its volumes, its instance, the boot in which it came up, its side.

    `died`: the instance that wrote here when the node lost its power, and its last acknowledged counter.
    """

    data: str = ""
    metadata: str = ""
    instance: str = ""
    boot: str = ""
    side: Side = field(default_factory=Side)
    died: Tuple[str, int] = ("", 0)


def encode(value: Any) -> Any:
    """A value as JSON: of objects what differs from the default."""
    if dataclasses.is_dataclass(value):
        found = {
            attribute.name: (getattr(value, attribute.name), attribute.default)
            for attribute in dataclasses.fields(value)
        }
        return {name: encode(current) for name, (current, default) in found.items() if current != default}
    return [encode(part) for part in value] if isinstance(value, tuple) else value


def read_replica(path: Path) -> Optional[Replica]:
    """The replica in a file; None where there is no file."""
    try:
        found = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    side, died = found.pop("side", {}), found.pop("died", ("", 0))
    metadata, device, content = side.pop("metadata", None), side.pop("device", None), side.pop("content", {})
    if metadata is not None:
        first, second = metadata.pop("history", (0, 0))
        peers = tuple((int(number), str(peer)) for number, peer in metadata.pop("known_peers", ()))
        metadata = Metadata(**metadata, history=(first, second), known_peers=peers)
    if device is not None:
        writer = device.pop("writer", None)
        opened_by = tuple(device.pop("opened_by", ()))
        device = Device(**device, opened_by=opened_by, writer=Writer(**writer) if writer else None)
    made = Side(**side, metadata=metadata, device=device, content=_content(content))
    return Replica(**found, side=made, died=(died[0], died[1]))


def read_volumes(path: Path) -> Dict[str, Volume]:
    """The volumes in a file, by name; none where there is no file."""
    try:
        rows = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    return {name: _volume(row) for name, row in rows.items()}


def _volume(row: Mapping[str, Any]) -> Volume:
    writer = row.get("writer")
    known = {**row, "writer": Writer(**writer) if writer else None, "content": _content(row.get("content", {}))}
    return Volume(**{**known, "opened_by": tuple(row.get("opened_by", ()))})


def _content(found: Mapping[str, Any]) -> Content:
    runs = tuple((str(run), int(counter)) for run, counter in found.get("runs", ()))
    return Content(runs=runs, is_torn=bool(found.get("is_torn", False)))
