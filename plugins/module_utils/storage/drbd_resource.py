"""The DRBD resource of a disk that Roundsman made: its name, its file, the size of its metadata."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, List, Optional, Tuple

from ..domain.values import errors, ip_addresses

if TYPE_CHECKING:
    from .disks import End

FOLDER = "etc/drbd.d"
FIRST_PORT = 11000
LAST_MINOR = 65535 - FIRST_PORT
FILE = re.compile(r"roundsman-(?P<instance>.+)-disk\d+\.res")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,99}")
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_SECRET = re.compile(r"[A-Za-z0-9+/=._-]{0,63}")
_MIB_PER_UNIT, _UNIT_SECTORS, _FIXED_SECTORS, _SECTORS_PER_MIB = 128, 8, 72, 2048
NO_AUTOMATICS = "after-sb-0pri disconnect; after-sb-1pri disconnect; after-sb-2pri disconnect;"


def name(instance: str, uuid: str, number: int, *, adopted: str = "") -> str:
    """What the resource of a disk is called: as it was adopted, or after the instance.

    It is called after the instance's UUID where DRBD cannot take the instance's name.
    """
    return adopted or f"{instance if _NAME.fullmatch(instance) else uuid}-disk{number}"


def metadata_size(size: int) -> int:
    """The MiB of external metadata for a disk of so many MiB and one peer.

    A bit for each 4 KiB, which are 8 sectors for every 128 MiB begun, and 72 sectors beside them (DRBD's user guide,
    "Estimating metadata size").
    """
    units = -(-size // _MIB_PER_UNIT)
    return -(-(units * _UNIT_SECTORS + _FIXED_SECTORS) // _SECTORS_PER_MIB)


@dataclass(frozen=True)
class Resource:
    """What the file of a resource says; `nodename` is what this node calls itself, `data` and `metadata` are paths.

    `node_ids` are those of this node and its peer, for version 9 only.
    """

    name: str
    instance: str
    minor: int
    data: str
    metadata: str
    nodename: str
    here: End
    peer: End
    secret: str = ""
    node_ids: Optional[Tuple[int, int]] = None

    def text(self) -> str:
        """The file: no automatic recovery, nobody a primary unasked, and never two, which are allowed at run time only.

        Raises:
            InvalidInput: a value would be taken for something else in the file.
        """
        if not 0 <= self.minor <= LAST_MINOR:
            raise errors.InvalidInput(f"{self.name}: {self.minor} is no minor from 0 to {LAST_MINOR}")
        if not _SECRET.fullmatch(self.secret):
            raise errors.InvalidInput(f"{self.name}: the secret must have at most 63 letters and digits")
        if self.peer.name == self.nodename:
            raise errors.InvalidInput(f"{self.name}: {self.nodename} cannot be its own peer")
        secret = f' cram-hmac-alg sha256; shared-secret "{self.secret}";' if self.secret else ""
        ids = self.node_ids or (None, None)
        # Without this, version 9 makes whoever opens the device for writing a primary.
        options = "  options { auto-promote no; }\n" if self.node_ids else ""
        return (
            f"# Written by Roundsman for {self.instance}, and again when its nodes change.\n"
            f'resource "{self.name}" {{\n'
            f"  net {{ protocol C;{secret} {NO_AUTOMATICS} }}\n"
            "  disk { on-io-error detach; }\n"
            f"{options}"
            f"{self._on(self.nodename, self.here, ids[0])}{self._on(self.peer.name, self.peer, ids[1])}}}\n"
        )

    def _on(self, nodename: str, end: End, node_id: Optional[int]) -> str:
        if not _WORD.fullmatch(nodename):
            raise errors.InvalidInput(f"{self.name}: {nodename!r} cannot be the name of a node of DRBD")
        return (
            f"  on {nodename} {{\n"
            f"    device /dev/drbd{self.minor} minor {self.minor};\n"
            f"    disk {self.data};\n"
            f"    meta-disk {self.metadata};\n"
            f"    address {_address(end.address)}:{FIRST_PORT + self.minor};\n"
            f"{'' if node_id is None else f'    node-id {node_id};' + chr(10)}  }}\n"
        )


def written_ids(written: str) -> List[int]:
    """The numbers of version 9 that the text of a file has, this node's first."""
    return [int(each) for each in re.findall(r"node-id (\d+);", written)]


def is_on(written: str, device: str) -> bool:
    """Whether the text of a file names this device as the disk of the resource."""
    return re.search(rf"^ *disk {re.escape(device)};", written, flags=re.MULTILINE) is not None


def written_peer(written: str) -> str:
    """The name of the peer in the text of a file, or ''."""
    names = re.findall(r"^ *on (\S+) \{", written, flags=re.MULTILINE)
    return names[1] if len(names) > 1 else ""


def written_peer_address(written: str) -> str:
    """The address of the peer in the text of a file, in its usual form, or ''."""
    found = re.findall(r"^ *address ipv[46] \[?([0-9a-fA-F.:]+?)\]?:\d+;", written, flags=re.MULTILINE)
    return ip_addresses.normal(found[1]) if len(found) > 1 and ip_addresses.is_address(found[1]) else ""


def written_secret(written: str) -> str:
    """The secret in the text of a file, or ''."""
    found = re.search(r'shared-secret "([^"]*)";', written)
    return found.group(1) if found else ""


def node_ids(here: End, peer: End, *, written: str) -> Tuple[int, int]:
    """The numbers that version 9 gives this node and its peer.

    Those of the file as it was `written` stay, so that a new peer takes the number of the old one; then those that are
    given; then the lower address is 0.

    Raises:
        Refused: the file has another number of the peer than is given, so the replica here is that of an older pair.
    """
    found = written_ids(written)
    pair = (0, 1) if here.address < peer.address else (1, 0)
    if len(found) == len(pair):
        pair = (found[0], found[1])
        if peer.node_id not in {None, pair[1]}:
            raise errors.Refused(
                f"{peer.name} has the number {peer.node_id}, and {pair[1]} in the file of an older replica here: "
                "that replica has to be made absent first"
            )
    elif here.node_id is not None or peer.node_id is not None:
        mine = here.node_id if here.node_id is not None else int(not peer.node_id)
        pair = (mine, peer.node_id if peer.node_id is not None else int(not mine))
    return pair


def _address(text: str) -> str:
    if re.fullmatch(r"[0-9.]+", text):
        return f"ipv4 {text}"
    if re.fullmatch(r"[0-9a-fA-F:.]+", text):
        return f"ipv6 [{text}]"
    raise errors.InvalidInput(f"{text!r} is no IP address, and DRBD takes nothing else")
