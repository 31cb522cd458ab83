"""Durations and times as people write them: `90`, `90s`, `6m`, `1h`, and `2026-03-01 14:05 UTC`."""

from __future__ import annotations

import datetime as dt
import re
from typing import Annotated

import typer

from ...plugins.module_utils.domain.values import errors

UNITS = {"": 1, "s": 1, "m": 60, "h": 3600}
LONGEST = 86400
_DURATION = re.compile(r"([0-9]{1,9})([smh]?)")


def seconds(text: str, *, what: str) -> int:
    """The seconds of a duration, at most a day.

    Raises:
        InvalidInput: it is not a duration, or a longer one; `what` names the option in the text.
    """
    found = _DURATION.fullmatch(text.strip())
    if found is None or int(found[1]) * UNITS[found[2]] > LONGEST:
        raise errors.InvalidInput(f"{what}: {text!r} is not a duration of at most a day, as in 90, 90s, 6m or 1h")
    return int(found[1]) * UNITS[found[2]]


def instant(text: str) -> float:
    """The unix seconds of a time that states its zone.

    Raises:
        InvalidInput: it is no time, or has no zone.
    """
    try:
        found = dt.datetime.fromisoformat(re.sub(r" ?UTC$", "Z", text.strip()))
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise errors.InvalidInput(
            f"--since: {text!r} is not a time with its zone, as in '2026-03-01 14:05 UTC' or 2026-03-01T15:05:00+01:00"
        )
    return found.timestamp()


def _since(text: str) -> float:
    try:
        return instant(text)
    except errors.InvalidInput as error:
        raise typer.BadParameter(str(error)) from error


Since = Annotated[
    float | None,
    typer.Option(
        "--since",
        metavar="TIME",
        parser=_since,
        help="Since when the node has no power, with the time zone, such as '2026-03-01 14:05 UTC' (default: now). "
        "What a failover may have lost is counted until then.",
    ),
]


def _max_loss(text: str) -> int:
    try:
        return seconds(text, what="--max-loss")
    except errors.InvalidInput as error:
        raise typer.BadParameter(str(error)) from error


MaxLoss = Annotated[
    int | None,
    typer.Option(
        "--max-loss",
        metavar="DURATION",
        parser=_max_loss,
        help="Longest period of lost writes to accept where the source cannot be asked, such as 90s or 6m "
        "(default: failover_max_loss of its group or the cluster).",
    ),
]
