"""Texts about replicas that may have data of their own, for people: when that was, and which command ends it."""

from __future__ import annotations

import datetime as dt


def finish_step(instance: str, made_on: str, secondary: str) -> str:
    """The command that finishes the replacement of an instance's disks, also where the node of the new replica is lost.

    All are names; `secondary` is the node that the instance has on record.
    """
    return (
        f"`roundsman instance replace-disks {instance} --to {made_on}` (if {made_on} does not come back, "
        f"{_other_target(secondary)})"
    )


def give_up_step(instance: str, secondary: str) -> str:
    """The command that ends the replacement of an instance's disks without the node of the new replica (names)."""
    return f"run `roundsman instance replace-disks {instance}` {_other_target(secondary)}"


def _other_target(secondary: str) -> str:
    return f"with `--to` another node, or with `--to {secondary}`, which replaces the replica there"


def discard_refusal(instance: str, node: str, secondary: str) -> str:
    """Why nobody discards a new replica whose replacement of disks has not ended (names)."""
    return (
        f"--discard {node}: {instance} may be written to its new replica on {node}, because replace-disks has not "
        f"ended. To give that replica up, {give_up_step(instance, secondary)}"
    )


def clock(wall: float) -> str:
    """A unix time as text for people, also of a clock, or in a document, that no calendar has."""
    try:
        return dt.datetime.fromtimestamp(wall, dt.timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, ValueError, OSError):
        return f"{wall:g} s since 1970"
