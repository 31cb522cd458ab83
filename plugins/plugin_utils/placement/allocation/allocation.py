"""Where new instances go: the place with the best score of the cluster after it, among the groups that may take it.

Groups that prefer new instances come before those of last resort, then the score decides; an unallocable group is never
used. An instance that has a primary, or both nodes, already stays with them. Memory, disk, N+1, the policy of the group
and exclusion tags are kept; what has no place has for each group the reason. Source: Ganeti's hail.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ....module_utils.domain.values import errors
from ..models import model, tags
from ..score import columns, state
from . import allocator, newcomers, obstacles, openings, placed_scores, refusing

if TYPE_CHECKING:
    from collections.abc import Sequence

ORDER = tuple(model.AllocPolicy)


def allocate(found: model.Model, request: allocator.Allocate) -> allocator.Result:
    """A place for one new instance, or why there is none.

    Raises:
        NotFound: the request names a node or group that is not there.
    """
    return multi_allocate(found, allocator.MultiAllocate((request.wanted,)))


def multi_allocate(found: model.Model, request: allocator.MultiAllocate) -> allocator.Result:
    """Places for new instances, one after the other in their order: what one takes the next has no more.

    Raises:
        NotFound: the request names a node or group that is not there.
    """
    there = openings.online_nodes(state.build(found))
    answers = [_Search(found, there, wanted).answer() for wanted in request.wanted]
    placed = tuple(answer for answer in answers if isinstance(answer, allocator.Placement))
    unplaced = tuple(answer for answer in answers if isinstance(answer, allocator.Unplaced))
    return allocator.Result(placed, unplaced, info=f"{len(placed)} of {len(answers)} instances have a place")


def allocate_secondary(found: model.Model, request: allocator.AllocateSecondary) -> allocator.Result:
    """A secondary in the group of its primary for an instance that becomes a DRBD pair, or why there is none.

    Raises:
        NotFound: there is no such instance.
        InvalidInput: it has a secondary already.
    """
    instance = next((each for each in found.instances if each.name == request.instance), None)
    if instance is None:
        raise errors.NotFound(f"there is no instance {request.instance}")
    if instance.secondary:
        raise errors.InvalidInput(f"{instance.name} has the secondary {instance.secondary} already")
    now = state.build(found)
    now.count(now.by_instance[instance.name], state.FREED)
    pair = replace(instance, template=model.Template.DRBD, networks=())
    answer = _Search(found, openings.online_nodes(now), allocator.Wanted(pair)).answer()
    if isinstance(answer, allocator.Unplaced):
        return allocator.Result(unplaced=(answer,), info=answer.text)
    return allocator.Result((answer,), info=f"{instance.name} gets the secondary {answer.nodes[1]}")


def place(
    found: model.Model, now: state.State, wanted: allocator.Wanted, *, stays: bool = False
) -> allocator.Placement | allocator.Unplaced:
    """A place for an instance that is not counted in `now`, a state of the model, or why there is none.

    One that `stays` in its group is no new instance there: what the policy says of those does not count.

    Raises:
        NotFound: a node or group is not there.
    """
    return _Search(found, openings.online_nodes(now), wanted, stays=stays).answer()


class _Search:
    """One instance and where it may go; the groups are those of the model by their index."""

    def __init__(
        self, found: model.Model, there: openings.Openings, wanted: allocator.Wanted, *, stays: bool = False
    ) -> None:
        self._found, self._there, self._wanted, self._stays = found, there, wanted, stays
        self._newcomer = newcomer_of(wanted, found)
        names = there.nodes.names
        known = {*names, ""}
        for name in (wanted.instance.primary, wanted.instance.secondary, *(wanted.only or ())):
            if name not in known:
                raise errors.NotFound(f"there is no node {name}")
        if wanted.group and wanted.group not in {group.name for group in found.groups}:
            raise errors.NotFound(f"there is no group {wanted.group}")
        here = [names[number] for number in there.numbers]
        self._primaries = self._may(here, wanted.instance.primary)
        self._secondaries = self._may(here, wanted.instance.secondary)

    def answer(self) -> allocator.Placement | allocator.Unplaced:
        """The place, which is taken at once, or the reasons of all groups."""
        excluded = {number: self._excluded(group) for number, group in enumerate(self._found.groups)}
        considered = [number for number, text in excluded.items() if not text]
        allowed = np.isin(self._there.nodes.group, considered)
        bars = self._obstacles(allowed)
        places = bars.places(self._newcomer.size, any_policy=self._stays)
        if not places:
            return self._unplaced(excluded)
        best = self._best(places)
        self._there.take(self._newcomer, primary=best.primary, secondary=best.secondary)
        names = self._there.nodes.names
        nodes = tuple(
            names[self._there.numbers[node]] for node in (best.primary, best.secondary) if node != columns.NOWHERE
        )
        group = self._found.groups[int(self._there.nodes.group[best.primary])].name
        return allocator.Placement(self._wanted.instance.name, nodes, group)

    def _may(self, here: Sequence[str], given: str) -> columns.Flags:
        only = self._wanted.only
        return np.array([given in {"", name} and (only is None or name in only) for name in here], dtype=bool)

    def _obstacles(self, allowed: columns.Flags) -> obstacles.Obstacles:
        return obstacles.Obstacles(
            self._there,
            self._newcomer,
            policies=[group.policy for group in self._found.groups],
            primaries=self._primaries & allowed,
            secondaries=self._secondaries & allowed,
        )

    def _best(self, places: obstacles.Places) -> placed_scores.Place:
        """The best place of the best kind of group, of equal groups the last."""
        scores = placed_scores.PlacedScores(self._there, self._newcomer)
        groups = self._there.nodes.group[places.primaries]
        open_ = groups[places.pairs.any(axis=1)]
        policies = {int(group): ORDER.index(self._found.groups[group].alloc_policy) for group in np.unique(open_)}
        wanted = [number for number, order in policies.items() if order == min(policies.values())]
        rows = np.isin(groups, wanted)
        return scores.best(obstacles.Places(places.primaries[rows], places.pairs[rows]))

    def _excluded(self, group: model.Group) -> str:
        """Why a group is not considered whatever room it has, "" if it is."""
        given = [name for name in (self._wanted.instance.primary, self._wanted.instance.secondary) if name]
        if self._wanted.group and group.name != self._wanted.group:
            return "it is not the group asked for"
        if group.alloc_policy is model.AllocPolicy.UNALLOCABLE and not self._stays:
            return "it takes no new instances (unallocable)"
        missing = [network for network in self._wanted.instance.networks if network not in group.networks]
        if missing and not self._stays:
            return f"it is not connected to the network {', '.join(missing)}"
        homes = {node.name: node.group for node in self._found.nodes}
        outside = [name for name in given if homes[name] != group.uuid]
        if outside:
            return f"{' and '.join(outside)} {'are' if len(outside) > 1 else 'is'} not in it"
        offline = [node.name for node in self._found.nodes if node.name in given and node.offline]
        return f"{' and '.join(offline)} {'are' if len(offline) > 1 else 'is'} offline" if offline else ""

    def _unplaced(self, excluded: dict[int, str]) -> allocator.Unplaced:
        reasons = {}
        for number, group in enumerate(self._found.groups):
            text = excluded[number]
            if not text:
                text = refusing.reason(self._obstacles(self._there.nodes.group == number), group.policy)
            reasons[group.name] = text
        return allocator.Unplaced(self._wanted.instance.name, reasons or {"": "there is no group"})


def newcomer_of(wanted: allocator.Wanted, found: model.Model) -> newcomers.Newcomer:
    """What a wanted instance takes, and which of its tags steer where it goes."""
    instance = wanted.instance
    load, alone = instance.load, replace(found, instances=(instance,))
    return newcomers.Newcomer(
        size=newcomers.Size(instance.memory, instance.disk, instance.vcpus, instance.spindles),
        template=instance.template,
        spindle_use=instance.spindle_use,
        disks=wanted.disks or (None if instance.disk else ()),
        reserves=instance.auto_balance,
        tags=tags.exclusion(alone)[0],
        desired=tags.desired(alone)[0],
        load=(load.cpu, load.memory, load.disk, load.net),
    )
