"""What the disks of an instance need, for resources in many states: a line for each, by the answers of `drbd_info`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.golden.planning import product
from tests.troubled_clusters import Luck

if TYPE_CHECKING:
    from collections.abc import Iterator

RESOURCE = "web1-disk0"
PAIRS = 220
CONNECTIONS = ("Connected",) * 6 + ("StandAlone",) * 6 + ("Connecting", "Connecting", "NetworkFailure")
DISKS = ("UpToDate",) * 9 + ("Inconsistent", "Outdated", "Consistent", "Diskless", "Failed", "Attaching")
REPLICATIONS = ("Established",) * 9 + ("SyncSource", "PausedSyncT", "VerifyS")
ACTIONS = ("up", "attach", "resume", "connect", "invalidate", "discard", "outdate", "replace")
OFFSET = 0x0001000000000000
"""What DRBD adds to a generation when a resync from it starts."""
GENERATIONS: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((0x10, 0), (0x10, 0)),
    ((0x10, 0), (0x10, 0)),
    ((0x20, 0x10), (0x10, 0)),
    ((0x10, 0), (0x20, 0x10)),
    ((0x20, 0x10), (0x30, 0x10)),
    ((0x20, 0x10), (0x30, 0x10)),
    ((0x20, 0x40, 0x10), (0x30, 0x10)),
    ((0x20, 0x10), (0x30, 0x40, 0x10)),
    ((0x20, 0x10), (0x50, 0x60)),
    ((0x20, 0, 0x50 + OFFSET), (0x50, 0x60)),
    ((0x50, 0x60), (0x20, 0, 0x50 + OFFSET)),
    ((0x10, 0), (4, 0)),
)
"""The identifiers of both sides: the same, one of them newer, a split brain, nothing in common, history too short."""


def lines() -> Iterator[str]:
    """A line for each pair: its state, then what it needs."""
    for number in range(PAIRS):
        yield from _pair(number)


def _pair(number: int) -> Iterator[str]:
    luck = Luck(50_000 + number)
    connection = luck.pick(CONNECTIONS)
    generations = luck.pick(GENERATIONS) if luck.chance(0.9) else (None, None)
    roles = ("Primary", "Secondary") if luck.chance(0.85) else (luck.pick(("Primary", "Secondary")), "Primary")
    roles = ("Secondary", "Secondary") if luck.chance(0.1) else roles
    sides = {
        where: _answer(luck, role=role, connection=connection, generation=generation)
        for where, role, generation in zip(("primary", "secondary"), roles, generations, strict=True)
    }
    discard = luck.pick(("node1", "node2", "node2", "node9")) if luck.chance(0.25) else ""
    shown = {where: _state(answer) for where, answer in sides.items()}
    tried: list[dict[str, str]] = []
    words = [f"{where} {state}" for where, state in shown.items()] + ([f"discard {discard}"] if discard else [])
    yield f"## pair {number}: {'; '.join(words)}"
    for _ in range(3):
        found = product.repair(RESOURCE, sides, tried=tried, discard=discard)
        yield from found["lines"]
        if not found["steps"]:
            return
        # As where the steps do not help: the nodes say the same again.
        for step in found["steps"]:
            yield f"  {step['action']} on {step['node']}"
        tried = [*tried, *found["steps"]]


def _answer(luck: Luck, *, role: str, connection: str, generation: tuple[int, ...] | None) -> dict[str, Any]:
    if luck.chance(0.04):
        return {"msg": "node does not answer"}
    if luck.chance(0.05):
        return {"sides": []}
    own = connection if luck.chance(0.85) else luck.pick(CONNECTIONS)
    volume = {
        "number": 0 if luck.chance(0.99) else 1,
        "minor": 0,
        "disk": luck.pick(DISKS),
        "peer_disk": "UpToDate",
        "replication": luck.pick(REPLICATIONS) if own == "Connected" else "Off",
        "out_of_sync": 8 if luck.chance(0.05) else 0,
        "done": 12.5 if luck.chance(0.5) else None,
        "paused_by_user": luck.chance(0.08),
        "generation": None
        if generation is None
        else {"identifiers": [f"{entry:016x}" for entry in generation], "crashed_primary": luck.chance(0.1)},
    }
    return {
        "sides": [{"resource": RESOURCE, "role": role, "connection": own, "peer_role": "Unknown", "volumes": [volume]}]
    }


def _state(answer: dict[str, Any]) -> str:
    if "sides" not in answer:
        return "unheard"
    if not answer["sides"]:
        return "down"
    (side,) = answer["sides"]
    (volume,) = side["volumes"]
    known = volume["generation"]
    words = [side["role"], side["connection"], volume["disk"], volume["replication"]]
    words += [f"volume{volume['number']}"] if volume["number"] else []
    words += ["paused"] if volume["paused_by_user"] else []
    words += [f"{volume['out_of_sync']} KiB differ"] if volume["out_of_sync"] else []
    words += ["/".join(entry.lstrip("0") or "0" for entry in known["identifiers"])] if known else ["no generation"]
    return " ".join(words)
