"""The simulated drivers, for what runs on a node of a lab: its PYTHONPATH has this folder, and that of no other node.

A module's archive holds only the part of the collection that the module needs on a real node, so its packages are
extended by the rest, from the checkout or environment that this file is in.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ansible_collections.roundsman.cluster.daemon.lab.simulator import fake, simulated, simulated_programs
    from ansible_collections.roundsman.cluster.plugins.module_utils.storage.disks import Disks

ROOT = Path(__file__).parents[4]
COLLECTION = "ansible_collections.roundsman.cluster"
PARTS = (
    (),
    ("plugins",),
    ("plugins", "module_utils"),
    *(("plugins", "module_utils", name) for name in ("domain", "hypervisor", "storage")),
    *(("plugins", "module_utils", "domain", name) for name in ("agent", "disks", "power", "values")),
)


def hypervisor(root: Path, *, opcode: str) -> fake.Driver:
    """The simulated hypervisor of the node with this root."""
    from ansible_collections.roundsman.cluster.daemon.lab.simulator import fake

    return fake.Driver(root, opcode=opcode)


def programs(root: Path, *, opcode: str) -> simulated_programs.SimulatedPrograms:
    """The simulated programs of DRBD and LVM of the node with this root."""
    from ansible_collections.roundsman.cluster.daemon.lab.simulator import simulated_programs

    return simulated_programs.SimulatedPrograms(root, opcode=opcode)


def disk_files(disks: Disks, *, root: Path, opcode: str) -> simulated.Template:
    """The simulated disks in files of an instance of the node with this root."""
    from ansible_collections.roundsman.cluster.daemon.lab.simulator import simulated

    return simulated.Template(disks, root=root, opcode=opcode)


def _extend_packages() -> None:
    """Let each package that comes out of an archive have its other modules from here."""
    for part in PARTS:
        package = importlib.import_module(".".join((COLLECTION, *part)))
        # What is in a checkout or an environment has no __init__.py, and is whole.
        if getattr(package, "__file__", None) is not None:
            package.__path__.append(str(ROOT.joinpath(*part)))


_extend_packages()
