"""Counts the size of the code and what its rules are about: `python -m tests.counts [CHECKOUT]` prints one row each.

Product code is what is in `plugins`, `daemon`, `roles` and `playbooks`. A line of code holds more than blanks, comments
and docstrings; the documentation of modules and plugins is not code either. `--collect` counts tests, too: that takes a
minute, and needs pytest where it runs.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import subprocess
import sys
import tokenize
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

ROOMS = ("plugins", "daemon", "roles", "playbooks")
CLASSES = ("Step", "Move", "Refusal", "Plan", "Job")
VAGUE = ("told", "asked", "made", "wanted", "known", "found")
DOCUMENTATION = {"DOCUMENTATION", "EXAMPLES", "RETURN"}
NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
BROAD = {"Exception", "BaseException"}
COLLECTED = re.compile(r"^(?:(\d+)/)?(\d+) tests? collected", re.MULTILINE)


@dataclass(frozen=True)
class Source:
    """A file of product code."""

    path: Path
    text: str
    tree: ast.Module

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()


def sources(checkout: Path) -> list[Source]:
    """The files of product code of a checkout."""
    paths = sorted(path for room in ROOMS for path in (checkout / room).rglob("*.py"))
    return [Source(path, text := path.read_text(), ast.parse(text)) for path in paths]


def code_lines(source: Source) -> int:
    """How many lines hold code."""
    tokens = tokenize.generate_tokens(io.StringIO(source.text).readline)
    held = {line for token in tokens if token.type not in NO_CODE for line in range(token.start[0], token.end[0] + 1)}
    for node in ast.walk(source.tree):
        if _is_text(node):
            held -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))  # type: ignore[attr-defined]
    return len(held)


def _is_text(node: ast.AST) -> bool:
    """Whether a statement is a docstring, or the documentation of a module."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    return isinstance(node, ast.Assign) and any(
        isinstance(target, ast.Name) and target.id in DOCUMENTATION for target in node.targets
    )


def _functions(source: Source) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [node for node in ast.walk(source.tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]


def _importers(found: list[Source], checkout: Path) -> Counter[str]:
    """How many files import each file (its path without the suffix), imports inside functions and of types included."""
    names = {source.path.relative_to(checkout).with_suffix("").as_posix() for source in found}
    importers: Counter[str] = Counter()
    for source in found:
        here = source.path.relative_to(checkout)
        importers.update({name for node in ast.walk(source.tree) for name in _imported(node, here) if name in names})
    return importers


def _imported(node: ast.AST, here: Path) -> list[str]:
    """The paths that an import may mean."""
    if isinstance(node, ast.ImportFrom) and node.level:
        base = here.parents[node.level - 1] / (node.module or "").replace(".", "/")
    elif isinstance(node, ast.ImportFrom) and "roundsman.cluster." in (node.module or ""):
        base = Path((node.module or "").split("roundsman.cluster.")[1].replace(".", "/"))
    else:
        return []
    return [base.as_posix(), *((base / alias.name).as_posix() for alias in node.names)]


def unexplained(source: Source) -> list[int]:
    """The lines of broad `except` clauses with no comment on them, the line before or the one after."""
    return [
        node.lineno
        for node in ast.walk(source.tree)
        if isinstance(node, ast.ExceptHandler)
        and (node.type is None or any(isinstance(part, ast.Name) and part.id in BROAD for part in ast.walk(node.type)))
        and not any(_has_reason(line) for line in source.lines[max(0, node.lineno - 2) : node.lineno + 1])
    ]


def _has_reason(line: str) -> bool:
    """Whether a line has a comment that is more than what it tells a linter."""
    comment = line.partition("#")[2].strip()
    return bool(re.sub(r"^(noqa|pylint|type)\b[^-]*-?", "", comment).strip())


def tests(checkout: Path) -> tuple[int, int]:
    """How many tests the default suite has, and how many there are."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-n0"]
    numbers = []
    for options in ([], ["-m", ""]):
        done = subprocess.run([*command, *options], cwd=checkout, capture_output=True, text=True, check=False)
        collected = COLLECTED.search(done.stdout)
        numbers.append(int(collected[1] or collected[2]) if collected else 0)
    return numbers[0], numbers[1]


def rows(checkout: Path) -> dict[str, int | str]:
    """What is counted, by what it is."""
    found = sources(checkout)
    functions = [function for source in found for function in _functions(source)]
    classes = Counter(node.name for each in found for node in ast.walk(each.tree) if isinstance(node, ast.ClassDef))
    importers = _importers(found, checkout)
    return {
        "code lines without documentation": sum(map(code_lines, found)),
        "files": len(found),
        "files over 300 lines": sum(len(source.lines) > 300 for source in found),
        "files over 400 lines": sum(len(source.lines) > 400 for source in found),
        "functions over 60 lines": sum((each.end_lineno or 0) - each.lineno >= 60 for each in functions),
        **{f"classes {name}": classes[name] for name in CLASSES},
        "files with one importer": sum(count == 1 for count in importers.values()),
        "broad except without a reason": sum(len(unexplained(source)) for source in found),
        **{f"functions {name}": sum(each.name.lstrip("_") == name for each in functions) for name in VAGUE},
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.counts", description=__doc__)
    parser.add_argument("checkout", nargs="?", type=Path, default=Path())
    parser.add_argument("--collect", action="store_true", help="Count tests, too.")
    options = parser.parse_args()
    counted = rows(options.checkout)
    if options.collect:
        counted["tests by default"], counted["tests in all"] = tests(options.checkout)
    for what, count in counted.items():
        sys.stdout.write(f"{what:36}{count:>8}\n")
