"""Durations as people write them: `90`, `90s`, `6m`, `1h`."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from ...plugins.module_utils.domain import errors

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
