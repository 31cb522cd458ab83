"""The FastAPI applications, one for each door, and their servers: the network's and those of the two sockets."""

from __future__ import annotations

import asyncio
import logging
import signal
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI

from ..plugins.module_utils.domain.values import errors, ip_addresses
from ..plugins.plugin_utils import durable_files
from . import disk_proofs
from .api import answers, auditing, documentation, local, public, read_only
from .api.asking import Door
from .failures import Defect
from .maintenance import rewriting, spool
from .serving import bounded_serving, head_requests, peer_sockets, readiness, tcp_sockets

if TYPE_CHECKING:
    import socket

    from fastapi import APIRouter

    from .service import Service

LOG = logging.getLogger(__name__)
STOPPING = 15.0
"""Seconds for the jobs' tasks to end; the processes of opcodes go on."""
LIMITS = {
    # A whole configuration is imported here, and plays by hand wait for locks.
    Door.SOCKET: bounded_serving.Limits(body=256 << 20, connections=500, connections_of_one=400),
    # All of them are `roundsman-rapi`'s, which opens at most 200.
    Door.REMOTE: bounded_serving.Limits(connections=250, connections_of_one=250),
    # Checks of the daemon from its own machine always get an answer.
    Door.PUBLIC: bounded_serving.Limits(connections_kept=20),
}
"""What the daemon reads and keeps open at once behind each door; the unit's LimitNOFILE has room for all of it."""


def make_app(service: Service, *, door: Door) -> FastAPI:
    """The resources that there are behind a door."""
    openapi = None if door is Door.PUBLIC else "/openapi.json"
    app = FastAPI(title="Roundsman", docs_url=None, redoc_url=None, openapi_url=openapi)
    app.state.door = door
    answers.install(app)
    app.add_middleware(read_only.Guard, read_only=service.read_only)
    if door is not Door.PUBLIC:
        # Before the public ones: `/` is Ganeti's here.
        _include(app, local.top())
        _include(app, local.router(service, door=door))
        documentation.install(app)
        app.add_middleware(auditing.Audit)
    if door is Door.PUBLIC:
        # Uptime checks ask so.
        app.add_middleware(head_requests.HeadAsGet)
    if door is not Door.REMOTE:
        _include(app, public.router(service, is_local=door is Door.SOCKET))
    return app


def _include(app: FastAPI, router: APIRouter) -> None:
    """Take a router's routes as they are: FastAPI's `include_router` would build each of them once more."""
    app.router.routes.extend(router.routes)


async def serve(service: Service, *, bind: str, port: int, ready: int | None) -> None:
    """Serve and work until SIGTERM or SIGINT; running opcode processes are left to the next daemon.

    The descriptor `ready` is told as soon as requests are answered.

    Raises:
        NotLeading: another controller leads.
    """
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    durable_files.on_unknown(lambda error: end_later(loop, service, error))
    async with readiness.still_starting():
        await rewriting.at_start(
            service.where, configuration=service.configuration, desk=service.desk, read_only=service.read_only
        )
    if service.read_only.reason:
        service.failures.failed("roundsmand", service.read_only.reason, remedy=service.read_only.remedy)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    public_server = bounded_serving.Server(
        make_app(service, door=Door.PUBLIC), limits=LIMITS[Door.PUBLIC], log_config=None, log_level="warning"
    )
    pages = tcp_sockets.listening(bind, port)
    own = {Door.SOCKET: service.where.socket, Door.REMOTE: service.where.rapi_socket}
    servers: list[tuple[bounded_serving.Server, socket.socket]] = [(public_server, pages)]
    servers += [
        (socket_server(make_app(service, door=door), door=door), peer_sockets.listening(path))
        for door, path in own.items()
    ]
    work: list[asyncio.Task[Any]] = [loop.create_task(server.serve(sockets=[listener])) for server, listener in servers]
    work += [loop.create_task(_work(service)), loop.create_task(service.failures.until_defect())]
    work.append(loop.create_task(service.leadership.run()))
    work.append(loop.create_task(disk_proofs.keep_proving(disk_proofs.beside(service.where), service.failures)))
    stop: asyncio.Task[Any] = loop.create_task(stopping.wait())
    readiness.tell(ready)
    port = pages.getsockname()[1]
    LOG.info("roundsmand serves http://%s:%s and %s", ip_addresses.bracketed(bind), port, service.where.socket)
    done, _ = await asyncio.wait([*work, stop], return_when=asyncio.FIRST_COMPLETED)
    for server, _listener in servers:
        server.should_exit = True
    # After a defect a job may not let itself be stopped: the next daemon adopts its process all the same.
    await asyncio.wait([loop.create_task(service.queue.stop())], timeout=STOPPING)
    for task in work[len(servers) :]:
        task.cancel()
    await service.leadership.end()
    if service.warm is not None:
        await asyncio.to_thread(service.warm.stop)
    await asyncio.wait(work, timeout=5)
    for path in own.values():
        path.unlink(missing_ok=True)
    for task in done - {stop}:
        _raise_defect(task)


async def _work(service: Service) -> None:
    """All that changes something, once the daemon is not read-only; it ends with the first part that ends."""
    if service.read_only.reason:
        LOG.critical("%s; %s", service.read_only.reason, service.read_only.remedy)
        await service.read_only.is_over.wait()
        service.failures.recovered("roundsmand")
    service.queue.resume()
    parts = [service.rounds.run(), service.poll.run(), service.suspects.run(), service.early_answers.run()]
    parts += [service.readings.run(), service.dead.run(), service.copying.run()]
    parts += [service.replicas.run(), service.left_behind.run(), service.unfinished_moves.run()]
    parts.append(spool.keep_watching(service.where.spool, service.rounds.wake, failures=service.failures))
    if service.warm is not None:
        parts.append(service.warm.run())
    try:
        await asyncio.gather(*parts)
    except Exception as error:  # whatever it is, no part of the daemon ends alone
        raise service.failures.end("a part of the daemon", error) from error


def end_later(loop: asyncio.AbstractEventLoop, service: Service, error: errors.StateUnknown) -> None:
    """The disk failed, perhaps in another thread: nothing more is written, and the daemon ends."""
    if not loop.is_closed():
        loop.call_soon_threadsafe(service.failures.end_unknown, error)


def _raise_defect(task: asyncio.Task[Any]) -> None:
    error = task.exception()
    if error is None or isinstance(error, (Defect, errors.StateUnknown, errors.NotLeading)):
        task.result()
        return
    LOG.critical("a server of the daemon ended with an unforeseen exception", exc_info=error)
    raise Defect(f"a server of the daemon ended with an unforeseen exception: {error!r}") from error


def socket_server(app: FastAPI, *, door: Door) -> bounded_serving.Server:
    """A server for a socket of `peer_sockets`, which names the peer: connections are counted by uid."""
    return bounded_serving.Server(app, limits=LIMITS[door], log_config=None, log_level="warning")
