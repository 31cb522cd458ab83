"""Ganeti's htools as peers: programs that read a cluster as text, and what hbal prints."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.models import text_format

from . import peers

if TYPE_CHECKING:
    from pathlib import Path

    from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.models import model

FOLDER = "/usr/lib/ganeti/3.0/usr/bin"
PACKAGE = "ganeti-htools-3.0"
TOTAL = re.compile(r"^Initial coefficients: overall (\S+)$", re.MULTILINE)
COMPONENT = re.compile(r"^ {3}(\w+) +(\S+) +x[\d.]+$", re.MULTILINE)
MOVE = re.compile(r"^ +\d+\. (\S+) +(\S+) +=> (\S+) +(\S+) a=(.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Balanced:
    """What hbal says: the first score and its components, and each move as its words; texts as printed."""

    score: str
    components: dict[str, str]
    moves: list[tuple[str, str, str, str, str]]


def hbal(cluster: model.Model, folder: Path, *, group: str, options: tuple[str, ...] = ()) -> Balanced:
    """Balance one group; loads are given as measured ones."""
    told = _run(cluster, folder, group=group, options=("-vvv", *options))
    first = told.split("Trying to minimize")[0]
    score = TOTAL.search(first)
    assert score is not None, told
    return Balanced(score[1], dict(COMPONENT.findall(first)), MOVE.findall(told))


def hbal_moves(
    cluster: model.Model, folder: Path, *, group: str, options: tuple[str, ...] = ()
) -> list[tuple[str, str, str, str, str]]:
    """Only the moves, none where hbal finds nothing to do."""
    return MOVE.findall(_run(cluster, folder, group=group, options=options))


def _run(cluster: model.Model, folder: Path, *, group: str, options: tuple[str, ...]) -> str:
    names, loads = folder / "cluster.data", folder / "loads"
    names.write_text(text_format.write(cluster), encoding="utf-8")
    lines = (f"{one.name} {one.load.cpu} {one.load.memory} {one.load.disk} {one.load.net}" for one in cluster.instances)
    loads.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    program = peers.program(f"{FOLDER}/hbal", package=PACKAGE)
    command = [program, "-t", str(names), "-U", str(loads), "-G", group, *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
