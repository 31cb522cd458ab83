"""The pages that say where things are name files and folders that are there."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / name for name in ("ARCHITECTURE.md", "CONTRIBUTING.md")]
PAGES += [ROOT / f"docs/decisions/{name}.md" for name in ("rooms", "to-add", "removed", "what-survives")]
OF_MACHINES = {"epoch.json"}
"""Files of a controller."""
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


def spread(path: str) -> list[str]:
    """The paths that one with braces stands for: `a/{b,c}` is `a/b` and `a/c`."""
    braces = re.search(r"\{([^{}]*)\}", path)
    if braces is None:
        return [path]
    return [
        each for part in braces[1].split(",") for each in spread(path[: braces.start()] + part + path[braces.end() :])
    ]


def named(text: str) -> list[str]:
    """The files and folders that a text names in backticks; `<noun>`, addresses of the API and commands are none."""
    quoted = (each for each in re.findall(r"`([^`\n]+)`", text) if re.fullmatch(r"[\w./{},-]+", each))
    paths = (each for each in quoted if "/" in each.strip("/") or re.search(r"\.(py|md|yml|json|toml)$", each))
    return [path for each in paths if not each.startswith("/") for path in spread(each)]


def missing(text: str, known: set[str]) -> list[str]:
    ends = {"/".join(path.split("/")[start:]) for path in known for start in range(path.count("/") + 1)}
    return [path for path in named(text) if not {path.rstrip("/"), f"{path}.py"} & ends and path not in OF_MACHINES]


@pytest.fixture(scope="module")
def known() -> set[str]:
    """All files of the checkout and their folders."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    files = listed.splitlines()
    return {*files, *(str(folder) for file in files for folder in Path(file).parents)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_each_file_that_a_page_names_is_there(page: Path, known: set[str]) -> None:
    text = page.read_text()
    # What was removed is named by the path that it had.
    text = re.sub(r"## Removed.*?## Kept", "", text, flags=re.DOTALL)
    assert missing(text, known) == []
    assert [target for target in LINK.findall(text) if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("room", ["plugins/plugin_utils", "daemon", "daemon/maintenance"])
def test_the_page_of_the_rooms_names_each_file_of_those_with_many_subjects(room: str) -> None:
    text = (ROOT / "docs/decisions/rooms.md").read_text()
    words = {word for code in re.findall(r"`([^`\n]+)`", text) for word in re.findall(r"\w+", code)}
    files = {path.stem for path in (ROOT / room).glob("*.py")} - {"__init__"}
    assert files - words == set(), "say in a row of docs/decisions/rooms.md what it is for"


def test_a_file_that_is_not_there_is_found() -> None:
    known = {"daemon/api/views.py", "daemon/api", "daemon"}
    text = "`daemon/api/`, `api/{views,none}.py`, `views.py`, `/1/nodes`, `gone.py`, `roundsman plan`, `api/views`"
    assert missing(text, known) == ["api/none.py", "gone.py"]
