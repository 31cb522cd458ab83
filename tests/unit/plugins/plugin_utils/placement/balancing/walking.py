"""Where an instance is after each step of its move, read from the words of the steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.score import columns

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.plan import Move
    from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.score.state import State


def places(state: State, move: Move) -> Iterator[tuple[int, int]]:
    """The primary and the secondary (indices) after each step, from where the state has the instance."""
    number = state.by_instance[move.instance]
    primary, secondary = int(state.instances.primary[number]), int(state.instances.secondary[number])
    for step in move.steps:
        kind, _, name = step.partition(":")
        if kind == "r":
            secondary = state.nodes.index[name]
        elif name:
            primary = state.nodes.index[name]
            assert secondary == columns.NOWHERE
        else:
            primary, secondary = secondary, primary
        yield primary, secondary
