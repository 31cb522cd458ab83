"""The images of hosts, which containers are started from and guests are made of; and podman, which keeps them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors

from . import beds

CHECKOUT = Path(__file__).resolve().parents[2]
ROOM = CHECKOUT / "molecule/image"


def environment() -> dict[str, str]:
    """What podman is called with: the settings of the room that the images come from."""
    return {**os.environ, "CONTAINERS_CONF": str(ROOM / "containers.conf")}


def podman(*arguments: str, given: bytes | None = None) -> str:
    """What podman says.

    Raises:
        Failed: it failed; the text has its words.
    """
    done = subprocess.run(["podman", *arguments], input=given, capture_output=True, check=False, env=environment())
    if done.returncode:
        raise errors.Failed(f"podman {' '.join(arguments[:2])}: {done.stderr.decode().strip()}")
    return done.stdout.decode().strip()


def make(kind: str) -> str:
    """The name of the image `host` or `guest`, which is made unless it is there.

    Raises:
        Missing: it could not be made, most often because Debian cannot be reached; the text has the builder's words.
    """
    done = subprocess.run([str(ROOM / "build"), kind], capture_output=True, text=True, check=False)
    if done.returncode:
        raise beds.Missing(
            f"the image {kind} could not be made; it takes Debian's mirror (deb.debian.org, or a proxy for it in"
            f" http_proxy) and a podman that can run containers:\n{done.stderr.strip()}"
        )
    return done.stdout.strip()


def make_key(path: Path) -> None:
    """Make a key of SSH."""
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "roundsman-testbed", "-f", str(path)]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
