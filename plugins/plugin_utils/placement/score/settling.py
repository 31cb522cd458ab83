"""Counting all instances of a state at once, each where it is: what `State.count` does one by one.

Sums run in the order of the instances, so that even loads, which are not whole, come out equal to the last bit.
"""

from __future__ import annotations

import numpy as np

from . import columns

NOWHERE = columns.NOWHERE


def settle(nodes: columns.Nodes, held: columns.Instances, *, shared: columns.Numbers, f_mem: columns.Numbers) -> None:
    """Count the instances where they are; what the nodes report as free already lacks what real instances take.

    O(nodes^2 + instances).
    """
    nodes.memory_expected[:] = f_mem
    _primaries(nodes, held, shared)
    _disks(nodes, held)
    _secondaries(nodes, held)
    _ranks(nodes)
    started = by_node(held.primary, held.started, len(nodes.names))
    nodes.memory -= np.maximum(0.0, nodes.memory - (f_mem - started))


def by_node(where: columns.Indices, what: columns.Numbers, count: int) -> columns.Numbers:
    """By node the sum over its instances; nowhere does not count."""
    there = where != NOWHERE
    return np.bincount(where[there], weights=what[there], minlength=count).astype(float)


def _primaries(nodes: columns.Nodes, held: columns.Instances, shared: columns.Numbers) -> None:
    count = len(nodes.names)
    where, real = held.primary, held.real
    nodes.memory_expected -= by_node(where, held.memory, count)
    nodes.memory -= by_node(where, held.started * real, count)
    nodes.vcpus_expected += by_node(where, held.vcpus, count)
    nodes.vcpus += by_node(where, held.vcpus * real, count)
    nodes.primaries += by_node(where, real.astype(float), count)
    for number, load in enumerate(held.load):
        if number != columns.DISK:
            nodes.load[number] += by_node(where, load * real, count)
    nodes.location_score += by_node(where, _location_scores(nodes, held, shared) * real, count)
    tagged = np.repeat(where, [len(mine) for mine in held.tags])
    tags = np.concatenate([*held.tags, np.empty(0, dtype=np.int64)])
    np.add.at(nodes.tags, (tagged, tags), 1.0)
    np.add.at(nodes.real_tags, (tagged, tags), np.repeat(real.astype(float), [len(mine) for mine in held.tags]))


def _location_scores(nodes: columns.Nodes, held: columns.Instances, shared: columns.Numbers) -> columns.Numbers:
    """For each instance its desired locations that its primary lacks, and those that both nodes have."""
    missed = held.wanted - np.count_nonzero(held.desired & nodes.locations[held.primary], axis=1)
    return np.asarray(missed + np.where(held.secondary == NOWHERE, 0.0, shared[held.primary, held.secondary]))


def _disks(nodes: columns.Nodes, held: columns.Instances) -> None:
    """On both nodes of an instance; free disk and spindles as the nodes tell them lack those of real ones already."""
    count = len(nodes.names)
    where = _both(held.primary, held.secondary)
    promised = ~held.real
    nodes.disk_expected -= by_node(where, _twice(held.disk * promised), count)
    nodes.free_spindles_expected -= by_node(where, _twice(held.own_spindles * promised), count)
    shared = ~nodes.exclusive[where]
    nodes.spindles_expected += by_node(where, _twice(held.spindle_use) * shared, count)
    nodes.spindles += by_node(where, _twice(held.spindle_use * held.real) * shared, count)
    nodes.load[columns.DISK] += by_node(where, _twice(held.load[columns.DISK] * held.real), count)


def _both(first: columns.Indices, second: columns.Indices) -> columns.Indices:
    return np.stack((first, second), axis=1).ravel()


def _twice(values: columns.Numbers) -> columns.Numbers:
    return np.asarray(np.repeat(values, 2))


def _secondaries(nodes: columns.Nodes, held: columns.Instances) -> None:
    count = len(nodes.names)
    there = held.real & (held.secondary != NOWHERE)
    nodes.secondaries += np.bincount(held.secondary[there], minlength=count)
    np.add.at(nodes.peers, (held.secondary[there], held.primary[there]), held.reserved[there])


def _ranks(nodes: columns.Nodes) -> None:
    """The two largest of each row of `peers`; the row is as it was afterwards."""
    if not nodes.names:
        return
    each, top = np.arange(len(nodes.names)), nodes.peers.argmax(axis=1)
    nodes.reserved_for[:], nodes.reserved[:] = top, nodes.peers[each, top]
    nodes.peers[each, top] = 0.0
    nodes.reserved_next[:] = nodes.peers.max(axis=1)
    nodes.peers[each, top] = nodes.reserved
