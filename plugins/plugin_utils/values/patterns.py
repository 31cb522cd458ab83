"""Regular expressions of users that the daemon searches for itself: only those that end soon, whatever the text is.

A choice is a repeat (`* + ? {`) of one character, or a group with alternatives. A pattern has at most two, and no other
way to try again: groups are not repeated, there are no references, lookarounds or conditions. A search begins at each
place of a text of n characters, and each choice has at most n + 1 outcomes (or as many as the group has alternatives,
at most half as many as the pattern has characters); what stands behind the last choice is tried for each of them. With
the limits below that are some tens of millions of steps, less than half a second: 300 * 300 / 2 ways through a pattern
of 500 characters with one choice, 100 * 100 * 100 / 6 through one of 100 with two. `|` outside of groups adds ways and
multiplies none.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, NamedTuple, Optional


class Limits(NamedTuple):
    """How long a pattern may be, and how many of the first characters of a text it is held against."""

    pattern: int
    text: int


LIMITS = (Limits(500, 300), Limits(500, 300), Limits(100, 100))
"""By the number of choices."""
MOST_CHOICES = len(LIMITS) - 1
MOST_GROUPS = 20
LITERALS = re.compile(r"\\.|\[\^?\]?(?:\\.|[^]\\])*\]", re.DOTALL)
"""What stands for one character of a pattern: an escaped one, or a class."""
BACK_REFERENCE = re.compile(r"\\[1-9]")
IGNORES_CASE = "(?i)"
REPEAT = re.compile(r"\)?(?:[*+?]|\{(?:[0-9]*,?[0-9]*\})?)[?+]?")


def problem(pattern: Any) -> Optional[str]:
    """Why a pattern is refused, None for one that can be searched for."""
    if not isinstance(pattern, str) or len(pattern) > LIMITS[0].pattern:
        return f"a pattern is a string of at most {LIMITS[0].pattern} characters"
    return _problem(pattern)


def matches(pattern: str, text: str) -> bool:
    """Whether a pattern without a problem is found in the beginning of a text (see `LIMITS`)."""
    return re.search(pattern, text[: LIMITS[_choices(pattern)].text]) is not None


@lru_cache(maxsize=1000)
def _problem(pattern: str) -> Optional[str]:
    plain = _plain(pattern)
    if "(?" in plain or BACK_REFERENCE.search(pattern):
        return (
            f"{pattern!r} may take too long: use no (? but (?: and (?i) at the beginning, and no references to groups"
        )
    choices = _choices(pattern)
    if choices > MOST_CHOICES or any(repeat.startswith(")") for repeat in REPEAT.findall(plain)):
        return (
            f"{pattern!r} may take too long: use at most {MOST_CHOICES} of * + ? {{ and groups with |, "
            "none of * + ? { after a group"
        )
    if len(pattern) > LIMITS[choices].pattern or plain.count("(") > MOST_GROUPS:
        return (
            f"{pattern!r} may take too long: use at most {MOST_GROUPS} groups, and where there are {choices} of "
            f"* + ? {{ and groups with | at most {LIMITS[choices].pattern} characters"
        )
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError, ValueError) as error:
        return f"{pattern!r} is no regular expression: {error}"
    return None


def _plain(pattern: str) -> str:
    """The pattern with one letter for each character that it matches; groups are `(`, and other kinds stay `(?`."""
    return LITERALS.sub("x", pattern.removeprefix(IGNORES_CASE)).replace("(?:", "(")


@lru_cache(maxsize=1000)
def _choices(pattern: str) -> int:
    plain = _plain(pattern)
    return len(REPEAT.findall(plain)) + _groups_with_alternatives(plain)


def _groups_with_alternatives(plain: str) -> int:
    """How many groups have alternatives of their own; a group within another is one more."""
    found, within = 0, [False]
    for character in plain:
        if character == "(":
            within.append(False)
        elif character == ")" and len(within) > 1:
            found += within.pop()
        elif character == "|":
            within[-1] = True
    return found
