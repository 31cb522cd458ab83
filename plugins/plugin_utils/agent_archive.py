"""The node agent as one file that Python runs, made of this collection's own modules."""

from __future__ import annotations

import ast
import io
import zipfile
from pathlib import Path

MODULE_UTILS = Path(__file__).resolve().parents[1] / "module_utils"
AGENT = "monitoring/agent.py"
PACKAGE = "roundsman"
_START = f"from {PACKAGE}.monitoring import agent\n\nagent.main()\n"


def build(folder: Path = MODULE_UTILS) -> bytes:
    """The archive: the agent and what it imports, the same bytes for the same modules."""
    needed = sorted(_needed(folder))
    folders = sorted({str(above) for name in needed for above in Path(PACKAGE, name).parents if above != Path()})
    buffer = io.BytesIO()
    # Not compressed, because the bytes would then differ with the library that does it.
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name in folders:
            archive.writestr(_entry(name + "/"), b"")
        archive.writestr(_entry("__main__.py"), _START)
        for name in needed:
            archive.writestr(_entry(f"{PACKAGE}/{name}"), (folder / name).read_bytes())
    return buffer.getvalue()


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name)
    entry.create_system = 3
    entry.external_attr = (0o40755 if name.endswith("/") else 0o100644) << 16
    return entry


def _needed(folder: Path) -> set[str]:
    """The agent's file and all that its imports lead to, by their names below the folder."""
    found: set[str] = set()
    ahead = [AGENT]
    while ahead:
        name = ahead.pop()
        if name not in found:
            found.add(name)
            ahead += _imported(folder, name)
    return found


def _imported(folder: Path, name: str) -> list[str]:
    tree = ast.parse((folder / name).read_bytes())
    found = []
    for statement in ast.walk(tree):
        if isinstance(statement, ast.ImportFrom) and statement.level:
            above = Path(name).parents[statement.level - 1]
            if statement.module:
                above = above.joinpath(*statement.module.split("."))
            places = [above / f"{alias.name}.py" for alias in statement.names] + [Path(f"{above}.py")]
            found += [str(place) for place in places if (folder / place).is_file()]
    return found
