"""Certificates for the nodes of a bed, by an authority of its own, for libvirt and QEMU to migrate over TLS."""

from __future__ import annotations

import datetime as dt
import ipaddress
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

if TYPE_CHECKING:
    from . import beds

LIFETIME = dt.timedelta(days=1)
FOLDERS = ("etc/pki/CA", "etc/pki/libvirt/private", "etc/pki/qemu")
LISTEN = "systemctl stop libvirtd.service && systemctl start libvirtd-tls.socket && systemctl start libvirtd.service"


class Authority:
    """Signs certificates for addresses."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test bed")])
        builder = _builder(self._name, self._name, self._key)
        ends = x509.BasicConstraints(ca=True, path_length=0)
        self.certificate = _pem(builder.add_extension(ends, critical=True).sign(self._key, hashes.SHA256()))

    def made(self, name: str, address: str) -> tuple[str, str]:
        """A certificate for an address and its key, for servers and for clients."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        uses = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = _builder(subject, self._name, key)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        addresses = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))])
        signed = builder.add_extension(addresses, critical=False).sign(self._key, hashes.SHA256())
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return _pem(signed), private.decode()


def install(bed: beds.Bed, node: str, authority: Authority) -> None:
    """Give a node a certificate of this authority, and have its libvirt listen with it."""
    certificate, key = authority.made(node, bed.addresses()[node])
    files = {
        "CA/cacert.pem": authority.certificate,
        "libvirt/servercert.pem": certificate,
        "libvirt/clientcert.pem": certificate,
        "libvirt/private/serverkey.pem": key,
        "libvirt/private/clientkey.pem": key,
        "qemu/ca-cert.pem": authority.certificate,
        "qemu/server-cert.pem": certificate,
        "qemu/client-cert.pem": certificate,
        "qemu/server-key.pem": key,
        "qemu/client-key.pem": key,
    }
    bed.run(node, f"mkdir -p {' '.join(f'/{folder}' for folder in FOLDERS)}")
    for path, content in files.items():
        bed.run(node, f"cat >/etc/pki/{path}", given=content.encode())
    bed.run(node, LISTEN)


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number())
    return builder.not_valid_before(now - LIFETIME).not_valid_after(now + LIFETIME)


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()
