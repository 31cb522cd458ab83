"""The front's own certificate: made at set-up, signed by its own key, both in one file."""

from __future__ import annotations

import datetime as dt
import ipaddress
import os
import socket
import ssl
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from ...plugins.module_utils.domain.values import errors
from ...plugins.plugin_utils import durable_files

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

DAYS = 3650
EARLIER = dt.timedelta(days=1)
"""A client's clock may be behind."""


def make(path: Path, *, names: Iterable[str], now: dt.datetime) -> None:
    """Make key and certificate for host names and addresses; what stands there already is left alone.

    Raises:
        Refused: the file is there. StoreFailed: it could not be written.
    """
    if path.exists():
        raise errors.Refused(f"{path} is there already: remove it first to get another one")
    key = ec.generate_private_key(ec.SECP256R1())
    named = list(dict.fromkeys(names))
    whose = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, named[0][:64])])
    made = (
        x509.CertificateBuilder()
        .subject_name(whose)
        .issuer_name(whose)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - EARLIER)
        .not_valid_after(now + dt.timedelta(days=DAYS))
        .add_extension(x509.SubjectAlternativeName([_general(name) for name in named]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    try:
        path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
    except OSError as error:
        raise errors.StoreFailed(f"{path.parent} could not be made: {error.strerror}") from error
    durable_files.replace(path, secret + made.public_bytes(pem), mode=0o400)


def own_names(*addresses: str) -> list[str]:
    """The name of this host, first, with the addresses that it stands for and those that are given."""
    host = os.uname().nodename
    try:
        found = [str(answer[4][0]).partition("%")[0] for answer in socket.getaddrinfo(host, None)]
    except OSError:
        found = []
    given = [address for address in addresses if address not in {"", "0.0.0.0", "::"}]  # noqa: S104 - compared, not bound
    return [host, socket.getfqdn(), "localhost", *given, *found, "127.0.0.1", "::1"]


def context(path: Path) -> ssl.SSLContext:
    """What TLS is served with: version 1.2 or newer.

    Raises:
        Refused: there is no certificate. StoreFailed: it cannot be read, or is damaged.
    """
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    made.options |= ssl.OP_NO_RENEGOTIATION
    try:
        made.load_cert_chain(path)
    except FileNotFoundError as error:
        raise errors.Refused(f"{path} is missing: make it by `roundsman-rapi --make-certificate`") from error
    except OSError as error:
        raise errors.StoreFailed(f"{path} cannot be used: {error.strerror or error}") from error
    return made


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
