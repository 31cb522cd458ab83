"""What a command prints: a table for people, or JSON for programs."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ...plugins.module_utils.domain.values import control_characters, errors, json_values

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

ENDLESS = 10_000
"""The width of a line that no terminal shows: one row stays one line for grep and awk."""
NARROW = 20
"""A column whose cells are no longer than this is not folded on a terminal: the others give way."""
BMP = 0xFFFF
"""Characters above are two escapes in JSON."""
STYLES = {
    **dict.fromkeys(("Ok", "OK", "success", "completed", "on", "confirmed"), "green"),
    **dict.fromkeys(("evacuate", "evacuate-failover", "error", "failed", "unreachable", "unknown"), "bold red"),
    **dict.fromkeys(("CRITICAL", "UNKNOWN", "NOT CONFIRMED"), "bold red"),
    **dict.fromkeys(("live-repair", "pending", "running", "drained", "noted", "canceling", "WARNING"), "yellow"),
    **dict.fromkeys(("offline", "off", "canceled", "no BMC", "no report", "-"), "dim"),
}


class Format(Enum):
    """How a listing is printed."""

    TABLE = "table"
    JSON = "json"


Option = Annotated[Format, typer.Option("--output", "-o", help="Print a table for people, or JSON for programs.")]


def line(text: str = "", *, style: str = "") -> None:
    """Print one paragraph; on a terminal it is wrapped at words. A line break in it is followed by an indent."""
    _console().print(Text(_indented(text), style=style), soft_wrap=not sys.stdout.isatty())


def title(text: str) -> None:
    """Print a heading with an empty line above it."""
    line()
    line(text, style="bold")


def warning(text: str) -> None:
    """Print one line on standard error."""
    sys.stderr.write(" ".join(printable(text).split()) + "\n")


def alarm(text: str) -> None:
    """Print one line on standard error that nobody overlooks."""
    if sys.stderr.isatty():
        Console(stderr=True, highlight=False, markup=False, emoji=False).print(Text(_indented(text), style="bold red"))
    else:
        sys.stderr.write(_indented(text) + "\n")


def as_json(value: str) -> None:
    """Print JSON text as it came, and nothing else; on a terminal what is not printable is written as an escape."""
    text = value.rstrip("\n")
    sys.stdout.write((_ascii(text) if sys.stdout.isatty() else text) + "\n")


@dataclass(frozen=True)
class Selected:
    """One object of a JSON list: to be shown, and as JSON text in which no number is rounded."""

    value: dict[str, Any]
    text: str


def selected(text: str, *, name: str, kind: str) -> Selected:
    """Of a JSON list of objects the one with this name.

    Raises:
        NotFound: there is none.
    """
    found = json_values.parse(text)
    for entry in found if isinstance(found, list) else []:
        if isinstance(entry, dict) and entry.get("name") == name:
            written = json_values.dump(entry)
            return Selected(json.loads(written), written)
    raise errors.NotFound(f"there is no {kind} {name!r}")


def table(headers: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str = "") -> None:
    """Print rows under their headers; long cells are folded on a terminal, never cut."""
    cells = [[_cell(value) for value in row] for row in rows]
    if not cells:
        line(empty)
        return
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for header, column in zip(headers, zip(*cells, strict=True), strict=True):
        is_narrow = all(len(cell) <= NARROW for cell in column)
        made.add_column(header, overflow="fold", no_wrap=is_narrow or not sys.stdout.isatty())
    for row in cells:
        made.add_row(*row)
    _print(made)


def facts(pairs: Iterable[tuple[str, object]]) -> None:
    """Print what is known of one object, a fact a line."""
    made = Table.grid(padding=(0, 2))
    made.add_column(style="dim")
    made.add_column(overflow="fold", no_wrap=not sys.stdout.isatty())
    for name, value in pairs:
        made.add_row(name, _cell(value))
    _print(made)


def printable(text: str) -> str:
    """Give a text from anywhere without the characters that could steer a terminal."""
    return "".join(
        character if character.isprintable() or character in "\n\t" else "\N{REPLACEMENT CHARACTER}"
        for character in text
    )


def _indented(text: str) -> str:
    return printable(text).replace("\n", "\n" + control_characters.CONTINUED)


def _ascii(text: str) -> str:
    r"""JSON text with the same values, whose strings have `\uXXXX` for what could steer a terminal."""
    return "".join(map(_escaped, text))


def _escaped(character: str) -> str:
    if character.isprintable() or character == "\n":
        return character
    return f"\\u{ord(character):04x}" if ord(character) <= BMP else json.dumps(character)[1:-1]


def _print(made: Table) -> None:
    console = _console()
    with console.capture() as captured:
        console.print(made)
    sys.stdout.write("\n".join(row.rstrip() for row in captured.get().splitlines()) + "\n")


def _cell(value: Any) -> Text:
    text = "-" if value is None or value == "" else str(value)
    return Text(printable(text), style=STYLES.get(text, ""))


def _console() -> Console:
    if sys.stdout.isatty():
        return Console(highlight=False, markup=False, emoji=False)
    return Console(highlight=False, markup=False, emoji=False, color_system=None, width=ENDLESS)
