"""Versions of Roundsman beside each other, as the role installs them but without pip: for tests of upgrades."""

from __future__ import annotations

import importlib.util
import shutil
import site
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = ROOT / "roles/controller/files/versions.py"
PACKAGE = "ansible_collections.roundsman.cluster"
PROGRAMS = {
    "ansible-playbook": "ansible.cli.playbook",
    "roundsman": f"{PACKAGE}.daemon.cli.main",
    "roundsmand": f"{PACKAGE}.daemon.__main__",
    "roundsman-playbook": f"{PACKAGE}.daemon.playbook_program",
}


def load_script() -> Any:
    """The program of the role that installs, switches and removes versions, as a module."""
    spec = importlib.util.spec_from_file_location("roundsman_versions", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def make(path: Path, *, has_collection: bool = True) -> None:
    """Make a virtual environment with a copy of the collection and its programs, which has this one's libraries."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", path], check=True)
    (packages,) = path.glob("lib/python3*/site-packages")
    collection = packages / PACKAGE.replace(".", "/")
    libraries = [*site.getsitepackages(), *([] if has_collection else [str(ROOT / "playbooks/collections")])]
    (packages / "libraries.pth").write_text("".join(f"{each}\n" for each in libraries))
    if has_collection:
        for name in ("plugins", "daemon", "roles", "playbooks", "meta"):
            kept = shutil.ignore_patterns("__pycache__", "collections" if name == "playbooks" else "")
            shutil.copytree(ROOT / name, collection / name, ignore=kept)
        for name in ("galaxy.yml", "requirements.txt"):
            shutil.copy(ROOT / name, collection)
    for name, module in PROGRAMS.items():
        program = path / "bin" / name
        program.write_text(f"#!{path}/bin/python\nimport sys\nfrom {module} import main\nsys.exit(main())\n")
        program.chmod(0o755)
