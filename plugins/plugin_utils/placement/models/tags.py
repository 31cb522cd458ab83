"""Tags that steer placement: what the cluster's tags make of those of nodes and instances (Ganeti's htools)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from . import model

EXCLUSION = "htools:iextags:"
LOCATION = "htools:nlocation:"
DESIRED = "htools:desiredlocation:"
MIGRATION = "htools:migration:"
ALLOWED = "htools:allowmigration:"
BETWEEN = "::"


@dataclass(frozen=True)
class Steering:
    """What the tags of a model say: of each instance `exclusion` and `desired`, of each node the other two."""

    exclusion: list[tuple[str, ...]]
    desired: list[frozenset[str]]
    locations: list[frozenset[str]]
    migration: list[tuple[frozenset[str], frozenset[str]]]


def steering(cluster: model.Model) -> Steering:
    """What the tags of a model say, looked up once."""
    return Steering(exclusion(cluster), desired(cluster), locations(cluster), migration(cluster))


def exclusion(cluster: model.Model) -> list[tuple[str, ...]]:
    """For each instance its exclusion tags: those which begin with a P of `htools:iextags:P`."""
    prefixes = exclusion_prefixes(cluster.tags)
    return [beginning(instance.tags, prefixes) for instance in cluster.instances]


def exclusion_prefixes(tags: Iterable[str]) -> list[str]:
    """Each P of a cluster's tags `htools:iextags:P`."""
    return _named(tags, EXCLUSION)


def desired(cluster: model.Model) -> list[frozenset[str]]:
    """For each instance the locations it wants: its tags which begin with a P of `htools:desiredlocation:P`."""
    prefixes = _named(cluster.tags, DESIRED)
    if not prefixes:
        return [frozenset()] * len(cluster.instances)
    return [frozenset(beginning(instance.tags, prefixes)) for instance in cluster.instances]


def locations(cluster: model.Model) -> list[frozenset[str]]:
    """For each node what it may fail with: its tags `P:...` for a P of `htools:nlocation:P`."""
    return _of_nodes(cluster, LOCATION)


def migration(cluster: model.Model) -> list[tuple[frozenset[str], frozenset[str]]]:
    """For each node its migration tags, and those it receives: its own and, by `htools:allowmigration:a::b`, others.

    An instance moves live from one node to another only if the tags of the first are among those the second receives.
    """
    pairs = [text.split(BETWEEN) for text in _named(cluster.tags, ALLOWED) if text.count(BETWEEN) == 1]
    found = []
    for own in _of_nodes(cluster, MIGRATION):
        others = (source for source, target in pairs if target in own)
        found.append((own, own | frozenset(others)))
    return found


def _of_nodes(cluster: model.Model, prefix: str) -> list[frozenset[str]]:
    prefixes = [f"{text}:" for text in _named(cluster.tags, prefix)]
    return [frozenset(beginning(node.tags, prefixes)) for node in cluster.nodes]


def _named(tags: Iterable[str], prefix: str) -> list[str]:
    return [tag.removeprefix(prefix) for tag in tags if tag.startswith(prefix) and tag != prefix]


def beginning(tags: Sequence[str], prefixes: Sequence[str]) -> tuple[str, ...]:
    """The tags that begin with one of the prefixes."""
    if not tags or not prefixes:
        return ()
    return tuple(tag for tag in tags if any(tag.startswith(prefix) for prefix in prefixes))
