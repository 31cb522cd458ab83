"""The Redfish emulator of OpenStack's sushy-tools, over TLS with a certificate of its own."""

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
import ipaddress
import shutil
import socket
import ssl
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

if TYPE_CHECKING:
    from collections.abc import Iterator

ADDRESS = "127.0.78.1"
USERNAME, PASSWORD = "admin", "s3cret"
PROGRAM = Path(sys.executable).with_name("sushy-emulator")
# The hash of PASSWORD, as htpasswd writes it.
CONFIG = """
SUSHY_EMULATOR_LISTEN_IP = "{address}"
SUSHY_EMULATOR_LISTEN_PORT = {port}
SUSHY_EMULATOR_SSL_CERT = "{folder}/certificate.pem"
SUSHY_EMULATOR_SSL_KEY = "{folder}/key.pem"
SUSHY_EMULATOR_FAKE_DRIVER = True
SUSHY_EMULATOR_FAKE_SYSTEMS = [{{
    "uuid": "da69abcc-dae0-4913-9a7b-d344043097c0", "name": "node1", "power_state": "Off",
    "nics": [{{"mac": "00:5c:52:31:3a:9c", "ip": "172.22.0.100"}}],
}}]
"""
