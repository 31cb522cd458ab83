"""What a bed takes of its machine, looked for before anything is started."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from . import beds

SYSTEM = "/usr/local/sbin:/usr/sbin:/sbin"
"""Where Debian puts programs for administrators; the search path of other users lacks it."""
TUN, IPV6 = Path("/dev/net/tun"), Path("/proc/sys/net/ipv6/conf/default/disable_ipv6")
PACKAGES = {
    "podman": "podman netavark aardvark-dns",
    "runc": "runc",
    "debootstrap": "debootstrap",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "ip": "iproute2",
    "qemu-system-x86_64": "qemu-system-x86",
    "qemu-img": "qemu-utils",
    "mkfs.ext4": "e2fsprogs",
}
IMAGE = ("podman", "runc", "debootstrap", "ssh", "ssh-keygen")
GUESTS = (*IMAGE, "ip", "qemu-system-x86_64", "qemu-img", "mkfs.ext4")


def look_for(programs: tuple[str, ...]) -> None:
    """See that these programs are here, and that root asks.

    Raises:
        Missing: they are not; the text names all of it, and what to do.
    """
    lacks = [] if os.geteuid() == 0 else ["it takes root, for networks and file systems of its own: use sudo"]
    path = f"{os.environ.get('PATH', os.defpath)}:{SYSTEM}"
    absent = [name for name in programs if shutil.which(name, path=path) is None]
    if absent:
        packages = " ".join(dict.fromkeys(PACKAGES[name] for name in absent))
        lacks.append(f"{', '.join(absent)} {'is' if len(absent) == 1 else 'are'} missing: apt-get install {packages}")
    if lacks:
        raise beds.Missing("this machine cannot make such a test bed: " + "; ".join(lacks))
    os.environ["PATH"] = path


def look_for_devices() -> None:
    """See that this machine can make networks for guests.

    Raises:
        Missing: the kernel cannot; the text names what, and what to do.
    """
    if not TUN.exists():
        raise beds.Missing(f"this machine cannot make guests: {TUN} is missing: modprobe tun, or another machine")
    if not IPV6.exists() or IPV6.read_text().strip() != "0":
        raise beds.Missing(
            "this machine cannot make guests: they are reached by IPv6 at first, which is switched off: "
            "sysctl net.ipv6.conf.default.disable_ipv6=0"
        )
