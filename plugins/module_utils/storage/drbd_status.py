"""What DRBD prints about its resources: version 9's JSON, and version 8.4's text with /proc/drbd, which has no JSON."""

from __future__ import annotations

import dataclasses
import functools
import json
import re
from typing import Any, Callable, Dict, FrozenSet, Iterable, List, Mapping, Optional, Tuple, Type, TypeVar

from ..domain.disks.drbd import Connection, Disk, Generation, Net, Replication, Resources, Role, Side, Volume
from ..domain.values import errors, ip_addresses

Word = TypeVar("Word", Connection, Disk, Replication, Role)
_UNREADABLE = (ValueError, KeyError, TypeError, AttributeError)
IDENTIFIERS = 4
CRASHED_PRIMARY_84, CRASHED_PRIMARY_9, FLAGS_84 = 6, 3, 7
"""The place of that flag among those that follow the identifiers; version 9 has more of them, in another order."""
OF_84 = {"WFConnection": Connection.CONNECTING, "WFReportParams": Connection.CONNECTING}
MINOR = re.compile(
    r"^ *(?P<minor>\d+): cs:(?P<state>\w+)"
    r"(?: ro:(?P<role>\w+)/(?P<peer_role>\w+) ds:(?P<disk>\w+)/(?P<peer_disk>\w+) +(?P<rest>.*))?$"
)
_RESOURCE = re.compile(r'resource "?(?P<name>[^"\s]+)"? \{')
_SETTING = re.compile(r"(?P<key>_remote_host|address|protocol|ping-int|allow-two-primaries)\s+(?P<value>[^;]+);")
_ADDRESS = re.compile(r"(?:ipv4|ipv6|sdp|ssocks)\s+\[?([0-9A-Za-z.:%_-]+?)\]?:\d+$")
GONE = "/proc/drbd does not list all its minors"
"""Why a resource is unread that went down after the first of the two texts of version 8.4 was made."""
UNCONFIGURED = "Unconfigured"
"""What /proc/drbd says of a minor that has neither a disk nor a peer."""
PAUSED_BY_USER = "u"
USER_FLAG = 3
"""The place of the letter that says so among the flags of /proc/drbd."""


def of_json(text: str) -> Resources:
    """The resources of `drbdsetup status --json` (version 9); one with several peers is unknown.

    Raises:
        InvalidInput: the text is not that.
    """
    try:
        told = {str(resource["name"]): resource for resource in json.loads(text)}
    except _UNREADABLE as error:
        raise errors.InvalidInput(f"drbdsetup's JSON is not as expected: {error!r}") from error
    return _each_read({name: functools.partial(_resource, resource) for name, resource in told.items()})


def _each_read(readers: Mapping[str, Callable[[], Optional[Side]]]) -> Resources:
    """What each resource is read as, by name; one that cannot be read is unknown and harms no other."""
    sides, unread = [], {}
    for name, read in readers.items():
        try:
            side = read()
        except errors.InvalidInput as error:
            unread[name] = str(error)
        except _UNREADABLE as error:
            unread[name] = f"what DRBD prints of it is not as expected: {error!r}"
        else:
            sides += [side] if side is not None else []
    return Resources(sides, unread)


def peers_of_json(text: str, resource: str) -> List[int]:
    """The numbers of the peers that a resource has a connection for, in the same JSON.

    Raises:
        InvalidInput: the text is not that.
    """
    try:
        peers = [
            peer for entry in json.loads(text) if entry["name"] == resource for peer in entry.get("connections", [])
        ]
        return [int(peer["peer-node-id"]) for peer in peers]
    except _UNREADABLE as error:
        raise errors.InvalidInput(f"drbdsetup's JSON is not as expected: {error!r}") from error


def _resource(resource: Mapping[str, Any]) -> Side:
    name, connections = str(resource["name"]), resource.get("connections", [])
    if len(connections) > 1:
        raise errors.InvalidInput(
            f"it has {len(connections)} peers, and only one is supported; remove the others from its file, then run "
            f"`drbdadm adjust {name}`"
        )
    peer = connections[0] if connections else {}
    volumes = {int(each["volume"]): each for each in peer.get("peer_devices", [])}
    return Side(
        resource=name,
        role=_word(Role, resource["role"]),
        connection=_word(Connection, peer["connection-state"]) if peer else Connection.STANDALONE,
        volumes=tuple(_volume(each, volumes.get(int(each["volume"]), {})) for each in resource["devices"]),
        peer_role=_word(Role, peer.get("peer-role", "Unknown")),
        addresses=_normal(path["remote_host"]["address"] for path in peer.get("paths", []) if path["established"]),
    )


def _volume(own: Mapping[str, Any], peer: Mapping[str, Any]) -> Volume:
    replication = _word(Replication, peer.get("replication-state", "Off"))
    return Volume(
        number=int(own["volume"]),
        disk=_word(Disk, own["disk-state"]),
        peer_disk=_word(Disk, peer.get("peer-disk-state", "DUnknown")),
        minor=int(own["minor"]),
        replication=replication,
        out_of_sync=int(peer["out-of-sync"]) if "out-of-sync" in peer else None,
        done=float(peer["percent-in-sync"]) if "percent-in-sync" in peer and replication.is_under_way else None,
        paused_by_user="user" in str(peer.get("resync-suspended", "no")),
    )


def of_text(status: str, proc: str) -> Resources:
    """The resources of `drbdsetup status --verbose --statistics` and /proc/drbd (version 8.4).

    The first tells which minors a resource has, the second how they stand: a side that stands alone does not tell of
    its peer in the first. One of which a minor is in the first only is unknown.

    Raises:
        InvalidInput: a text is not that.
    """
    minors = _minors(proc)
    return _each_read(
        {name: functools.partial(_of_minors, name, volumes, done, minors) for name, volumes, done in _resources(status)}
    )


def _of_minors(
    name: str, volumes: Mapping[int, int], done: Mapping[int, float], minors: Mapping[int, Dict[str, str]]
) -> Optional[Side]:
    known = {minor: minors[minor] for minor in volumes.values() if minor in minors}
    if len(known) != len(volumes):
        raise errors.InvalidInput(GONE)
    if all(entry["state"] == UNCONFIGURED for entry in known.values()):
        # Whoever brought it up ended before it had a disk or a peer: it is as good as down.
        return None
    first = next(iter(known.values()))
    return Side(
        resource=name,
        role=_word(Role, first["role"]),
        connection=_connection(first["state"]),
        volumes=tuple(_of_minor(number, minor, known[minor], done) for number, minor in volumes.items()),
        peer_role=_word(Role, first["peer_role"]),
    )


def nets(shown: str) -> Dict[str, Net]:
    """By resource, of `drbdsetup show`, which prints what differs from the defaults: protocol C is one.

    Versions 8.4 and 9 print the address of a peer in different places.
    """
    found: Dict[str, Net] = {}
    name, is_remote = "", False
    for line in map(str.strip, shown.splitlines()):
        resource, setting = _RESOURCE.fullmatch(line), _SETTING.match(line)
        if resource:
            name, is_remote = resource.group("name"), False
            found[name] = Net()
        elif line.endswith(("{", "}")):
            is_remote = line == "_remote_host {"
        elif setting and name:
            key, value = setting.group("key", "value")
            if key == "_remote_host" or (key == "address" and is_remote):
                known = _normal(_ADDRESS.findall(value))
                found[name] = dataclasses.replace(found[name], addresses=found[name].addresses | known)
            elif key == "ping-int":
                found[name] = dataclasses.replace(found[name], ping_interval=int(value) if value.isdigit() else 0)
            elif key == "protocol":
                found[name] = dataclasses.replace(found[name], protocol=value)
            elif key == "allow-two-primaries":
                found[name] = dataclasses.replace(found[name], two_primaries=value == "yes")
    return found


def _normal(found: Iterable[str]) -> FrozenSet[str]:
    return frozenset(ip_addresses.normal(address) for address in found if ip_addresses.is_address(address))


def generation(text: str) -> Generation:
    """The identifiers of one volume, as `get-gi` prints them: hexadecimal, then flags, with colons between.

    Raises:
        InvalidInput: the text is not that.
    """
    parts = text.strip().split(":")
    flags = parts[IDENTIFIERS:]
    if len(parts) < IDENTIFIERS or not all(flag in {"0", "1"} for flag in flags):
        raise errors.InvalidInput(f"{text.strip()[:200]!r} are no generation identifiers")
    try:
        current, bitmap, *history = (int(part, 16) for part in parts[:IDENTIFIERS])
    except ValueError as error:
        raise errors.InvalidInput(f"{text.strip()[:200]!r} are no generation identifiers") from error
    place = CRASHED_PRIMARY_9 if len(flags) > FLAGS_84 else CRASHED_PRIMARY_84
    crashed = len(flags) > place and flags[place] == "1"
    return Generation(current, bitmap, tuple(history), crashed)


def _resources(status: str) -> List[Tuple[str, Dict[int, int], Dict[int, float]]]:
    """Of each resource its name, the minors of its volumes, and how far their resyncs are."""
    found: List[Tuple[str, Dict[int, int], Dict[int, float]]] = []
    for line in (line for line in status.splitlines() if line.strip() and not line.startswith("#")):
        words = dict(word.split(":", 1) for word in line.split() if ":" in word)
        if not line.startswith(" "):
            found.append((line.split()[0], {}, {}))
        elif not found:
            raise errors.InvalidInput(f"drbdsetup's status begins with {line.strip()[:80]!r}, and not with a resource")
        elif "volume" in words and "minor" in words:
            found[-1][1][int(words["volume"])] = int(words["minor"])
        elif "volume" in words and "done" in words:
            found[-1][2][int(words["volume"])] = float(words["done"])
    return found


def _minors(proc: str) -> Dict[int, Dict[str, str]]:
    """By minor what /proc/drbd says of it."""
    found: Dict[int, Dict[str, str]] = {}
    last: Optional[Dict[str, str]] = None
    for line in proc.splitlines():
        match = MINOR.match(line)
        if match:
            last = {key: value or "" for key, value in match.groupdict().items()}
            found[int(last["minor"])] = last
        elif last is not None:
            last.update(dict(word.split(":", 1) for word in line.split() if re.fullmatch(r"oos:\d+", word)))
    return found


def _of_minor(number: int, minor: int, told: Mapping[str, str], done: Mapping[int, float]) -> Volume:
    replication = _replication(told["state"])
    flags = told["rest"].split()[-1] if told["rest"] else ""
    return Volume(
        number=number,
        disk=_word(Disk, told["disk"]),
        peer_disk=_word(Disk, told["peer_disk"]),
        minor=minor,
        replication=replication,
        out_of_sync=int(told["oos"]) if "oos" in told else None,
        done=done.get(number) if replication.is_under_way else None,
        paused_by_user=flags[USER_FLAG : USER_FLAG + 1] == PAUSED_BY_USER,
    )


def _connection(state: str) -> Connection:
    """8.4 has one word: a state of replication says that the sides are connected."""
    if state in OF_84:
        return OF_84[state]
    if state in {replication.value for replication in Replication}:
        return Connection.CONNECTED
    return _word(Connection, state)


def _replication(state: str) -> Replication:
    if state == Connection.CONNECTED.value:
        return Replication.ESTABLISHED
    return Replication(state) if state in {replication.value for replication in Replication} else Replication.OFF


def _word(kind: Type[Word], text: str) -> Word:
    try:
        return kind(text)
    except ValueError:
        known = ", ".join(word.value for word in kind)
        raise errors.InvalidInput(f"DRBD says {text!r}, which is not one of {known}") from None
