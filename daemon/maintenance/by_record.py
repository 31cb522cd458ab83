"""Which controller leads where no node has an agent that votes: what its own record says, and nodes over SSH in doubt.

Such a controller goes on in the epoch that it began first. It begins one above only where a person states that no other
controller works, and asks the nodes then: else one that was replaced would be above its successor once it restarts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import leading

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...plugins.module_utils.domain.agent import epochs
    from ...plugins.plugin_utils import controller_epoch

GOES_ON = leading.Verdict(leads=True, reason="no node has an agent that votes")


def decide(
    record: controller_epoch.Record | None, *, is_here: bool, is_stated: bool
) -> tuple[leading.Step, leading.Verdict]:
    """What a controller does that starts and asks no node, by the record of its folder, which was written there or not.

    `is_stated`: a person states that no other controller works. After an offer in vain that has to be stated again:
    nodes may have promised to follow it, and nothing shows whether the controller that led before works.
    """
    if record is None or is_stated:
        return leading.Step.BEGIN, leading.LEADS
    if not is_here:
        return leading.Step.END, leading.Verdict(
            leads=False,
            reason=f"this folder is a copy of another controller's, which led in {record.highest}, and no node has an "
            "agent that votes, so nothing shows whether that one works",
            unblock=f"if it is stopped and stays stopped, a start of this one that says so: `{leading.NO_VOTING}`",
            is_final=True,
        )
    if record.order is None or record.offered:
        return leading.Step.END, leading.Verdict(
            leads=False,
            reason=f"{record.highest} was offered to nodes from here, which was not finished, and no node has an agent "
            "that votes, so nothing shows which controller leads",
            unblock=f"if no other controller works, a start that says so: `{leading.NO_VOTING}`, or the move of the "
            "master role again that has begun here",
            is_final=True,
        )
    return leading.Step.GO_ON, GOES_ON


def replaced_text(
    own: epochs.Epoch | None, follows: Mapping[str, epochs.Kept | None], *, has_booted: bool = False
) -> str:
    """That more nodes (UUIDs) follow another controller than this one, by what they keep; '' where that is not so.

    As many are enough for a machine that `has_booted` since it led: it may have been replaced while it was off, and is
    one of those that follow it.
    """
    lost = leading.strays(own, follows)
    led = [uuid for uuid, kept in follows.items() if kept is not None and uuid not in lost]
    if not lost or len(lost) < len(led) or (len(lost) == len(led) and not has_booted):
        return ""
    found = max(lost.values(), key=lambda kept: kept.epoch.number)
    return (
        f"{len(lost)} nodes follow {found.epoch} of another controller, and {len(led)} follow this one, "
        f"which led in {own}; stop that controller before this one is started again, or if it does not work any more, "
        f"start this one with `{leading.NO_VOTING}`"
    )
