"""The image of a host, which containers are started from and guests are made of."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from . import beds

CHECKOUT = Path(__file__).resolve().parents[2]
ROOM = CHECKOUT / "molecule/image"


def environment() -> dict[str, str]:
    """What podman is called with: the settings of the room that the image comes from."""
    return {**os.environ, "CONTAINERS_CONF": str(ROOM / "containers.conf")}


def host() -> str:
    """The name of the image, which is made unless it is there.

    Raises:
        Missing: it could not be made, most often because Debian cannot be reached; the text has the builder's words.
    """
    done = subprocess.run(
        [str(ROOM / "build"), "host"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        start_new_session=False,
    )
    if done.returncode:
        raise beds.Missing(
            "the image of a host could not be made; it takes Debian's mirror (deb.debian.org, or a proxy for it in"
            f" http_proxy) and a podman that can run containers:\n{done.stderr.strip()}"
        )
    return done.stdout.strip()
