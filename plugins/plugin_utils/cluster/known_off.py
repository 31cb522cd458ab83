"""Whether a node is known to be off: since when, by whose word, and which signs of life it has shown since."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from . import cluster as clusters


def is_off(node: clusters.Node) -> bool:
    """Whether a node is recorded as off: its BMC said so then, or a person did."""
    return not node.powered or node.off_confirmed > 0


def has_lived(node: clusters.Node) -> bool:
    """Whether a node that is recorded as off has shown a sign of life since: it is not known to be off any more."""
    return is_off(node) and node.alive_at > seen_off(node)


def is_known_off(node: clusters.Node) -> bool:
    """Whether a node is recorded as off, by a command or a person, and has shown no sign of life since.

    A reading alone is none: until it gets a command a BMC may read off whatever the real state (`off_read`).
    """
    return is_off(node) and not has_lived(node) and (not node.off_read or node.off_confirmed > 0)


def is_stated_off(node: clusters.Node) -> bool:
    """Whether a person has stated that a node is off, and it has shown no sign of life since."""
    return node.off_confirmed > 0 and not has_lived(node)


def stated_by(node: clusters.Node) -> str:
    """The user by whose word alone a node is known to be off since then, 'a person' where that is not known; or ''."""
    return node.off_stated_by or "a person" if is_stated_off(node) and is_dated_by_statement(node) else ""


def is_dated_by_statement(node: clusters.Node) -> bool:
    """Whether a node is known to be off since a person stated it, and not since before."""
    return node.off_since >= node.off_confirmed > 0


def seen_off(node: clusters.Node) -> float:
    """When a node was first known to be off (unix seconds), 0 for one that is not; later signs of life are not asked.

    It is dated like the last sign of life before it where that is dated in the future (`off_since`).
    """
    return (node.off_since or node.off_confirmed) if is_off(node) else 0.0


def with_off_since(cluster: clusters.Cluster) -> clusters.Cluster:
    """A configuration as it was read, with the time since when each node is off.

    One that was written before this was kept has only when a person stated it, or when the node was last changed: that
    is taken once, because every later change of the node moves it on.
    """
    undated = {uuid: node for uuid, node in cluster.nodes.items() if is_off(node) and not node.off_since}
    dated = {
        uuid: dataclasses.replace(node, off_since=node.off_confirmed or node.mtime) for uuid, node in undated.items()
    }
    return dataclasses.replace(cluster, nodes={**cluster.nodes, **dated}) if dated else cluster


def recorded_off(node: clusters.Node) -> float:
    """When it was recorded that a node is off, by the clock of that time, or soon after that (unix seconds).

    That is earlier than `seen_off` where the sign of life before it was dated in the future; then it is the node's last
    change.
    """
    known = seen_off(node)
    return min(known, node.mtime or known)


def off_since(node: clusters.Node, *, at: float, now: float) -> float:
    """Since when a node is off that a new confirmation of this time says is off: a sign of life restarts it.

    A sign of life that is dated later than now came before the clock was set back, and so before the confirmation,
    which gets its date: the order of these dates says what came later.
    """
    if is_known_off(node):
        return seen_off(node)
    return node.alive_at if node.alive_at > now else at


def off_since_unstated(node: clusters.Node) -> float:
    """Since when a node is off once a person's statement is taken back: the sign of life that it ended stands again."""
    if node.powered:
        return 0.0
    is_of_it = is_dated_by_statement(node)
    return math.nextafter(node.alive_at, 0.0) if is_of_it and node.alive_at > 0 else node.off_since


def alive_at(node: clusters.Node, *, at: float, now: float) -> float:
    """The date of a node's last sign of life after one that came now, and was `at` (unix seconds, 0 for now).

    Never earlier than before. Where the one before, or what is known of its power, is dated now or in the future, the
    clock stands still, or was ahead then: the new one came later, and is dated by the smallest step after it.
    """
    latest = max(node.alive_at, seen_off(node))
    if latest >= now:
        return math.nextafter(latest, math.inf)
    return max(node.alive_at, min(at or now, now))
