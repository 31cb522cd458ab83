"""The programs of LVM on a node of a lab: they take the commands of the real ones and answer as those of 2.03 do."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Dict, List, Tuple

from .simulated_records import Replica, Volume
from .simulated_replica import Rejected

if TYPE_CHECKING:
    from .simulated_replica import Content
    from .simulated_store import Store

GROUP_SIZE = 4 * 1024 * 1024
"""MiB of a volume group, whichever."""
EXTENT = 4


class SimulatedLvm:
    """The logical volumes of a node, which has no room if it `is_full`.

    `opcode` is written beside what happens to replicas on them.
    """

    def __init__(self, node: str, *, opcode: str, is_full: bool = False) -> None:
        self._node = node
        self._opcode = opcode
        self._is_full = is_full

    def lvs(self, store: Store, _words: List[str], _command: Tuple[str, ...]) -> str:
        """The logical volumes, as `lvs` prints them in JSON."""
        rows = []
        for name, volume in store.volumes(self._node).items():
            group, _, short = name.partition("/")
            state = {
                "lv_active": "active" if volume.is_active else "",
                "lv_device_open": "open" if volume.is_open or volume.opened_by else "",
            }
            rows.append({"vg_name": group, "lv_name": short, "lv_size": f"{volume.size}.00", **state})
        return json.dumps({"report": [{"lv": rows}]})

    def vgs(self, store: Store, _words: List[str], command: Tuple[str, ...]) -> str:
        """The volume groups that were asked for, as `vgs` prints them in JSON."""
        used: Dict[str, int] = dict.fromkeys(command[command.index("-o") + 2 :], 0)
        for name, volume in store.volumes(self._node).items():
            group = name.partition("/")[0]
            used[group] = used.get(group, 0) + volume.size
        rows = [
            {
                "vg_name": group,
                "vg_size": f"{GROUP_SIZE}.00",
                "vg_free": f"{0 if self._is_full else GROUP_SIZE - size}.00",
            }
            for group, size in used.items()
        ]
        return json.dumps({"report": [{"vg": rows}]})

    def lvcreate(self, store: Store, _words: List[str], command: Tuple[str, ...]) -> str:
        """Make a logical volume, or a snapshot of one."""
        size = int(command[command.index("--size") + 1].rstrip("m"))
        group, _, origin = command[-1].partition("/")
        name = f"{group}/{command[command.index('--name') + 1]}"
        if bool(origin) is not ("--snapshot" in command):
            raise Rejected("a snapshot has an origin, and nothing else has one", status=3)
        known = store.volumes(self._node)
        if name in known:
            raise Rejected(
                f'Logical Volume "{name.partition("/")[2]}" already exists in volume group "{group}"', status=5
            )
        rounded = -(-size // EXTENT) * EXTENT
        free = GROUP_SIZE - sum(volume.size for other, volume in known.items() if other.startswith(f"{group}/"))
        if rounded > free or self._is_full:
            raise Rejected(f'Volume group "{group}" has insufficient free space', status=5)
        made = Volume(rounded)
        if origin:
            made = dataclasses.replace(made, content=self._content(store, f"{group}/{origin}"))
        store.put_volume(self._node, name, made)
        return ""

    def _content(self, store: Store, name: str) -> Content:
        volume = store.volume(self._node, name)
        if volume is None:
            raise Rejected(f'Failed to find logical volume "{name}"', status=5)
        return store.pair(self._node, volume.resource).sides[0].content if volume.resource else volume.content

    def lvchange(self, store: Store, _words: List[str], command: Tuple[str, ...]) -> str:
        """Activate a logical volume, or deactivate it."""
        name, is_active = command[-1], command[command.index("--activate") + 1] == "y"
        volume = self._found(store, name)
        if not is_active and (volume.is_open or volume.opened_by):
            raise Rejected(f"Logical volume {name} in use.", status=5)
        store.put_volume(self._node, name, dataclasses.replace(volume, is_active=is_active))
        return ""

    def lvremove(self, store: Store, _words: List[str], command: Tuple[str, ...]) -> str:
        """Remove a logical volume, and with it what a replica has there."""
        name = command[-1]
        volume = self._found(store, name)
        if volume.is_open or volume.opened_by:
            raise Rejected(f"Logical volume {name} in use.", status=5)
        store.put_volume(self._node, name, None)
        known = store.replica(self._node, volume.resource) if volume.resource else Replica()
        if known.data == name:
            self._removed(store, volume.resource, known)
        elif known.metadata == name:
            side = dataclasses.replace(known.side, metadata=None)
            store.put(self._node, volume.resource, dataclasses.replace(known, side=side))
        return ""

    def _removed(self, store: Store, resource: str, known: Replica) -> None:
        """The data of a replica are gone; with those of its last disk the instance has none here any more."""
        counter = store.pair(self._node, resource).sides[0].content.counter
        store.put(self._node, resource, None)
        if store.names_of(self._node, known.instance):
            return
        newest = max(
            (store.counter(node, resource) or 0 for node in store.nodes_with(resource) if node != self._node), default=0
        )
        entry = {"instance": known.instance, "opcode": self._opcode, "event": "replica removed"}
        store.note(self._node, {**entry, "counter": counter, "newest": newest})

    def _found(self, store: Store, name: str) -> Volume:
        volume = store.volume(self._node, name)
        if volume is None:
            raise Rejected(f'Failed to find logical volume "{name}"', status=5)
        return volume
