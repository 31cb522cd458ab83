"""Capital letters at the beginning of sentences."""

from __future__ import annotations


def capitalized(text: str) -> str:
    """The text with a capital first letter; the others stay as they are (`node3`, `roundsman`, UUIDs)."""
    return f"{text[:1].upper()}{text[1:]}"
