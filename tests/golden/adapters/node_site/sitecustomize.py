"""What the Python that runs modules on a lab's node of a trace does differently: programs are the stubs beside it.

A program of libvirt, DRBD, LVM or a disk image is started as `programs.py NAME ARGUMENTS`, which notes it and answers
as the in-memory twins do; the node's name is that of its folder.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

PROGRAMS = frozenset(
    {"virsh", "drbdadm", "drbdsetup", "modprobe", "lvs", "vgs", "lvcreate", "lvchange", "lvremove", "qemu-img"}
)
KEPT = ("ROUNDSMAN_ROOT", "ROUNDSMAN_RUN", "ANSIBLE_GOLDEN_LOG")
ROOT = os.environ.get("ROUNDSMAN_ROOT", "")


class _Popen(subprocess.Popen):  # type: ignore[type-arg]
    def __init__(self, args: Any, *more: Any, **options: Any) -> None:
        if isinstance(args, (list, tuple)) and str(args[0]) in PROGRAMS:
            args = [sys.executable, str(Path(__file__).with_name("programs.py")), *args]
            kept = {name: os.environ[name] for name in KEPT if name in os.environ}
            options["env"] = {**(options.get("env") or os.environ), **kept}
        super().__init__(args, *more, **options)


if ROOT and "ANSIBLE_GOLDEN_LOG" in os.environ:
    _UNAME = os.uname()
    subprocess.Popen = _Popen  # type: ignore[misc]
    os.uname = lambda: os.uname_result((_UNAME[0], Path(ROOT).resolve().name, *_UNAME[2:]))
