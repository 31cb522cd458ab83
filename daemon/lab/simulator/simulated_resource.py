"""What the simulated programs of a lab read in the file of a DRBD resource, and in the words of a command."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple, Optional, Tuple

from ....plugins.module_utils.storage import drbd_resource
from .simulated_replica import Rejected

if TYPE_CHECKING:
    from .simulated_replica import Metadata

_BLOCK = re.compile(
    r"on (?P<host>\S+) \{.*?minor (?P<minor>\d+);.*?disk (?P<data>\S+);.*?meta-disk (?P<metadata>\S+);"
    r"(?:\s+address (?P<address>[^;]+);)?",
    re.DOTALL,
)
_SECRET = re.compile(r'shared-secret "([^"]*)"')
_INSTANCE = re.compile(r"^# Written by Roundsman for (\S+),", re.MULTILINE)


class Configured(NamedTuple):
    """What the file of a resource says of it on this node; the names of volumes are `group/volume`.

    `addresses` are those of this node and of its peer, as DRBD prints them.
    """

    instance: str
    minor: int
    data: str
    metadata: str
    peer: str
    secret: str = ""
    node_ids: Tuple[int, ...] = ()
    addresses: Tuple[str, str] = ("", "")


def resource_name(word: str) -> str:
    """The name of a resource; of a volume of it too."""
    return word.partition("/")[0]


def parse(text: str) -> Configured:
    """What the text of a resource's file says.

    Raises:
        Rejected: it does not name two nodes.
    """
    blocks = list(_BLOCK.finditer(text))
    instance, secret = _INSTANCE.search(text), _SECRET.search(text)
    if len(blocks) != 2:  # noqa: PLR2004 - a resource has two nodes
        raise Rejected("the file of the resource does not name two nodes", status=10)
    own, peer = blocks
    data, metadata = (own.group(name).replace("/dev/", "", 1) for name in ("data", "metadata"))
    return Configured(
        instance=instance.group(1) if instance else "",
        minor=int(own.group("minor")),
        data=data,
        metadata=metadata,
        peer=peer.group("host"),
        secret=secret.group(1) if secret else "",
        node_ids=tuple(drbd_resource.written_ids(text)),
        addresses=(own.group("address") or "", peer.group("address") or ""),
    )


def refuse_numbers(wanted: Configured, found: Optional[Metadata]) -> None:
    """Compare the numbers of version 9 in the file with those in the metadata.

    Raises:
        Rejected: a real one would take what the old peer with this number lacks for what the new one lacks.
    """
    if len(wanted.node_ids) != 2:  # noqa: PLR2004 - a resource has two nodes
        raise Rejected("the file of the resource does not give its nodes a node-id", status=10)
    own, number = wanted.node_ids
    if found is not None and found.node_id not in {None, own}:
        raise Rejected(f"ambiguous node id: meta-data: {found.node_id}, config: {own}", status=10)
    known = dict(found.known_peers).get(number, wanted.peer) if found is not None else wanted.peer
    if known != wanted.peer:
        raise Rejected(f"node-id {number} keeps what {known} lacks: forget that peer first", status=10)
