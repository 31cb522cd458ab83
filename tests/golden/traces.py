"""Golden traces: what Roundsman did before it was rebuilt, as text, which a test compares with what it does now.

A trace is a module of this folder with a function `record`, which yields texts by the name of their file; its
recorded texts are the files of `recorded/TRACE/`. What a trace calls may move and change its shape; what it yields may
not, unless a row of docs/decisions/house-differences.md says why.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import cast

FOLDER = Path(__file__).parent
RECORDED = FOLDER / "recorded"
SHOWN = 60
"""Lines of the differences of one file that a failing test shows."""

Record = Callable[[], Iterable[tuple[str, str]]]


def names() -> list[str]:
    """The traces that can be recorded."""
    files = (file.stem for file in FOLDER.glob("*.py"))
    return sorted(name for name in files if name not in {"traces", "__main__"} and not name.startswith("test_"))


def write(trace: str) -> int:
    """Replace what was recorded of a trace; returns the number of its files."""
    folder = RECORDED / trace
    texts = dict(_recorder(trace)())
    folder.mkdir(parents=True, exist_ok=True)
    for file in folder.iterdir():
        # A folder is an input of its trace.
        if file.is_file() and file.name not in texts:
            file.unlink()
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    return len(texts)


def differences(trace: str) -> list[str]:
    """The lines in which what Roundsman does now differs from what was recorded, as unified diffs."""
    folder = RECORDED / trace
    texts = dict(_recorder(trace)())
    files = {file.name for file in folder.iterdir() if file.is_file()} if folder.is_dir() else set()
    assert files, f"the trace {trace} was never recorded: python -m tests.golden {trace}"
    return [line for name in sorted(files | set(texts)) for line in _diff(folder / name, texts.get(name, ""))]


def file_differences(trace: str, name: str, text: str) -> list[str]:
    """The lines in which the text of one file of a trace differs from what was recorded, as a unified diff."""
    assert (RECORDED / trace / name).is_file(), f"{name} of the trace {trace} was never recorded"
    return list(_diff(RECORDED / trace / name, text))


def _diff(file: Path, now: str) -> Iterator[str]:
    before = file.read_text(encoding="utf-8") if file.is_file() else ""
    if before == now:
        return
    lines = difflib.unified_diff(
        before.splitlines(), now.splitlines(), f"recorded/{file.name}", "now", lineterm="", n=1
    )
    for number, line in enumerate(lines):
        if number == SHOWN:
            yield "..."
            return
        yield line


def _recorder(trace: str) -> Record:
    return cast("Record", importlib.import_module(f"tests.golden.{trace}").record)
