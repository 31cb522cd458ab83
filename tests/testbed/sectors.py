"""Instances that fit into the first sector of a disk, assembled from the sources beside this for who has no assembler."""

from __future__ import annotations

SECTOR = 512
SIGNATURE = b"\x55\xaa"
TICK = bytes.fromhex(
    "31c08ed88ec08ed0bc007c8816747c66c706008000000000fb668b1e6c046683c304f466391e6c0472f866ff060080668b1e"
    "0080b9080066c1c30488d8240f3c0a1c692fe81e00e2eebe787c8a16747cb80043cd13b02b7302b021e80700b00ae80200eb"
    "b450bafd03eca82074fb58baf803eec3008d7400100001000080000001"
)
"""`tick.S`: counts four times a second, in memory, on its disk and on its serial console."""
CHURN = bytes.fromhex(
    "fa31c08ed8e4920c02e692660f0116587c0f20c00c010f22c066ea217c0000080066b810008ed8bf00001000ff0781c70010"
    "000081ff0000f00072f0ebe966900000000000000000ffff0000009acf00ffff00000092cf001700407c"
)
"""`churn.S`: writes to its memory faster than a live migration can copy it."""


def disk(code: bytes, *, mebibytes: int = 1) -> bytes:
    """A disk that boots into this code."""
    return (code.ljust(SECTOR - len(SIGNATURE), b"\0") + SIGNATURE).ljust(mebibytes << 20, b"\0")


def count(content: bytes) -> int:
    """How far TICK has counted on its disk."""
    return int.from_bytes(content[SECTOR : SECTOR + 4], "little")
