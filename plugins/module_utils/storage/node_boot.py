"""In which boot this node is: reports and orders may be of an earlier one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..domain.disks import replicas

if TYPE_CHECKING:
    import pathlib

BOOT_ID = "proc/sys/kernel/random/boot_id"


def boot_id(root: pathlib.Path) -> str:
    """The boot id of the node with this root; '' where it is unknown."""
    try:
        text = (root / BOOT_ID).read_text().strip()
    except (OSError, ValueError):
        return ""
    return text if replicas.is_boot_id(text) else ""
