"""The simulated drivers are there for what runs on a node of a lab, also for modules out of Ansible's archives."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

from ansible_collections.roundsman.cluster.daemon.lab.simulator import simulated_node

ROOT = Path(__file__).resolve().parents[6]
UTILS = "ansible_collections/roundsman/cluster/plugins/module_utils"
CARRIED = ("domain/values/errors.py", "hypervisor/drivers.py", "hypervisor/kvm.py", "lab_drivers.py")
ASKING = """
import sys
sys.path.insert(0, sys.argv[1])
from ansible_collections.roundsman.cluster.plugins.module_utils import lab_drivers
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
try:
    print(type(lab_drivers.load().hypervisor(__import__("pathlib").Path(sys.argv[2]), opcode="")).__name__)
    lab_drivers.load().programs(__import__("pathlib").Path(sys.argv[2]), opcode="").run("drbdadm", "up", "web1")
except errors.RoundsmanError as error:
    print(type(error).__name__, error)
"""


def archive(folder: Path) -> Path:
    """A module's archive as Ansible makes it: with an empty `__init__.py` in each package, and not all of the files."""
    path = folder / "module.zip"
    with zipfile.ZipFile(path, "w") as made:
        for name in (f"{UTILS}/domain/values", f"{UTILS}/hypervisor"):
            for above in (Path(name), *Path(name).parents[:-1]):
                if f"{above}/__init__.py" not in made.namelist():
                    made.writestr(f"{above}/__init__.py", "")
        for name in CARRIED:
            made.write(ROOT / "plugins/module_utils" / name, f"{UTILS}/{name}")
    return path


def asked(folder: Path, environment: dict[str, str]) -> str:
    """What a module prints of the simulated hypervisor and of a program that does not know its resource."""
    words = [sys.executable, "-c", ASKING, str(archive(folder)), str(folder / "node1")]
    ended = subprocess.run(words, env=environment, cwd="/", capture_output=True, text=True, check=False)
    assert ended.stderr == ""
    return ended.stdout


def test_a_module_on_a_node_of_a_lab_has_the_simulated_drivers(tmp_path: Path) -> None:
    (tmp_path / "node1").mkdir()
    told = asked(tmp_path, simulated_node.environment(tmp_path / "node1"))
    assert told == "Driver\nFailed drbdadm up web1: 'web1' not defined in your config (for this host).\n"


def test_a_module_on_any_other_node_has_none(tmp_path: Path) -> None:
    root = {"ROUNDSMAN_ROOT": str(tmp_path / "node1"), "ROUNDSMAN_LAB": str(simulated_node.ON_NODES)}
    assert asked(tmp_path, root).startswith("InvalidInput hypervisor 'fake' is for the nodes of a lab")
