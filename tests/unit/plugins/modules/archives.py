"""Has Ansible build what it sends to a node for each module, and prints the bytes and files of each as JSON.

Usage: archives.py COLLECTIONS (the folder with `ansible_collections`); Ansible's loader of collections replaces
Python's own, so this is a process of its own.
"""

from __future__ import annotations

import base64
import io
import json
import re
import sys
import zipfile
from pathlib import Path

from ansible.executor import module_common
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.loader import init_plugin_loader
from ansible.template import Templar

PYTHON = {"ansible_python_interpreter": "/usr/bin/python3"}


def build(path: Path) -> bytes:
    """What is sent for a module: a program with a ZIP archive in it."""
    templar = Templar(loader=DataLoader())
    built = module_common.modify_module(
        module_name=f"roundsman.cluster.{path.stem}",
        module_path=str(path),
        module_args={},
        templar=templar,
        task_vars=PYTHON,
        module_compression="ZIP_DEFLATED",
    )
    return bytes(built.b_module_data)


def files(program: bytes) -> list[str]:
    """The names of the files in the archive; what an action does on the controller has none."""
    encoded = max(re.findall(rb"[A-Za-z0-9+/=]{1000,}", program), key=len, default=b"")
    if not encoded:
        return []
    with zipfile.ZipFile(io.BytesIO(base64.b64decode(encoded))) as archive:
        return archive.namelist()


def main() -> None:
    collections = sys.argv[1]
    init_plugin_loader([collections])
    modules = sorted(Path(collections, "ansible_collections/roundsman/cluster/plugins/modules").glob("*.py"))
    programs = {path.stem: build(path) for path in modules}
    sys.stdout.write(
        json.dumps({name: {"bytes": len(built), "files": files(built)} for name, built in programs.items()})
    )


if __name__ == "__main__":
    main()
