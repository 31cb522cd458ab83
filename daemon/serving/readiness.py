"""Telling whoever started a daemon that it serves: through a descriptor, and systemd through its socket."""

from __future__ import annotations

import os
import socket


def tell(descriptor: int | None) -> None:
    """Say once that requests are answered; who does not want to know is not told.

    Raises:
        OSError: whoever asked for it is gone.
    """
    if descriptor is not None:
        os.write(descriptor, b"ready\n")
        os.close(descriptor)
    # Taken out of the environment, so that nothing that is started here speaks for the daemon.
    address = os.environ.pop("NOTIFY_SOCKET", "")
    if address:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
            notify.sendto(b"READY=1", "\0" + address[1:] if address.startswith("@") else address)
