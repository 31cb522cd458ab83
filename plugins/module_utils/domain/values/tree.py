"""Where every file lives below a root: seed 004's tree under our name.

The root is `/` on a real machine; a lab and each lab node have the same tree under a folder of their own. Names only:
nothing here touches a file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

LAB_FILE = "lab.json"
"""The file by which a folder is a lab's, beside the root of its controller."""


@dataclass(frozen=True)
class Tree:
    """The paths below one root."""

    root: Path

    @property
    def lab_file(self) -> Path:
        """It is there only if this root is that of a lab's controller."""
        return self.root.absolute().parent / LAB_FILE

    @property
    def etc(self) -> Path:
        return self.root / "etc/roundsman"

    @property
    def lib(self) -> Path:
        return self.root / "var/lib/roundsman"

    @property
    def run(self) -> Path:
        return self.root / "run/roundsman"

    @property
    def log(self) -> Path:
        return self.root / "var/log/roundsman"

    @property
    def audit_log(self) -> Path:
        return self.log / "audit.log"

    @property
    def config(self) -> Path:
        return self.lib / "config.data"

    @property
    def epoch(self) -> Path:
        """The epoch in which this controller leads."""
        return self.lib / "epoch.json"

    @property
    def config_lock(self) -> Path:
        return self.lib / "config.lock"

    @property
    def locks(self) -> Path:
        return self.lib / "locks.data"

    @property
    def abnormal_ends(self) -> Path:
        """Ends count within one boot: their file is in memory, where a failed disk does not matter."""
        return self.run / "abnormal-ends.json"

    @property
    def unsynced(self) -> Path:
        """The note that a disk failed in this boot, and state must be written again; in memory as well."""
        return self.run / "unsynced.json"

    @property
    def queue(self) -> Path:
        return self.lib / "queue"

    @property
    def rounds(self) -> Path:
        return self.lib / "rounds"

    @property
    def reports(self) -> Path:
        return self.lib / "reports"

    @property
    def rejected(self) -> Path:
        return self.reports / "rejected"

    @property
    def report_originals(self) -> Path:
        """Large reports of incidents, whole."""
        return self.reports / "originals"

    @property
    def spool(self) -> Path:
        return self.lib / "spool"

    @property
    def hmac_key(self) -> Path:
        return self.lib / "hmac.key"

    @property
    def ssh_key(self) -> Path:
        """The key with which the daemon reaches the nodes."""
        return self.lib / ".ssh/id_ed25519"

    @property
    def rapi_certificate(self) -> Path:
        return self.lib / "rapi/server.pem"

    @property
    def rapi_users(self) -> Path:
        return self.lib / "rapi/users"

    @property
    def socket(self) -> Path:
        return self.run / "socket/roundsmand.sock"

    @property
    def rapi_socket(self) -> Path:
        """The socket behind the remote API, in a folder that the local one's users and its own do not share."""
        return self.run / "rapi/roundsmand.sock"

    @property
    def pid_file(self) -> Path:
        return self.run / "roundsmand.pid"

    @property
    def livelocks(self) -> Path:
        return self.run / "livelocks"

    @property
    def bmc_credentials(self) -> Path:
        return self.etc / "bmc.json"

    @property
    def allocators(self) -> Path:
        """External allocators, by their names."""
        return self.etc / "iallocators"

    @property
    def os_playbooks(self) -> Path:
        """Playbooks that install an operating system, `NAME.yml` each."""
        return self.etc / "os"

    @property
    def host_vars(self) -> Path:
        """Host variables of nodes that only root may write, `NODE.yml` each."""
        return self.etc / "host_vars"

    @property
    def oob_programs(self) -> Path:
        """Helper programs that others than root may name as `oob_program`."""
        return self.etc / "oob-programs"

    @property
    def daemon_settings(self) -> Path:
        return self.etc / "roundsmand.json"
