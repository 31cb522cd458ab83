"""A mutant: the collection with one function or task file in an earlier, unsafe form."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

ROOT = Path(__file__).resolve().parents[3]
PACKAGE = "ansible_collections.roundsman.cluster"


@dataclass(frozen=True)
class Edit:
    """A piece of a file, which is there exactly once, and what stands in its place."""

    path: str
    old: str
    new: str

    def apply(self, root: Path) -> None:
        """Make the edit below a root.

        Raises:
            ValueError: the old text is not there exactly once.
        """
        path = root / self.path
        path.write_text(self.edited(path.read_text()))

    def edited(self, text: str) -> str:
        """The edited text of the file; raises as `apply`."""
        if text.count(self.old) != 1:
            raise ValueError(f"{self.path} has {text.count(self.old)} times, and not once:\n{self.old}")
        return text.replace(self.old, self.new)


@dataclass(frozen=True)
class Mutant:
    """One unsafe form; `bug` is the rule that it breaks, `number` its number in the issue's list."""

    name: str
    number: int
    bug: str
    edits: tuple[Edit, ...]

    def apply(self, root: Path) -> None:
        """Make all its edits below a root; raises as `Edit.apply`."""
        for edit in self.edits:
            edit.apply(root)

    def text(self, path: str) -> str:
        """The file at this path of the collection with all its edits; raises as `Edit.apply`."""
        text = (ROOT / path).read_text()
        for edit in self.edits:
            text = edit.edited(text) if edit.path == path else text
        return text

    def module(self, path: str) -> ModuleType:
        """The Python module at this path of the collection as the mutant has it, beside the real one."""
        name = f"{PACKAGE}.{path.removesuffix('.py').replace('/', '.')}"
        text = self.text(path)
        spec = importlib.util.spec_from_loader(name, loader=None)
        assert spec is not None
        found = importlib.util.module_from_spec(spec)
        found.__package__ = name.rpartition(".")[0]
        found.__file__ = str(ROOT / path)
        real = sys.modules.get(name)
        # Dataclasses look their own module up while they are made.
        sys.modules[name] = found
        try:
            exec(compile(text, found.__file__, "exec"), found.__dict__)
        finally:
            if real is None:
                del sys.modules[name]
            else:
                sys.modules[name] = real
        return found
