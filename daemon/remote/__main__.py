"""roundsman-rapi: the remote API for others, over TLS, as a process and user of its own."""

from __future__ import annotations

import argparse
import asyncio
import datetime as dt
import logging
import signal
import sys
from pathlib import Path

from ...plugins.module_utils.domain.values import errors, tree
from ...plugins.plugin_utils import installed_version, log_output, secret_files
from ..serving import bounded_serving, readiness, tcp_sockets
from . import authentication, certificate, forwarding, front

LOG = logging.getLogger(__name__)
PORT = 5080
"""Connections that the system keeps until they are accepted."""


def main() -> None:
    """Serve in the foreground until told to stop, or make the certificate."""
    options = _options()
    installed_version.hold()
    where = tree.Tree(options.root.resolve())
    try:
        log_output.install(level=options.log_level, file=options.log_file)
        # The access log has a better line for each request.
        logging.getLogger("httpx").setLevel(logging.WARNING)
        if options.make_certificate:
            names = certificate.own_names(options.bind)
            certificate.make(where.rapi_certificate, names=names, now=dt.datetime.now(dt.timezone.utc))
        else:
            asyncio.run(_serve(where, options))
    except (errors.RoundsmanError, OSError) as error:
        LOG.critical("roundsman-rapi ends: %s", error)
        sys.exit(1)


async def _serve(where: tree.Tree, options: argparse.Namespace) -> None:
    _look_at_secrets(where)
    context = certificate.context(where.rapi_certificate)
    limits = bounded_serving.Limits(
        connections=options.connections,
        connections_of_one=options.connections_of_one,
        handshake_seconds=options.patience,
        header_seconds=options.patience,
    )
    daemon = forwarding.Daemon(where.rapi_socket)
    app = front.Front(authentication.Authenticator(where.rapi_users), daemon)
    server = bounded_serving.Server(app, limits=limits, log_config=None, log_level="error", server_header=False)
    server.config.load()
    server.config.ssl = context
    listener = tcp_sockets.listening(options.bind, options.port)

    def stop() -> None:
        server.should_exit = True

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop)
    LOG.info("roundsman-rapi serves https at %s, port %d", *listener.getsockname()[:2])
    # The socket listens: who connects now is answered as soon as the server has begun.
    readiness.tell(options.ready_fd)
    await server.serve(sockets=[listener])
    await daemon.close()


def _look_at_secrets(where: tree.Tree) -> None:
    secret_files.refuse_readable([where.rapi_certificate, where.rapi_users], most=secret_files.SHARED)
    for path in secret_files.readable([where.hmac_key, where.config, where.bmc_credentials]):
        LOG.warning("%s can be read by this process: run it as a user of its own, who cannot", path)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="roundsman-rapi",
        description="Serves Roundsman's remote API over TLS, to the users made by `roundsman rapi user add`.",
        epilog="example: roundsman-rapi --root / --port 5080 --bind 192.0.2.1",
    )
    parser.add_argument(
        "--root", type=Path, default=Path("/"), help="the folder that holds etc, var and run (default: /)"
    )
    parser.add_argument("--port", type=int, default=PORT, help=f"the TCP port (default: {PORT})")
    parser.add_argument("--bind", default="", help="the address to serve at (default: every address)")
    parser.add_argument(
        "--connections", type=_number, default=500, metavar="N", help="how many there may be at once (default: 500)"
    )
    parser.add_argument(
        "--connections-of-one", type=_number, default=100, metavar="N", help="the same, from one address (default: 100)"
    )
    parser.add_argument(
        "--patience", type=_number, default=10, metavar="SECONDS", help="for a TLS handshake, and for a request's head"
    )
    parser.add_argument(
        "--log-level", default="info", choices=["debug", "info", "warning", "error"], help="(default: info)"
    )
    parser.add_argument("--log-file", type=Path, help="a file that the log goes to as well; it may be rotated")
    parser.add_argument("--ready-fd", type=int, help="a descriptor that is written to when the front serves")
    parser.add_argument(
        "--make-certificate", action="store_true", help="make the key and a certificate signed by itself, and end"
    )
    return parser.parse_args()


def _number(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("it has to be at least 1")
    return number


if __name__ == "__main__":
    main()
