"""Bodies that no request may have: random bytes, wrong types, huge numbers, deep nesting. Each has to be refused."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random

    from tests.chaos.chronicle import Chronicle
    from tests.chaos.doors import Doors

DEPTH = 100_000
INSTANCE = "/2/instances/{instance}"
NODE = "/2/nodes/{node}"
FIELDS = (
    ("PUT", f"{INSTANCE}/failover", "ignore_consistency"),
    ("PUT", f"{INSTANCE}/migrate", "cleanup"),
    ("PUT", f"{INSTANCE}/shutdown", "timeout"),
    ("PUT", f"{INSTANCE}/startup", "force"),
    ("PUT", f"{INSTANCE}/repair-disks", "discard"),
    ("PUT", f"{INSTANCE}/modify", "hvparams"),
    ("POST", f"{INSTANCE}/replace-disks", "mode"),
    ("POST", f"{NODE}/evacuate", "mode"),
    ("POST", f"{NODE}/modify", "ctotal"),
    ("PUT", f"{NODE}/power", "command"),
    ("PUT", "/2/modify", "moves_per_node"),
    ("PUT", "/2/pause", "reason"),
)
"""Requests that change something, each with a member of its body."""
VALUES = ("[[]]", '{"a": {"b": [1]}}', "1e999", "-1e308", "9" * 5000, "-" + "9" * 400, '"\\ud800' + "x" * 5000 + '"')


def body(field: str, chance: random.Random) -> bytes:
    """A body that is wrong for every request of `FIELDS`, whatever else it has."""
    kinds = (
        b"\xff" + chance.randbytes(chance.randint(1, 4000)),
        b'{"%b": ' % field.encode(),
        b"[" * DEPTH,
        b'{"%b":' % field.encode() * DEPTH,
        json.dumps([field, 1]).encode(),
        b"17",
        b"9" * 5000,
        *(f'{{"{field}": {value}}}'.encode() for value in VALUES),
    )
    return chance.choice(kinds)


def send(doors: Doors, chronicle: Chronicle, chance: random.Random, *, instance: str, node: str) -> None:
    """Send one at the remote API; an answer that is no refusal is a defect."""
    method, path, field = chance.choice(FIELDS)
    content = body(field, chance)
    where = path.format(instance=instance, node=node)
    told = f"garbage: {method} {where} {content[:60]!r} ({len(content)} bytes)"
    status = doors.send(method, where, content)
    if status is None or status in {502, 503, 504}:
        chronicle.count("garbage", "no answer", told)
        return
    chronicle.count("garbage", str(status), told)
    if not 400 <= status < 500:
        doors.defects.append(f"{told} was answered with {status}")
