"""The disk template `diskless`: an instance without disks is ready everywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, List

if TYPE_CHECKING:
    from .disks import LocalDisk, State, Step


class Template:
    """No disks."""

    def steps(self, _wanted: State) -> List[Step]:
        """Nothing."""
        return []

    def local_disks(self) -> List[LocalDisk]:
        """None."""
        return []
