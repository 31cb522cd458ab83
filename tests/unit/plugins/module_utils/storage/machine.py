"""A node with logical volumes and DRBD, in memory: it runs the commands of the drivers, and answers as the real.

Its texts are of the form recorded from version 8.4.11 and LVM 2.03. What the peer of a resource is, a test says.
What it knows of version 9 (`is_nine`) is from that version's manual and sources, and was not seen on a real node: JSON,
the numbers of nodes, and metadata that keep what a peer lacks under its number until that peer is forgotten.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ansible_collections.roundsman.cluster.plugins.module_utils.domain import errors
from ansible_collections.roundsman.cluster.plugins.module_utils.storage import drbd_node

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FRESH_GI = "0000000000000004:0000000000000000:0000000000000000:0000000000000000:0:0:0:0:0:0:0\n"
USED_GI = "B973DA07ACB97AA1:56405A77C745066F:6D4CDE33A1C1F033:6D4BDE33A1C1F033:1:1:1:0:0:0:0\n"


@dataclass
class Volume:
    size: int
    is_active: bool = True
    is_open: bool = False
    metadata: str = ""
    number: int | None = None
    lacking: dict[int, str] = field(default_factory=dict)


@dataclass
class Resource:
    """A resource that is up, in the words of 8.4."""

    minor: int
    peer_address: str
    role: str = "Secondary"
    state: str = "WFConnection"
    disk: str = "Inconsistent"
    peer_role: str = "Unknown"
    peer_disk: str = "DUnknown"
    out_of_sync: int = 0
    two: bool = False
    is_held: bool = False
    paused: bool = False
    gi: str = FRESH_GI
    discarded: bool = False
    peer_number: int | None = None

    def meet(self, *, disk: str, role: str = "Secondary") -> None:
        """Its peer is there."""
        self.state, self.peer_role, self.peer_disk = "Connected", role, disk


@dataclass
class Machine:
    """The node; `ran` are the commands that changed something, in their order."""

    root: Path
    loaded: bool = False
    is_nine: bool = False
    volumes: dict[str, Volume] = field(default_factory=dict)
    resources: dict[str, Resource] = field(default_factory=dict)
    ran: list[str] = field(default_factory=list)
    broken: dict[str, str] = field(default_factory=dict)
    when: dict[str, Callable[[], None]] = field(default_factory=dict)

    @property
    def node(self) -> drbd_node.DrbdNode:
        return drbd_node.DrbdNode(self, proc=self._proc())

    def run(self, *command: str, time_limit: float = 120, accepted: tuple[int, ...] = (0,)) -> str:
        text = " ".join(command)
        for start, reason in self.broken.items():
            if text.startswith(start):
                raise errors.Failed(f"{' '.join(command[:3])}: {reason}")
        words = [word for word in command if not word.startswith("--")]
        if "--config-file" in command:
            words = ["drbdadm", "create-md", command[-1]]
        key = "_".join(words[:2] if words[0].startswith("drbd") else words[:1])
        act = getattr(self, f"_{key.replace('-', '_')}")
        said: str = act(words, command)
        if words[0] != "lvs" and not text.startswith(("drbdsetup status", "drbdsetup show", "drbdadm get-gi")):
            self.ran.append(text)
        self._proc()
        for start, happens in list(self.when.items()):
            if text.startswith(start):
                happens()
        self._proc()
        return said

    def configured(self, name: str) -> str:
        """The text of a resource's file, '' without one."""
        path = self.root / "etc/drbd.d" / f"roundsman-{name}.res"
        return path.read_text() if path.exists() else ""

    def _proc(self) -> Path:
        path = self.root / drbd_node.PROC
        path.parent.mkdir(parents=True, exist_ok=True)
        if self.loaded:
            rows = "".join(_row(one) for one in self.resources.values())
            version = "9.2.8 (api:2/proto:86-122)" if self.is_nine else "8.4.11 (api:1/proto:86-101)"
            path.write_text(f"version: {version}\nsrcversion: F73C670A7EC572DB9CF3E5B \n{'' if self.is_nine else rows}")
        return path

    def _modprobe(self, _words: list[str], _command: tuple[str, ...]) -> str:
        self.loaded = True
        return ""

    def _lvs(self, _words: list[str], _command: tuple[str, ...]) -> str:
        rows = []
        for name, one in self.volumes.items():
            group, _, volume = name.partition("/")
            state = {"lv_active": "active" if one.is_active else "", "lv_device_open": "open" if one.is_open else ""}
            rows.append({"vg_name": group, "lv_name": volume, "lv_size": f"{one.size}.00", **state})
        return json.dumps({"report": [{"lv": rows}]})

    def _lvcreate(self, _words: list[str], command: tuple[str, ...]) -> str:
        size = int(command[command.index("--size") + 1].rstrip("m"))
        name = f"{command[-1]}/{command[command.index('--name') + 1]}"
        assert name not in self.volumes
        self.volumes[name] = Volume(-(-size // 4) * 4)
        return ""

    def _lvchange(self, _words: list[str], command: tuple[str, ...]) -> str:
        self.volumes[command[-1]].is_active = command[2] == "y"
        return ""

    def _lvremove(self, _words: list[str], command: tuple[str, ...]) -> str:
        assert not self.volumes[command[-1]].is_open
        del self.volumes[command[-1]]
        return ""

    def _drbdadm_create_md(self, _words: list[str], command: tuple[str, ...]) -> str:
        text = (self.root / command[2]).read_text()
        assert text.startswith("global { usage-count no; }\n")
        assert command[-1] not in self.resources
        self._metadata(text).metadata = FRESH_GI
        return ""

    def _metadata(self, text: str) -> Volume:
        match = re.search(r"meta-disk /dev/(\S+);", text)
        assert match
        return self.volumes[match.group(1)]

    def _drbdadm_adjust(self, words: list[str], _command: tuple[str, ...]) -> str:
        name, text = words[2], self.configured(words[2])
        if not text:
            raise errors.Failed(f"drbdadm adjust: '{name}' not defined in your config (for this host).")
        peer = re.findall(r"address ipv4 (\S+):\d+;", text)[1]
        minor = int(re.findall(r"minor (\d+);", text)[0])
        metadata = self._metadata(text)
        assert metadata.metadata, "No valid meta data found"
        one = self.resources.setdefault(name, Resource(minor, peer, gi=metadata.metadata))
        if self.is_nine:
            self._number(text, peer, metadata, one)
        if one.disk == "Diskless":
            one.disk = "UpToDate"
        if one.peer_address != peer or one.state == "StandAlone":
            assert one.state == "StandAlone" or one.peer_address == peer, "the old connection is still there"
            one.peer_address, one.state = peer, "WFConnection"
        return ""

    def _number(self, text: str, peer: str, metadata: Volume, one: Resource) -> None:
        mine, its = (int(number) for number in re.findall(r"node-id (\d+);", text))
        assert metadata.number in {None, mine}, "ambiguous node id"
        metadata.number = mine
        assert metadata.lacking.setdefault(its, peer) == peer, "what the old peer lacks is taken for the new one's"
        if one.peer_number is None:
            one.peer_number, one.peer_address, one.state = its, peer, "WFConnection"

    def _drbdsetup_del_peer(self, words: list[str], _command: tuple[str, ...]) -> str:
        one = self.resources[words[2]]
        assert one.peer_number == int(words[3]), "unknown connection"
        one.state, one.peer_number, one.peer_role, one.peer_disk = "StandAlone", None, "Unknown", "DUnknown"
        return ""

    def _drbdadm_forget_peer(self, words: list[str], _command: tuple[str, ...]) -> str:
        text = self.configured(words[2])
        assert words[2] not in self.resources or self.resources[words[2]].peer_number is None, "network configured"
        its = int(re.findall(r"node-id (\d+);", text)[1])
        self._metadata(text).lacking.pop(its, None)
        return ""

    def _drbdadm_primary(self, words: list[str], command: tuple[str, ...]) -> str:
        one = self.resources[words[-1]]
        if one.disk == "Inconsistent" and one.peer_disk != "UpToDate" and "--force" not in command:
            raise errors.Failed("drbdadm primary: 0: State change failed: (-2) Need access to UpToDate data")
        if one.peer_role == "Primary" and not one.two:
            raise errors.Failed("drbdadm primary: (-1) Multiple primaries not allowed by config")
        if "--force" in command:
            one.disk = "UpToDate"
        one.role, one.gi = "Primary", USED_GI
        return ""

    def _drbdadm_secondary(self, words: list[str], _command: tuple[str, ...]) -> str:
        one = self.resources[words[-1]]
        if one.is_held:
            raise errors.Failed("drbdadm secondary: 0: State change failed: (-12) Device is held open by someone")
        one.role = "Secondary"
        return ""

    def _drbdadm_net_options(self, words: list[str], command: tuple[str, ...]) -> str:
        one, allowed = self.resources[words[-1]], command[2].endswith("=yes")
        if not allowed and one.role == one.peer_role == "Primary":
            raise errors.Failed("drbdadm net-options: (164) Can not clear allow_two_primaries")
        one.two = allowed
        return ""

    def _drbdadm_disconnect(self, words: list[str], _command: tuple[str, ...]) -> str:
        one = self.resources[words[-1]]
        assert one.state != "StandAlone", "(162) unknown connection"
        one.state, one.peer_role, one.peer_disk = "StandAlone", "Unknown", "DUnknown"
        return ""

    def _drbdadm_connect(self, words: list[str], command: tuple[str, ...]) -> str:
        one = self.resources[words[-1]]
        assert one.state == "StandAlone"
        one.state, one.discarded = "WFConnection", "--discard-my-data" in command
        return ""

    def _drbdadm_attach(self, words: list[str], _command: tuple[str, ...]) -> str:
        self.resources[words[-1].partition("/")[0]].disk = "UpToDate"
        return ""

    def _drbdadm_invalidate(self, words: list[str], _command: tuple[str, ...]) -> str:
        one = self.resources[words[-1]]
        one.disk, one.state = "Inconsistent", "SyncTarget"
        return ""

    def _drbdadm_resume_sync(self, words: list[str], _command: tuple[str, ...]) -> str:
        self.resources[words[-1]].paused = False
        return ""

    def _drbdadm_get_gi(self, words: list[str], _command: tuple[str, ...]) -> str:
        return self.resources[words[-1].partition("/")[0]].gi

    def _drbdsetup_down(self, words: list[str], _command: tuple[str, ...]) -> str:
        assert self.resources[words[-1]].role == "Secondary", "it would be demoted"
        del self.resources[words[-1]]
        return ""

    def _drbdsetup_status(self, _words: list[str], command: tuple[str, ...]) -> str:
        assert ("--json" in command) is self.is_nine
        if self.is_nine:
            return json.dumps([_told(name, one) for name, one in self.resources.items()])
        return "".join(_status(name, one) for name, one in self.resources.items())

    def _drbdsetup_show(self, _words: list[str], _command: tuple[str, ...]) -> str:
        return "".join(_shown(name, one) for name, one in self.resources.items())


def _row(one: Resource) -> str:
    flags = "r--u--" if one.paused else "r-----"
    return (
        f" {one.minor}: cs:{one.state} ro:{one.role}/{one.peer_role} ds:{one.disk}/{one.peer_disk} C {flags}\n"
        f"    ns:0 nr:0 dw:0 dr:0 al:8 bm:0 lo:0 pe:0 ua:0 ap:0 ep:1 wo:f oos:{one.out_of_sync}\n"
    )


def _status(name: str, one: Resource) -> str:
    return (
        f"{name} role:{one.role} suspended:no\n    write-ordering:flush\n"
        f"  volume:0 minor:{one.minor} disk:{one.disk}\n"
        "      size:65536 read:0 written:0 al-writes:8 bm-writes:0 upper-pending:0\n\n"
    )


def _told(name: str, one: Resource) -> dict[str, object]:
    together = one.state not in {"WFConnection", "StandAlone"}
    connection = {"WFConnection": "Connecting", "StandAlone": "StandAlone"}.get(one.state, "Connected")
    peer_device = {
        "volume": 0,
        "replication-state": {"Connected": "Established"}.get(one.state, one.state) if together else "Off",
        "peer-disk-state": one.peer_disk,
        "resync-suspended": "user" if one.paused else "no",
        "out-of-sync": one.out_of_sync,
        "percent-in-sync": 100.0,
    }
    peer = {"peer-node-id": one.peer_number, "connection-state": connection, "peer-role": one.peer_role}
    return {
        "name": name,
        "role": one.role,
        "devices": [{"volume": 0, "minor": one.minor, "disk-state": one.disk}],
        "connections": [] if one.peer_number is None else [{**peer, "peer_devices": [peer_device]}],
    }


def _shown(name: str, one: Resource) -> str:
    two = "        allow-two-primaries\tyes;\n" if one.two else ""
    net = f'    net {{\n        cram-hmac-alg   \t"sha256";\n{two}    }}\n'
    return f"resource {name} {{\n    options {{\n    }}\n{net}}}\n"
