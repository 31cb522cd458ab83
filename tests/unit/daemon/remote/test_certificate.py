from __future__ import annotations

import datetime as dt
import os
import ssl
import stat
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.daemon.remote import certificate
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

if TYPE_CHECKING:
    from pathlib import Path

NOW = dt.datetime(2026, 11, 21, tzinfo=dt.timezone.utc)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "rapi/server.pem"
    certificate.make(found, names=["host.example", "192.0.2.1", "2001:db8::1", "192.0.2.1"], now=NOW)
    return found


def test_key_and_certificate_stand_in_one_file_that_only_its_user_reads(path: Path) -> None:
    assert stat.S_IMODE(path.stat().st_mode) == 0o400
    text = path.read_text()
    assert [one for one in text.splitlines() if one.startswith("-----BEGIN")] == [
        "-----BEGIN PRIVATE KEY-----",
        "-----BEGIN CERTIFICATE-----",
    ]


def test_the_certificate_names_the_host_and_its_addresses(path: Path) -> None:
    made = x509.load_pem_x509_certificate(path.read_bytes())
    names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["host.example"]
    assert [str(one) for one in names.get_values_for_type(x509.IPAddress)] == ["192.0.2.1", "2001:db8::1"]
    key = made.public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey)
    assert isinstance(key.curve, ec.SECP256R1)
    assert made.not_valid_before_utc < NOW < made.not_valid_after_utc
    made.verify_directly_issued_by(made)


def test_a_certificate_is_made_once(path: Path) -> None:
    before = path.read_bytes()
    with pytest.raises(errors.Refused, match="there already"):
        certificate.make(path, names=["other"], now=NOW)
    assert path.read_bytes() == before


def test_tls_is_of_version_1_2_or_newer(path: Path) -> None:
    assert certificate.context(path).minimum_version is ssl.TLSVersion.TLSv1_2


def test_a_missing_certificate_says_how_to_make_it(tmp_path: Path) -> None:
    with pytest.raises(errors.Refused, match="--make-certificate"):
        certificate.context(tmp_path / "server.pem")


def test_a_damaged_certificate_names_the_file(path: Path) -> None:
    path.chmod(0o600)
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(errors.StoreFailed, match=f"{path} cannot be used"):
        certificate.context(path)


def test_a_host_has_its_name_first_and_is_found_on_loopback() -> None:
    names = certificate.own_names("192.0.2.7")
    assert names[0] == os.uname().nodename
    assert {"192.0.2.7", "localhost", "127.0.0.1", "::1"} <= set(names)
    assert "0.0.0.0" not in certificate.own_names("0.0.0.0")
