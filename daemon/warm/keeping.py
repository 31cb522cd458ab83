"""The daemon's side of warm Ansible: the shim that runs find first, and a server that is always there."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ...plugins.module_utils.domain.values import errors
from ...plugins.plugin_utils import durable_files
from ..failures import Failures
from . import client

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...plugins.module_utils.domain.values import tree

LOG = logging.getLogger(__name__)
PART = "warm Ansible"
CLIENT = Path(__file__).resolve().with_name("client.py")
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 60.0
HEALTHY = 30.0
"""Seconds after which a server that ends has not failed at its start."""
BEAT_SECONDS = 10.0
HUNG_SECONDS = 30.0
"""Seconds without a greeting after which a server hangs: it greets nobody while it imports Ansible."""
REAP_SECONDS = 5.0


def _greets(folder: str) -> bool:
    try:
        connection = client.connect(folder)
    except TimeoutError:
        return False
    if connection is not None:
        connection.close()
    return connection is not None


def shim_folder(where: tree.Tree) -> Path:
    """The folder that stands first in the PATH of every run; each installed version has its own, and its own server."""
    version = hashlib.sha256(sys.prefix.encode()).hexdigest()[:8]
    return where.run / "warm" / version / "bin"


def install_shim(where: tree.Tree) -> None:
    """Write the command `ansible-playbook` that asks the server first.

    Raises:
        StoreFailed: it could not be written.
    """
    own = shim_folder(where)
    own.mkdir(mode=0o700, parents=True, exist_ok=True)
    words = [sys.executable, "-ISE", str(CLIENT), str(own.parent), str(own)]
    # A line that begins with the interpreter's path may be too long for the kernel.
    durable_files.replace(own / "ansible-playbook", f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n'.encode(), mode=0o700)


class Keeper:
    """Keeps one server alive; it ends when this process does, and runs go on without either.

    Its `environment` is that of a run: Python reads some of it once, when it starts.
    """

    def __init__(self, where: tree.Tree, *, environment: Mapping[str, str], failures: Failures | None = None) -> None:
        self._where, self._environment = where, environment
        self._failures = Failures() if failures is None else failures
        self._server: subprocess.Popen[bytes] | None = None
        self._life = -1

    async def run(self) -> None:
        """Start a server, wait for its end, start the next one; one that fails at its start is tried less often."""
        pause = FIRST_PAUSE
        while True:
            began = time.monotonic()
            try:
                await self._until_over()
            except (OSError, errors.StoreFailed) as error:
                remedy = "fix the cause; runs start without it, and it is tried again within a minute"
                self._failures.failed(PART, error, remedy=remedy)
            pause = FIRST_PAUSE if time.monotonic() - began > HEALTHY else min(LONGEST_PAUSE, 2 * pause)
            LOG.info("the warm Ansible server has ended; the next one starts in %.1f s", pause)
            await asyncio.sleep(pause)

    def stop(self) -> None:
        """End the server; it blocks for a few seconds where the server hangs."""
        if self._life >= 0:
            os.close(self._life)
            self._life = -1
        if self._server is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._server.wait(5)
            self._server.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._server.wait(REAP_SECONDS)

    async def _until_over(self) -> None:
        install_shim(self._where)
        server = self._server = self._start()
        over, loop = asyncio.Event(), asyncio.get_running_loop()
        handle = os.pidfd_open(server.pid)
        loop.add_reader(handle, over.set)
        try:
            ending = [loop.create_task(over.wait()), loop.create_task(self._until_hung())]
            try:
                await asyncio.wait(ending, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in ending:
                    task.cancel()
            if not over.is_set():
                await self._replace(server, over)
        finally:
            loop.remove_reader(handle)
            os.close(handle)
        server.poll()
        os.close(self._life)
        self._life = -1

    async def _until_hung(self) -> None:
        """Return once the server has greeted nobody for too long."""
        loop, folder = asyncio.get_running_loop(), str(shim_folder(self._where).parent)
        greeted = loop.time()
        while loop.time() - greeted < HUNG_SECONDS:
            await asyncio.sleep(BEAT_SECONDS)
            if await asyncio.to_thread(_greets, folder):
                greeted = loop.time()
                self._failures.recovered(PART)

    async def _replace(self, server: subprocess.Popen[bytes], over: asyncio.Event) -> None:
        text = f"its server hung: it did not greet for {HUNG_SECONDS:g} s and was killed; runs start without it"
        self._failures.failed(PART, text, remedy="the next server starts by itself; see the log if this happens again")
        # First its socket: nobody waits for a server that cannot be killed.
        (shim_folder(self._where).parent / client.SOCKET).unlink(missing_ok=True)
        server.kill()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(over.wait(), REAP_SECONDS)

    def _start(self) -> subprocess.Popen[bytes]:
        reading, self._life = os.pipe()
        try:
            return subprocess.Popen(
                # -P: the working directory is no place for modules.
                [sys.executable, "-Pm", f"{__package__}.server", str(shim_folder(self._where).parent), str(reading)],
                env=dict(self._environment),
                stdin=subprocess.DEVNULL,
                pass_fds=(reading,),
                start_new_session=True,
                cwd="/",
            )
        except OSError:
            os.close(self._life)
            self._life = -1
            raise
        finally:
            os.close(reading)
