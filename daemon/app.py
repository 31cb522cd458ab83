"""The FastAPI application, and the two servers that serve it: the network's and the socket's."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
from typing import TYPE_CHECKING, Any

import uvicorn
from fastapi import FastAPI

from ..plugins.module_utils.domain import addresses
from ..plugins.plugin_utils import bounded_serving, readiness, tcp_sockets, unix_sockets
from .http import answers, documentation, local, public
from .maintenance import spool

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from .service import Service

LOG = logging.getLogger(__name__)


def make_app(service: Service, *, is_local: bool) -> FastAPI:
    """All resources for the socket, or only those that anyone may read."""
    app = FastAPI(title="Roundsman", docs_url=None, redoc_url=None, openapi_url="/openapi.json" if is_local else None)
    answers.install(app)
    if is_local:
        # Before the public ones: `/` is Ganeti's here.
        app.include_router(local.top())
        app.include_router(local.router(service))
        documentation.install(app)
    app.include_router(public.router(service, is_local=is_local))
    return app


class _Server(uvicorn.Server):
    """A server that leaves signals to the daemon."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def serve(service: Service, *, bind: str, port: int, ready: int | None) -> None:
    """Serve and work until SIGTERM or SIGINT; running opcode processes are left to the next daemon.

    The descriptor `ready` is told as soon as requests are answered.
    """
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    public_server = bounded_serving.Server(
        make_app(service, is_local=False), limits=bounded_serving.Limits(), log_level="warning"
    )
    pages = tcp_sockets.listening(bind, port)
    servers = [
        (public_server, pages),
        (_server(make_app(service, is_local=True)), unix_socket(service.where.socket)),
    ]
    observer = spool.watch(service.where.spool, service.rounds.wake, loop=loop)
    service.queue.resume()
    service.rounds.resume()
    work: list[asyncio.Task[Any]] = [loop.create_task(server.serve(sockets=[listener])) for server, listener in servers]
    work += [loop.create_task(service.rounds.run()), loop.create_task(service.poll.run())]
    work.append(loop.create_task(service.dead.run()))
    if service.warm is not None:
        work.append(loop.create_task(service.warm.run()))
    work.append(loop.create_task(service.failures.until_defect()))
    stop: asyncio.Task[Any] = loop.create_task(stopping.wait())
    readiness.tell(ready)
    port = pages.getsockname()[1]
    LOG.info("roundsmand serves http://%s:%s and %s", addresses.bracketed(bind), port, service.where.socket)
    done, _ = await asyncio.wait([*work, stop], return_when=asyncio.FIRST_COMPLETED)
    for server, _listener in servers:
        server.should_exit = True
    await service.queue.stop()
    observer.stop()
    if service.warm is not None:
        service.warm.stop()
    for task in work[2:]:
        task.cancel()
    await asyncio.wait(work, timeout=5)
    service.where.socket.unlink(missing_ok=True)
    for task in done - {stop}:
        task.result()


def _server(app: FastAPI) -> _Server:
    return _Server(
        uvicorn.Config(app, log_level="warning", access_log=False, lifespan="off", timeout_graceful_shutdown=2)
    )


def unix_socket(path: Path) -> socket.socket:
    """A listening socket at a path of any length; a dead one that stands there is replaced."""
    path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with unix_sockets.short_name(path) as name:
        listener.bind(name)
    path.chmod(0o660)
    listener.listen(128)
    return listener
