"""An instance that no live migration catches up with: a boot sector (`churn.S`) that always writes to its memory."""

from __future__ import annotations

SECTOR = 512
_CODE = bytes.fromhex(
    "fa31c08ed8e4920c02e692660f0116587c0f20c00c010f22c066ea217c0000080066b810008ed8bf00001000ff0781c70010"
    "000081ff0000f00072f0ebe966900000000000000000ffff0000009acf00ffff00000092cf001700407c"
)


def boot_sector() -> bytes:
    """The first sector of its disk; the rest is zeros."""
    return _CODE.ljust(SECTOR - 2, b"\0") + b"\x55\xaa"


def disk(*, size: int = 1 << 20) -> bytes:
    """A whole disk of so many bytes."""
    return boot_sector().ljust(size, b"\0")
