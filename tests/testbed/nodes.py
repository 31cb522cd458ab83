"""The power of a bed's nodes, whatever they are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import containers, guests

if TYPE_CHECKING:
    from . import beds


def running(bed: beds.Bed) -> set[str]:
    """The nodes that have power."""
    return guests.running(bed) if _is_guests(bed) else containers.running(bed)


def set_power(bed: beds.Bed, node: str, *, on: bool) -> None:
    """Give a node power, or take it."""
    (guests if _is_guests(bed) else containers).set_power(bed, node, on=on)


def press_power_button(bed: beds.Bed, node: str) -> None:
    """Ask a node to shut itself down."""
    (guests if _is_guests(bed) else containers).press_power_button(bed, node)


def press_reset_button(bed: beds.Bed, node: str) -> None:
    """Have a node boot again without asking it."""
    (guests if _is_guests(bed) else containers).press_reset_button(bed, node)


def _is_guests(bed: beds.Bed) -> bool:
    return bool(bed.record()["kind"] == "guests")
