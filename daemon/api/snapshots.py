"""The configuration as resources read it: one snapshot with its indexes, and lists that are serialised once."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, TypeVar

from ...plugins.module_utils.domain.values import errors
from ...plugins.plugin_utils.cluster import cluster as clusters
from ...plugins.plugin_utils.rounds.holdings import Holdings
from . import answers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

Named = TypeVar("Named", clusters.Node, clusters.Instance)


class Snapshot:
    """One version of the configuration; objects are found by name or UUID in constant time."""

    def __init__(self, cluster: clusters.Cluster, holdings: Holdings | None = None) -> None:
        self.cluster = cluster
        self._known = holdings

    @functools.cached_property
    def holdings(self) -> Holdings:
        """What the nodes hold."""
        return self._known or Holdings(self.cluster.instances)

    @functools.cached_property
    def nodes_by_group(self) -> dict[str, list[str]]:
        """The names of the nodes of each group (UUID)."""
        found: dict[str, list[str]] = {uuid: [] for uuid in self.cluster.nodegroups}
        for node in sorted(self.cluster.nodes.values(), key=lambda node: clusters.natural(node.name)):
            found[node.group].append(node.name)
        return found

    @functools.cached_property
    def _nodes_by_name(self) -> dict[str, clusters.Node]:
        return {node.name: node for node in self.cluster.nodes.values()}

    def find(self, name: str) -> clusters.Node | clusters.Instance:
        """The node, else the instance, with this name or UUID.

        Raises:
            NotFound: there is neither.
        """
        node = self.cluster.nodes.get(name) or self._nodes_by_name.get(name)
        found = node or self.cluster.instances.get(name) or self.holdings.by_name.get(name)
        if found is None:
            raise errors.NotFound(f"there is no node or instance {name!r}")
        return found

    def instance(self, name: str) -> clusters.Instance:
        """The instance with this name or UUID.

        Raises:
            NotFound: there is none.
        """
        found = self.cluster.instances.get(name) or self.holdings.by_name.get(name)
        if found is None:
            raise errors.NotFound(f"there is no instance {name!r}")
        return found


class Snapshots:
    """The newest snapshot; what a commit did not touch is neither indexed nor serialised again."""

    def __init__(self, current: Callable[[], clusters.Cluster]) -> None:
        self._current = current
        self._last: Snapshot | None = None
        self._lists: dict[str, tuple[Sequence[object], bytes]] = {}
        self._members: dict[str, dict[str, tuple[Sequence[object], bytes]]] = {}

    def newest(self) -> Snapshot:
        """The snapshot of the configuration as it is now."""
        cluster, last = self._current(), self._last
        if last is None or last.cluster is not cluster:
            keeps = last is not None and last.cluster.instances is cluster.instances
            self._last = last = Snapshot(cluster, last.holdings if keeps and last is not None else None)
        return last

    def serialised(self, name: str, parts: Sequence[object], make: Callable[[], Any]) -> bytes:
        """A list as JSON text, made again only when one of the parts that it depends on is another object."""
        known = self._lists.get(name)
        if known is None or not _are_same(known[0], parts):
            self._lists[name] = known = (tuple(parts), answers.encoded(make()))
        return known[1]

    def joined(
        self,
        name: str,
        members: Iterable[Named],
        *,
        parts: Callable[[Named], Sequence[object]],
        make: Callable[[Named], Any],
    ) -> bytes:
        """A list as JSON text, of which a member is made again only when one of the parts that it depends on is."""
        known, found = self._members.get(name, {}), {}
        for member in members:
            now = parts(member)
            entry = known.get(member.uuid)
            if entry is None or not _are_same(entry[0], now):
                entry = (now, answers.encoded(make(member)))
            found[member.uuid] = entry
        self._members[name] = found
        return b"[" + b",".join(text for _, text in found.values()) + b"]"


def _are_same(old: Sequence[object], new: Sequence[object]) -> bool:
    return len(old) == len(new) and all(one is other for one, other in zip(old, new, strict=True))
