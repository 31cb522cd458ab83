"""The archives that Ansible makes of this collection's modules, kept from one run to the next.

Ansible makes one for each module of a run: a fifth of a second each, and the same bytes each time. A run finds those of
before in its temporary folder, and makes the others. Archives of other collections' modules are made by each run.

Ansible unpickles what it finds: the folder is open to the daemon's user alone, whose runs these are.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import ansible

if TYPE_CHECKING:
    from collections.abc import Iterator

CACHE = "ansiballz_cache"
"""The folder below its temporary one where Ansible looks for the archive of a module before it makes it."""
OWN = "ansible_collections.roundsman.cluster."
PLUGINS = Path(__file__).resolve().parents[2] / "plugins"
SHIPPED = ("modules", "module_utils")
ANSIBLE = Path(ansible.__file__).parent
PACKED = ("release.py", "module_utils", "executor/module_common.py")
"""What of Ansible goes into an archive, or says how one is made."""
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def folder(warm: Path) -> Path:
    """Where the archives of the modules as they are now are kept, below the folder of a warm server.

    What was kept in another boot is not used: nothing of it was made durable.
    """
    digest = hashlib.sha256(BOOT_ID.read_bytes())
    for path in sorted(_sources()):
        # An upgrade removes files while they are looked at.
        with contextlib.suppress(FileNotFoundError):
            status = path.stat()
            digest.update(f"{path}\0{status.st_mtime_ns}\0{status.st_size}\0{status.st_ino}\n".encode())
    return warm / "archives" / digest.hexdigest()[:16]


def lend(kept: Path, temporary: Path) -> None:
    """Have a run find the kept archives below its temporary folder."""
    with contextlib.suppress(OSError):
        own = temporary / CACHE
        own.mkdir(mode=0o700)
        for path in kept.iterdir():
            (own / path.name).symlink_to(path)


def keep(temporary: Path, kept: Path, warm: Path) -> None:
    """Keep the archives that a run has made, which other runs find whole or not at all; those of old modules go.

    `kept` is the folder when the run began: where modules have changed since, nobody knows which ones it has packed.
    """
    with contextlib.suppress(OSError):
        made = [path for path in (temporary / CACHE).iterdir() if _is_to_keep(path) and not path.is_symlink()]
        if not made or folder(warm) != kept:
            return
        kept.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        kept.mkdir(mode=0o700, exist_ok=True)
        for path in made:
            copied = kept.with_name(f".{path.name}.{os.getpid()}")
            try:
                shutil.copyfile(path, copied)
                copied.rename(kept / path.name)
            finally:
                copied.unlink(missing_ok=True)
        for other in kept.parent.iterdir():
            if other.is_dir() and other != kept:
                shutil.rmtree(other, ignore_errors=True)


def _is_to_keep(path: Path) -> bool:
    return path.name.startswith(OWN) and not path.name.endswith(".lock")


def _sources() -> Iterator[Path]:
    for top in (*(PLUGINS / name for name in SHIPPED), *(ANSIBLE / name for name in PACKED)):
        yield from [top] if top.suffix else top.rglob("*.py")
