"""Opcodes that give objects tags and take them: they change the configuration only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ...module_utils.domain.values import errors
from ..cluster import changes, tagging
from . import contract

if TYPE_CHECKING:
    from ..cluster import cluster as clusters
    from ..cluster.locks import Mode


@dataclass(frozen=True)
class _Tags(contract.ChangeOpcode):
    """`of` is cluster, group, node or instance; `object` is its UUID, empty for the cluster."""

    of: str
    object: str
    tags: tuple[str, ...]

    def wants(self, _cluster: clusters.Cluster) -> dict[str, Mode]:
        # What tags an object has is stated and committed at once: whoever works at the object does not mind.
        return {}


@dataclass(frozen=True)
class TagsSet(_Tags):
    """Give an object tags; those that it has already stay."""

    kind: ClassVar[str] = "tags_set"

    def changes(self, cluster: clusters.Cluster, _facts: contract.Facts, *, since: float) -> list[changes.Change]:  # noqa: ARG002 - the port's signature
        for tag in self.tags:
            tagging.check_tag(tag)
        tagging.tag_owner(cluster, self.of, self.object)
        return [tagging.Tagged(self.of, self.object, tag, present=True) for tag in self.tags]


@dataclass(frozen=True)
class TagsDel(_Tags):
    """Take tags from an object, all of which it must have."""

    kind: ClassVar[str] = "tags_del"
    removes: ClassVar[bool] = True

    def changes(self, cluster: clusters.Cluster, _facts: contract.Facts, *, since: float) -> list[changes.Change]:  # noqa: ARG002 - the port's signature
        has = tagging.tag_owner(cluster, self.of, self.object).tags
        absent = [repr(tag) for tag in self.tags if tag not in has]
        if absent:
            raise errors.Refused(f"Tag(s) {', '.join(absent)} not found")
        return [tagging.Tagged(self.of, self.object, tag, present=False) for tag in self.tags]

    def is_removed(self, cluster: clusters.Cluster) -> bool:
        return not set(self.tags) & set(tagging.tag_owner(cluster, self.of, self.object).tags)
