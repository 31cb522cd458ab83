"""What a command prints, word by word, held in files: exit status, standard output, standard error."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).with_name("golden")


def text(name: str) -> str:
    """What a file holds."""
    return (FOLDER / f"{name}.txt").read_text()


def of(found: tuple[int, str, str]) -> str:
    """What a command did, in the form of these files."""
    code, out, err = found
    err += "\n" * (bool(err) and not err.endswith("\n"))
    return f"{out}--- standard error\n{err}--- exit status {code}\n"
