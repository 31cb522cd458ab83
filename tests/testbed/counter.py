"""An instance that counts, and what its serial port and its disk say of it from outside.

It is a boot sector of 512 bytes (`tick.S`) on a disk of its own: about four times a second it counts one more in memory
and in the second sector of its disk, and then tells `BOOTS:COUNT`. A live migration changes neither; whoever starts it
anew finds the count of its disk, and one boot more.
"""

from __future__ import annotations

import itertools
import re
import struct
from dataclasses import dataclass

SECTOR = 512
PER_SECOND = 18.2 / 4
"""How often it counts: the clock of the BIOS ticks 18.2 times a second, and it waits for four ticks."""
_CODE = bytes.fromhex(
    "fa31c08ed88ec08ed0bc007cfb8816a77cb442e84a0066ff06048066ff060080b443e83b007305b021e85a00668b1e04"
    "80e83800b03ae84d00668b1e0080e82b00b00de84000b00ae83b00668b0e6c04f466a16c046629c86683f80472f2ebbb"
    "30c08a16a77cbe977ccd13c3b10866c1c30488d8240f3c0a720204070430e80500fec975e9c388c5bafd03eca82074fb"
    "baf80388e8eec3100001000080000001"
)
_LINE = re.compile(rb"(!?)([0-9A-F]{8}):([0-9A-F]{8})\r\n")


@dataclass(frozen=True, order=True)
class Count:
    """How often it was booted, and how far it has counted."""

    boots: int
    count: int


class Wrong(Exception):
    """It did not count as it should."""


def boot_sector() -> bytes:
    """The first sector of its disk; the rest is zeros."""
    return _CODE.ljust(SECTOR - 2, b"\0") + b"\x55\xaa"


def disk(*, size: int = 1 << 20) -> bytes:
    """A whole disk of so many bytes."""
    return boot_sector().ljust(size, b"\0")


def on_disk(content: bytes) -> Count:
    """What the first two sectors of its disk say."""
    if content[:SECTOR] != boot_sector():
        raise Wrong("its first sector is not the one it was made with")
    count, boots = struct.unpack_from("<II", content, SECTOR)
    return Count(boots, count)


def told(serial: bytes) -> list[Count]:
    """What it told on its serial port, in complete lines.

    Raises:
        Wrong: it could not write its disk.
    """
    found = []
    for mark, boots, count in _LINE.findall(serial):
        if mark:
            raise Wrong(f"it could not write {int(count, 16)} to its disk")
        found.append(Count(int(boots, 16), int(count, 16)))
    return found


def told_by_all(serials: list[bytes]) -> list[Count]:
    """What it told on several machines, in order: a live migration may part a line, half here and half there.

    Raises:
        Wrong: it could not write its disk.
    """
    whole = [count for serial in serials for count in told(serial)]
    parts = [[part for part in _LINE.split(serial)[:: _LINE.groups + 1] if part] for serial in serials]
    joined = [
        told(begun + ended)
        for here, there in itertools.permutations(parts, 2)
        for begun, ended in itertools.product(here, there)
        if _LINE.fullmatch(begun + ended)
    ]
    return sorted([*whole, *({*itertools.chain(*joined)} - {*whole})])


def check(counts: list[Count], *, boots: int = 1) -> None:
    """See that it counted one by one without a gap, and was booted so often at most.

    Where several machines tell it, their lines have to be put in order first: one that ran twice tells a count twice.

    Raises:
        Wrong: a count is missing, is told twice, or goes back; or it was booted more often.
    """
    if not counts:
        raise Wrong("it has told nothing")
    for before, after in itertools.pairwise(counts):
        if after.count != before.count + 1 and not (after.boots > before.boots and after.count > before.count - 1):
            raise Wrong(f"after {before} it told {after}")
        if after.boots < before.boots:
            raise Wrong(f"an older run told {after} after {before}")
    if counts[-1].boots > boots:
        raise Wrong(f"it was booted {counts[-1].boots} times, and not {boots}")
