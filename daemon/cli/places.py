"""Which lab or controller a command means: the folder it was given, else the only lab below ./.lab.

A lab that nobody has named counts only if it belongs to the caller or root; for root only if nobody else can change it
or a folder above it. Otherwise any user who made a folder `.lab` in root's working folder would choose what root's
commands act on.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from ...plugins.module_utils import trusted_paths
from ...plugins.module_utils.domain.values import errors, tree

if TYPE_CHECKING:
    from collections.abc import Callable

    import typer

LABS = Path(".lab")
NEW = LABS / "default"
"""Where a new lab goes that nobody has named."""


def labs(mark: str = tree.LAB_FILE) -> list[Path]:
    """The labs below ./.lab that count and hold a file or folder of this name, whether they run or not."""
    return [lab for lab in _all_labs(mark) if not why_not(lab)]


def left_out() -> str:
    """The labs below ./.lab that do not count, each with the reason, as a part of an error; or ''."""
    found = {lab: why_not(lab) for mark in (tree.LAB_FILE, "controller") for lab in _all_labs(mark)}
    return "; ".join(f"{lab} does not count without --dir, because {why}" for lab, why in found.items() if why)


def _all_labs(mark: str) -> list[Path]:
    return sorted(path.parent for path in LABS.glob(f"*/{mark}"))


def why_not(lab: Path) -> str:
    """Why a lab below ./.lab does not count unless it is named, or ''."""
    config = tree.Tree(lab / "controller").config
    try:
        there = [place for place in (LABS, lab, lab / "controller", config) if os.path.lexists(place)]
        for place in there:
            for uid in (place.lstat().st_uid, place.stat().st_uid):
                if uid not in trusted_paths.owners():
                    return f"{place} is owned by uid {uid}"
        if os.geteuid() == 0:
            for place in there:
                if place.is_dir():
                    trusted_paths.check_folder(str(place.absolute()))
    except OSError as error:
        return f"{error.filename}: {error.strerror}"
    except errors.Refused as error:
        # The command that it names would give somebody's folder to root.
        return str(error).partition(": `")[0]
    return ""


def new_lab() -> Path:
    """The folder of a new lab that nobody has named.

    Raises:
        Refused: it, or the folder of labs, does not count.
    """
    why = why_not(NEW)
    if why:
        raise errors.Refused(f"{NEW} does not count without --dir, because {why}")
    return NEW


def is_lab(folder: Path) -> bool:
    """Whether a lab is in this folder."""
    return (folder / tree.LAB_FILE).exists()


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
        left = left_out()
        raise errors.NotFound(
            f"there is no lab below {LABS}: make one with `roundsman lab up`, or name one with --dir"
            + (f"; {left}" if left else "")
        )
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
