"""Which lab or controller a command means: the folder it was given, else the only lab below ./.lab."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ...plugins.module_utils.domain import errors, tree

if TYPE_CHECKING:
    from collections.abc import Callable

    import typer

LABS = Path(".lab")
NEW = LABS / "default"
"""Where a new lab goes that nobody has named."""


def labs() -> list[Path]:
    """The labs below ./.lab, whether they run or not."""
    return sorted(path.parent for path in LABS.glob("*/lab.json"))


def is_lab(folder: Path) -> bool:
    """Whether a lab is in this folder."""
    return (folder / "lab.json").exists()


def given(ctx: typer.Context, folder: Path | None) -> Path | None:
    """The lab's folder that a command was given, by its own `--dir` or the global one; its controller means it too."""
    chosen: Path | None = folder or ctx.find_root().params.get("root")
    if chosen is None or is_lab(chosen):
        return chosen
    whole = chosen.absolute()
    return chosen if whole.name != "controller" else whole.parent if chosen.name == "" else chosen.parent


def lab(ctx: typer.Context, folder: Path | None, *, runs: Callable[[Path], bool] | None = None) -> Path:
    """The folder of the lab that a command means; of several the only one that `runs`, where this is asked.

    Raises:
        NotFound: none was given, and there is none below ./.lab. Refused: there are several.
    """
    chosen = given(ctx, folder)
    if chosen is not None:
        return chosen
    found = labs()
    live = [lab for lab in found if runs(lab)] if runs and len(found) > 1 else []
    if len(live) == 1:
        return live[0]
    if len(found) == 1:
        return found[0]
    if not found:
        raise errors.NotFound(f"there is no lab below {LABS}: make one with `roundsman lab up`, or name one with --dir")
    names = ", ".join(str(lab) for lab in found)
    raise errors.Refused(f"there are several labs: choose one with --dir: {names}")


def root(chosen: Path) -> Path:
    """The root of the daemon that a folder means: its own, or that of the lab in it.

    Raises:
        NotFound: the folder holds neither.
    """
    controller = chosen / "controller"
    if controller.is_dir():
        return controller
    parts = (chosen / "etc", chosen / "var", tree.Tree(chosen).socket)
    if not any(part.exists() for part in parts):
        raise errors.NotFound(f"there is neither a controller nor a lab in {chosen}")
    return chosen
