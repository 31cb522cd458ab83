"""What the planner's commands share: the cluster they are about, and the forms in which they answer."""

from __future__ import annotations

import sys
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...plugins.module_utils.domain import errors, tree
from ...plugins.plugin_utils.config import store
from ...plugins.plugin_utils.planning.models import configured, text_format
from . import client

if TYPE_CHECKING:
    from ...plugins.plugin_utils.planning.models import model


class Format(Enum):
    """How a plan is printed."""

    TABLE = "table"
    JSON = "json"
    COMMANDS = "commands"


Output = Annotated[
    Format, typer.Option("--output", "-o", help="Print a table for people, JSON, or Ganeti's commands to a shell.")
]
Text = Annotated[
    Path | None,
    typer.Option(
        "--text", metavar="FILE", help="A cluster in the text format of Ganeti's htools; without it the running one."
    ),
]
STANDARD_INPUT = Path("-")


def cluster(ctx: typer.Context, text: Path | None) -> model.Model:
    """The cluster that a command is about: of a text, or as it is configured here.

    Raises:
        InvalidInput: the text is not in the format; with the file's name, line and field.
    """
    if text is None:
        return configured.model_of(store.read(tree.Tree(client.of(ctx).root).config))
    try:
        return text_format.read(sys.stdin.read() if text == STANDARD_INPUT else text.read_text())
    except errors.InvalidInput as error:
        raise errors.InvalidInput(f"{text}: {error}") from error
    except UnicodeDecodeError as error:
        raise errors.InvalidInput(f"{text}: it is no text: {error.reason} at byte {error.start}") from error
