"""Texts that people read use one word for one thing: pages, help, messages, names of tasks, documentation of modules.

Names, comments and docstrings of the code are no such texts, and code in a page is no sentence.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
REPLACED = {
    r"mend(s|ed|ing)?": "repair, fix, restore",
    r"anew": "again, retry",
    r"whoever": "the person, program or process by its name",
    r"tells?|told": "report, print, return, log",
    r"(is|are|was) none of": "is not one of, is not a",
    r"worthless": "stale, out of sync",
    r"(good|bad|doubtful) (state|health|replica|disk)s?": "healthy, degraded, failed, unknown",
    r"(los(e|es|ing|t)|taken) (its|their) power": "is powered off",
    r"let go": "remaining, remove, discard",
    r"flee(s|ing)?": "evacuate, migrate, fail over",
    r"patience": "timeout, deadline, retries",
    r"stand-ins?": "in-memory twin, fixture, helper",
    r"only look(s|ed|ing)?": "dry run",
    r"is exit status": "exits with status",
    r"it said nothing": "it printed nothing, without output",
    r"is no map": "expected an object, got ...",
    r"have it tried": "retry",
    r"parted": "out of sync, disconnected",
    r"(do|does|did) not take (it|them|that|any)": "reject, refuse",
    r"let (the|its|no|one|only|both)( \w+){1,4} write": "promote, demote, allow two primaries",
    r"who (holds|waits)": "lock holder, waiter",
    r"arguments are none": "a usage error; valid arguments are ...",
    r"not what was read back": "unconfirmed",
    r"keeps it so": "is off and will stay off",
    r"jobs? (\S+ )?stands? still": "is stuck",
    r"need not fit": "is not verified",
    r"say who you are": "authentication required",
    r"let it go": "release, discard",
}
"""What a text says instead of each; words with another meaning that is right, such as copy or gone, are not here."""
WRONG = re.compile(rf"\b({'|'.join(REPLACED)})\b", re.IGNORECASE)
SCRIPT = re.compile(r"<(script|style)\b.*?</\1>", re.DOTALL)
CODE = re.compile(r"```.*?```|`[^`]*`|\b[CVOEM]\([^)]*\)", re.DOTALL)
NO_TEXT = re.compile(r"(?:^|(?<=\s))#.*$|\b\w+(?:\.\w+)+", re.MULTILINE)
"""Comments and variables of a file of tasks."""
TASKS = (
    "roles/*/tasks/*.yml",
    "roles/*/handlers/*.yml",
    "roles/*/vars/*.yml",
    *(f"playbooks/{room}*.yml" for room in ("", "opcodes/", "emergency/")),
)
PAGES = ("*.md", "docs/**/*.md", "roles/*/README.md", "changelogs/fragments/*.yml", "roles/*/meta/*.yml")
DOCUMENTATION = re.compile(r"^ *[a-z_]+:$|^ *told:.*$", re.MULTILINE)


def texts() -> Iterator[tuple[str, str]]:
    """Each text that people read, with where it is."""
    for pattern in PAGES:
        for path in sorted(ROOT.glob(pattern)):
            yield str(path.relative_to(ROOT)), path.read_text()
    for pattern in TASKS:
        for path in sorted(ROOT.glob(pattern)):
            lines = enumerate(NO_TEXT.sub("", path.read_text()).splitlines(), start=1)
            yield from ((f"{path.relative_to(ROOT)}:{number}", line) for number, line in lines)
    yield "daemon/api/page.html", _of_page((ROOT / "daemon/api/page.html").read_text())
    for room in ("plugins", "daemon", "roles"):
        for path in sorted((ROOT / room).rglob("*.py")):
            tree = ast.parse(path.read_text())
            yield from ((f"{path.relative_to(ROOT)}:{line}", text) for line, text in _sentences(tree))
            if path.parent.name == "cli":
                yield from ((f"{path.relative_to(ROOT)}:{line}", text) for line, text in _commands(tree))


def _of_page(text: str) -> str:
    """What a page shows: its text, and the strings of more than one word in its script."""
    strings = [
        text for found in SCRIPT.finditer(text) for text in re.findall(r'"([^"\n]*)"', found.group()) if " " in text
    ]
    return "\n".join([re.sub(r"<[^>]*>", "", SCRIPT.sub("", text)), *strings])


def _sentences(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The strings of more than one word that are no docstrings."""
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) and id(node) not in docstrings else None
        if isinstance(node, ast.Constant) and isinstance(text, str) and " " in text.strip():
            yield node.lineno, DOCUMENTATION.sub("", text)


def _commands(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The docstrings of commands, which are their help."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and any("Context" in ast.unparse(arg) for arg in node.args.args):
            yield node.lineno, "" if node.name.startswith("_") else ast.get_docstring(node) or ""


def wrong(text: str) -> list[str]:
    return [match.group(0) for match in WRONG.finditer(CODE.sub("", text))]


def test_texts_use_the_words_of_the_field() -> None:
    found = {place: words for place, text in texts() if (words := wrong(text))}
    assert found == {}


@pytest.mark.parametrize(
    "text",
    [
        "it is mended",
        "Whoever asks",
        "its answer is none of HTTP",
        "node3 loses its power",
        "Let both nodes write its disks",
        "written since they parted",
        "who holds what",
        "it does not take it",
    ],
)
def test_a_word_that_is_replaced_is_found(text: str) -> None:
    assert wrong(text)


@pytest.mark.parametrize(
    "text",
    ["a recommended node", "a stranger", "a departed node", "`lab mend`", "```\ntests.testbed mend\n```"],
)
def test_other_words_and_code_are_not(text: str) -> None:
    assert wrong(text) == []
