"""The disk template `plain`: logical volumes on the instance's only node, which may run where they are active."""

from __future__ import annotations

from typing import TYPE_CHECKING, List, Optional, Tuple

from ..domain.values import errors
from .disks import Disk, Disks, LocalDisk, State, Step
from .volumes import Volume, Volumes

if TYPE_CHECKING:
    from .programs import Runner


class Template:
    """The volumes `<vg>/<uuid>.disk<N>` of an instance, or `vg/lv` where a disk was adopted."""

    def __init__(self, disks: Disks, *, runner: Runner) -> None:
        self._disks = disks
        self._volumes = Volumes(runner)

    def steps(self, wanted: State) -> List[Step]:
        """As `Storage.steps`."""
        if wanted in {State.INFO, State.UP, State.DISCONNECTED}:
            return []
        if wanted is State.SHARED:
            raise errors.Refused(
                f"the disks of {self._disks.instance} are volumes of this node: no other can reach them"
            )
        found = self._volumes.found()
        return [step for disk, name in self._named() for step in self._steps_of(disk, name, wanted, found.get(name))]

    def local_disks(self) -> List[LocalDisk]:
        """As `Storage.local_disks`."""
        found = self._volumes.found()
        return [
            LocalDisk(f"/dev/{name}", found[name].size if name in found else None, text=_text(found.get(name)))
            for _, name in self._named()
        ]

    def _steps_of(self, disk: Disk, name: str, wanted: State, volume: Optional[Volume]) -> List[Step]:
        if wanted is State.ABSENT:
            return self._gone(disk, name, volume)
        if volume is None:
            if wanted is State.PRESENT and not disk.name:
                return [self._volumes.create(name, disk.size)]
            if wanted is State.STANDBY:
                return []
            raise errors.Refused(f"{self._disks.instance} has no volume {name} on this node")
        if wanted is State.ACTIVE and not volume.is_active:
            return [self._volumes.activate(name)]
        if wanted is State.STANDBY and volume.is_active:
            self._refuse_in_use(name, volume)
            return [self._volumes.deactivate(name)]
        return []

    def _gone(self, disk: Disk, name: str, volume: Optional[Volume]) -> List[Step]:
        if volume is None:
            return []
        self._refuse_in_use(name, volume)
        if disk.name:
            return [self._volumes.deactivate(name)] if volume.is_active else []
        return [self._volumes.remove(name)]

    def _refuse_in_use(self, name: str, volume: Volume) -> None:
        if volume.is_open:
            raise errors.Refused(f"the volume {name} of {self._disks.instance} is in use on this node")

    def _named(self) -> List[Tuple[Disk, str]]:
        disks = self._disks
        return [
            (disk, disk.name.replace("/dev/", "", 1) or f"{disks.vg}/{disks.own_name(number, 'disk')}")
            for number, disk in enumerate(disks.disks)
        ]


def _text(volume: Optional[Volume]) -> str:
    if volume is None:
        return "not there"
    return "in use" if volume.is_open else "active" if volume.is_active else "not active"
