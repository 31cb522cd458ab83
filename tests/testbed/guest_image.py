"""What guests of QEMU start from: kernel, first file system and disk, made of the image `guest`."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from . import cache, images

if TYPE_CHECKING:
    from collections.abc import Callable

DISK = "3G"
KEYS = ("key", "host_key")


def made(folder: Path, *, tell: Callable[[str], None]) -> Path:
    """The folder with `vmlinux`, `initrd.gz`, `disk.ext4` and the keys of its guests; it is made unless it is there.

    Raises:
        Missing: the image could not be made.
    """
    image = images.make("guest")
    name = "guest-" + cache.digest(image, Path(__file__).read_text())
    if not (folder / name).exists():
        tell(f"making {folder / name}: half a minute, once")
        with cache.making(folder, name) as new:
            _make(new, image)
    return folder / name


def _make(new: Path, image: str) -> None:
    for key in KEYS:
        images.make_key(new / key)
    root = new / "root"
    root.mkdir()
    container = images.podman("create", image, "/sbin/init")
    try:
        _unpack(container, root)
    finally:
        images.podman("rm", container)
    for name in ("vmlinux", "initrd.gz"):
        (root / "boot" / name).rename(new / name)
    _let_in(new, root)
    subprocess.run(["truncate", f"--size={DISK}", str(new / "disk.ext4")], check=True)
    make = ["mkfs.ext4", "-q", "-F", "-J", "size=16", "-d", str(root), str(new / "disk.ext4")]
    subprocess.run(make, check=True, stdin=subprocess.DEVNULL)
    subprocess.run(["rm", "-rf", str(root)], check=True)


def _unpack(container: str, root: Path) -> None:
    command = ["podman", "export", container]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=images.environment()) as export:
        subprocess.run(["tar", "-x", "-C", str(root)], stdin=export.stdout, check=True)
    if export.returncode:
        raise subprocess.CalledProcessError(export.returncode, command)


def _let_in(new: Path, root: Path) -> None:
    """Its keys are those of the folder, which only root reads: every bed of this cache trusts them."""
    ssh = root / "root/.ssh"
    ssh.mkdir(mode=0o700, exist_ok=True)
    (ssh / "authorized_keys").write_bytes((new / "key.pub").read_bytes())
    own = root / "etc/ssh/ssh_host_ed25519_key"
    own.touch(mode=0o600)
    own.write_bytes((new / "host_key").read_bytes())
    own.with_suffix(".pub").write_bytes((new / "host_key.pub").read_bytes())
