"""A pair of DRBD 8.4 replicas as a pure value: how a command, an instance or a fault changes it.

One replica is in `simulated_replica`, whose data are newer in `simulated_generations`, connecting and resync in
`simulated_connection`. The rules are those of the kernel's module 8.4.11 (`drbd_state.c` for what is refused,
`drbd_nl.c` for promotion and attaching); a resource has one volume and one peer. A cut link is noticed at once: in the
seconds in which DRBD still waits for its peer no write is acknowledged, so nothing can be lost in them.

Sizes and amounts are in KiB, times in ns of any one clock; nothing here reads it.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Optional, Tuple

from .simulated_connection import ConnectedSides
from .simulated_replica import (
    BLOCK,
    CONNECTING,
    DISKLESS,
    DUNKNOWN,
    FRESH,
    HOT,
    INCONSISTENT,
    NO_DATA,
    OUTDATED,
    PRIMARY,
    RANKS,
    SECONDARY,
    STANDALONE,
    SYNCING,
    UP_TO_DATE,
    Device,
    Rejected,
    Writer,
    bare,
    failure,
    once_connected,
    state_error,
)


@dataclass(frozen=True)
class Pair(ConnectedSides):
    """A pair as commands and faults change it."""

    # Time

    def at(self, now: int) -> Pair:
        """The pair at a later moment: the running instances have written on, and a resync is further or done."""
        pair = self
        for i in (0, 1):
            pair = pair._written(i, now)
        if pair._is_syncing and pair.left(now) <= 0:
            pair = pair._synced()
        elif pair._is_syncing and pair._is_moving:
            pair = pair._rebased(now)
        return dataclasses.replace(pair, now=max(now, pair.now))._marked()

    # Commands

    def up(self, i: int, *, minor: int, peer: str, secret: str = "", addresses: Tuple[str, str] = ("", "")) -> Pair:
        """New-resource, new-minor: the device is there, without a disk and without a peer."""
        own, other = addresses
        return self._side(i, device=Device(minor, peer, secret=secret, address=own, peer_address=other))

    def connect(self, i: int, *, discards: bool = False) -> Pair:
        """Wait for the peer, or meet it if it waits too."""
        if self._device(i).connection != STANDALONE:
            raise failure(102, "Local address(port) already in use.")
        if discards and self._device(i).role == PRIMARY:
            raise failure(123, "The discard-my-data option is not allowed when primary")
        return self._change(i, connection=CONNECTING, discards=discards).meet()

    def disconnect(self, i: int) -> Pair:
        """Stand alone; the peer waits."""
        device, j = self._device(i), 1 - i
        if device.connection == STANDALONE:
            raise failure(162, "Invalid configuration request additional info from kernel: unknown connection")
        if device.role == PRIMARY and device.disk != UP_TO_DATE:
            raise state_error(-2)
        peer = self.sides[j].device
        if device.is_together and peer is not None and peer.role == PRIMARY and peer.disk != UP_TO_DATE:
            raise state_error(-10)
        return self._parted(i, STANDALONE, CONNECTING)

    def attach(self, i: int) -> Pair:
        """Work on the disk again; connected, both sides compare their identifiers first."""
        side, device = self.sides[i], self._device(i)
        if device.is_attached:
            # So says drbdmeta, which drbdadm asks first.
            raise Rejected(f"Device '{device.minor}' is configured!", status=20)
        if not side.size:
            raise failure(104, "Can not open backing device.")
        if side.metadata is None:
            raise failure(119, "No valid meta-data signature found.")
        found, is_alone = side.metadata, not device.is_together
        if is_alone and device.role == PRIMARY and device.effective != bare(found.current):
            raise failure(150, "Can only attach to the data we lost last (see kernel log).")
        disk = INCONSISTENT if not found.is_consistent else UP_TO_DATE if found.was_up_to_date else OUTDATED
        hot = min(side.size, found.dirty + HOT) if found.was_primary else found.dirty
        pair = self._side(i, metadata=dataclasses.replace(found, dirty=hot, current=bare(found.current)))
        pair = pair._change(i, has_crashed=found.has_crashed or found.was_primary)
        if is_alone:
            known = {"peer_disk": OUTDATED} if found.is_peer_outdated else {}
            return pair._change(i, disk=disk, effective=bare(found.current), **known)._role_bit(i)._marked()
        peer = self.sides[1 - i].device
        if peer is None or not peer.is_attached:
            return pair._change(i, disk=once_connected(disk))._role_bit(i)._tell(i)._marked()
        return pair._role_bit(i)._handshake(attaching=i, disk=disk)._marked()

    def detach(self, i: int) -> Pair:
        """Let the disk go; reads and writes go to the peer."""
        device, j = self._device(i), 1 - i
        if not device.is_attached:
            return self
        if device.role == PRIMARY and not (device.is_together and device.peer_disk == UP_TO_DATE):
            raise state_error(-2)
        peer = self.sides[j].device
        needed = peer is not None and device.is_together and peer.role == PRIMARY and peer.disk != UP_TO_DATE
        if needed:
            raise state_error(-10)
        return self._detached(i)

    def promote(self, i: int, *, force: bool = False) -> Pair:
        """Make a side primary."""
        device = self._device(i)
        if device.role == PRIMARY:
            return self
        reason = _why_not_primary(device)
        is_forced = reason == NO_DATA and force and RANKS[INCONSISTENT] <= RANKS[device.disk] < RANKS[UP_TO_DATE]
        if reason and not is_forced:
            raise state_error(reason)
        pair = self._change(i, role=PRIMARY, discards=False, **({"disk": UP_TO_DATE} if is_forced else {}))
        found = pair.sides[i].metadata
        if pair._device(i).is_attached and found is not None:
            alone = not device.is_together or device.peer_disk == DISKLESS
            pair = pair._new_current(i) if is_forced or (alone and not found.bitmap) else pair._role_bit(i)
        pair = pair._tell(i)
        if device.is_together and device.disk == DISKLESS:
            pair = pair._bump_without_peer_disk(1 - i)
        if is_forced and device.is_together and device.peer_disk == INCONSISTENT:
            pair = pair._handshake()
        return pair._marked()

    def demote(self, i: int) -> Pair:
        """Make a side secondary."""
        device = self._device(i)
        if device.role == SECONDARY:
            return self
        if device.opened_by:
            raise state_error(-12)
        return self._change(i, role=SECONDARY)._role_bit(i)._tell(i)._marked()

    def outdate(self, i: int) -> Pair:
        """Mark the data as old: only disconnected, and never on a primary. Connected, it changes nothing.

        Without an attached disk drbdadm does it in the metadata.
        """
        device = self.sides[i].device
        if device is None or not device.is_attached:
            if not self._metadata(i).is_consistent:
                raise Rejected("Device is inconsistent.", status=5)
            return self._store(i, was_up_to_date=False)
        if device.disk == INCONSISTENT:
            raise Rejected("", status=5)
        if device.is_together:
            return self
        if device.role == PRIMARY:
            raise Rejected("", status=17)
        return self._change(i, disk=OUTDATED)._marked()

    def invalidate(self, i: int) -> Pair:
        """Copy everything anew from the peer; standing alone, only remember that."""
        device = self._device(i)
        if not device.is_attached:
            raise failure(138, "Device does not have a disk-config")
        if device.connection == STANDALONE and device.role == SECONDARY:
            return self._change(i, disk=INCONSISTENT)._dirty(i, self.sides[i].size)._marked()
        if device.connection in SYNCING:
            raise state_error(-8)
        if not device.is_together:
            raise state_error(-15)
        if device.peer_disk != UP_TO_DATE:
            raise state_error(-2)
        return self._start(1 - i, is_full=True)._marked()

    def skip_resync(self, i: int) -> Pair:
        """Take the data of a new pair for equal (`new-current-uuid --clear-bitmap`)."""
        if not all(self._device(k).is_together and bare(self._metadata(k).current) == FRESH for k in (0, 1)):
            raise state_error(-15)
        current, pair = self._identifier(i), self
        for k in (0, 1):
            pair = pair._store(k, current=current, bitmap=0, dirty=0)
            pair = pair._change(k, disk=UP_TO_DATE, peer_disk=UP_TO_DATE)._role_bit(k)
        return pair._marked()

    def pause(self, i: int) -> Pair:
        """Hold a resync."""
        if self._device(i).is_paused:
            raise failure(134, "Sync-pause flag is already set")
        return self._change(i, is_paused=True)._paused()

    def resume(self, i: int) -> Pair:
        """Go on with a resync."""
        if not self._device(i).is_paused:
            raise failure(135, "Sync-pause flag is already cleared")
        return self._change(i, is_paused=False)._paused()

    def allow_two(self, i: int, *, allowed: bool) -> Pair:
        """Allow two primaries, or no longer; connected, the peer follows."""
        device = self._device(i)
        if device.connection == STANDALONE:
            raise failure(162, "Invalid configuration request additional info from kernel: unknown connection")
        if not allowed and device.role == device.peer_role == PRIMARY:
            raise failure(164, "Can not clear allow_two_primaries, currently a primary on both nodes")
        pair = self._change(i, two_primaries=allowed)
        return pair._change(1 - i, two_primaries=allowed) if device.is_together else pair

    def down(self, i: int) -> Pair:
        """Demote, disconnect, detach, and remove the device."""
        pair = self.demote(i)
        if pair._device(i).connection != STANDALONE:
            pair = pair.disconnect(i)
        return pair._side(i, device=None)

    # What happens to a side

    def lose_power(self, i: int) -> Pair:
        """The kernel of a side is gone, with all it kept in memory; what was stored stays."""
        device = self.sides[i].device
        if device is None:
            return self
        pair = self._parted(i, CONNECTING, CONNECTING) if device.is_together else self
        # What the side itself would have stored of the parting it did not live to store.
        return pair._side(i, device=None, metadata=self.sides[i].metadata)

    def cut(self) -> Pair:
        """The nodes reach each other no longer; both sides wait for their peer."""
        pair = dataclasses.replace(self, is_linked=False)
        first = self.sides[0].device
        return pair._parted(0, CONNECTING, CONNECTING) if first is not None and first.is_together else pair

    def link(self) -> Pair:
        """The nodes reach each other again."""
        return dataclasses.replace(self, is_linked=True).meet()

    def with_failed_disk(self, i: int, *, has_failed: bool) -> Pair:
        """The disk of a side gives I/O errors, or none any more; DRBD lets it go at the next write."""
        return self._side(i, has_failed=has_failed)

    # Instances

    def open(self, i: int, holder: str) -> Pair:
        """The device is opened for writing by an instance.

        Raises:
            Rejected: it is not primary, or its data cannot be reached.
        """
        device = self._device(i)
        if device.role != PRIMARY:
            raise Rejected("Wrong medium type: the device is not primary", status=1)
        if not device.may_write:
            raise Rejected("Input/output error", status=1)
        return self._change(i, opened_by=(*(opener for opener in device.opened_by if opener != holder), holder))

    def close(self, i: int, holder: str) -> Pair:
        """The device is closed by an instance, which writes no more."""
        device = self._device(i)
        writer = device.writer if device.writer and device.writer.instance != holder else None
        return self._change(
            i, opened_by=tuple(opener for opener in device.opened_by if opener != holder), writer=writer
        )

    def write_with(self, i: int, writer: Optional[Writer]) -> Pair:
        """An instance writes on a side from now on."""
        return self._change(i, writer=writer)

    # Writing

    def _written(self, i: int, now: int) -> Pair:
        device = self.sides[i].device
        if device is None or device.writer is None:
            return self
        writer = device.writer.at(now, moves=device.may_write)
        pair = self if writer is device.writer else self._change(i, writer=writer)
        count = writer.counter - device.writer.counter
        try:
            return pair.write(i, writer.run, writer.counter, blocks=count) if count else pair
        except Rejected:
            # Its last disk has failed: nothing was acknowledged since.
            return self.after_failed_write(i)._change(i, writer=device.writer.at(now, moves=False))

    def write(self, i: int, run: str, counter: int, *, blocks: int = 1) -> Pair:
        """Writes are acknowledged on a side: they are on its disk, and on the peer's while that takes them.

        Raises:
            Rejected: they fail.
        """
        if not self._device(i).may_write:
            raise Rejected("Input/output error", status=1)
        for k in (i, 1 - i):
            if self.sides[k].has_failed and self.sides[k].device is not None and self._device(k).is_attached:
                return self._detached(k).write(i, run, counter, blocks=blocks)
        device = self._device(i)
        sent = device.is_together and (device.peer_disk == UP_TO_DATE or device.connection in SYNCING)
        pair = self
        for k, is_on in ((i, device.is_attached), (1 - i, sent)):
            if is_on:
                pair = pair._side(k, content=pair.sides[k].content.written(run, counter))
        if not (device.is_attached and sent):
            where = i if device.is_attached else 1 - i
            before = self._metadata(where).dirty
            pair = pair._dirty(where, max(before, min(before + BLOCK * blocks, HOT, self.sides[where].size)))
        return pair

    def after_failed_write(self, i: int) -> Pair:
        """What a write that fails leaves: a faulty disk is let go."""
        device = self._device(i)
        return self._detached(i) if self.sides[i].has_failed and device.is_attached else self


def _why_not_primary(device: Device) -> int:
    """The kernel's reason against a promotion (`is_valid_state`), or 0."""
    own, peer = RANKS[device.disk], RANKS[device.peer_disk] if device.is_together else RANKS[DUNKNOWN]
    if device.is_together and device.peer_role == PRIMARY and not device.two_primaries:
        return -1
    return -2 if device.disk != UP_TO_DATE and (not device.is_together or max(own, peer) < RANKS[UP_TO_DATE]) else 0
