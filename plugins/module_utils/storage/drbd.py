"""The disk template `drbd`: a resource for each disk, on a volume for its data and a volume for its metadata.

What is done to a resource on this node follows from what it is asked to be and from how it stands. Its file is put in
place after its metadata are made: where there is a file, the metadata are never made anew. Nothing here decides which
of two replicas counts; that is for `plugin_utils/disks/drbd_repairs.py` and for people.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Dict, FrozenSet, List, NamedTuple, Optional

from ..domain.disks.drbd import Connection, Disk, Role, Side
from ..domain.values import errors
from . import drbd_progress, drbd_resource, drbd_roles, sights
from .disks import Disks, LocalDisk, State, Step
from .drbd_node import DrbdNode, is_together
from .volumes import Volume, Volumes

if TYPE_CHECKING:
    import pathlib

    from . import disks as asked
    from .programs import Runner

NINE = 9


class _Replica(NamedTuple):
    """A disk that is asked for, and the names of what it is made of; an adopted one has volumes of its own."""

    disk: asked.Disk
    resource: str
    data: str
    metadata: str
    file: pathlib.Path

    @property
    def is_ours(self) -> bool:
        return not self.disk.name


class _Look(NamedTuple):
    """How this node is."""

    sides: Dict[str, Side]
    volumes: Dict[str, Volume]
    two: FrozenSet[str]
    version: int


class Template:
    """The replicated disks of an instance, on the node with this root that calls itself `nodename`."""

    def __init__(self, disks: Disks, *, runner: Runner, root: pathlib.Path, node: DrbdNode, nodename: str) -> None:
        self._disks = disks
        self._runner = runner
        self._root = root
        self._node = node
        self._nodename = nodename
        self._volumes = Volumes(runner)
        self._roles = drbd_roles.Roles(runner, node)

    def steps(self, wanted: State) -> List[Step]:
        """As `Storage.steps`."""
        if wanted is State.INFO:
            return []
        if wanted is State.DISCONNECTED:
            # Nothing else is asked of the node: its volumes may be what it is replaced for.
            sides = self._sides()
            return [step for disk in self._named() for step in self._let_go(disk, sides.get(disk.resource))]
        look = self._look()
        return [step for replica in self._named() for step in self._steps_of(replica, wanted, look)]

    def local_disks(self) -> List[LocalDisk]:
        """As `Storage.local_disks`; a resource that is down has no replica that is equal."""
        sides, volumes, ages = self._sides(), self._volumes.found(), sights.ages(self._root)
        return [
            disk
            for replica in self._named()
            for disk in self._local_disks(
                replica, sides.get(replica.resource), volumes, seen=ages.get(replica.resource, {})
            )
        ]

    def _steps_of(self, replica: _Replica, wanted: State, look: _Look) -> List[Step]:
        side, may_be_two = look.sides.get(replica.resource), replica.resource in look.two
        if wanted is State.ABSENT:
            return self._gone(replica, side, look)
        if wanted is State.UP:
            is_idle = side is not None and side.role is not Role.PRIMARY
            reset = self._roles.standby(side, may_be_two=may_be_two) if is_idle else []
            return [*self._up_again(replica, side, look), *reset]
        if wanted is State.STANDBY:
            return [*self._up_again(replica, side, look), *self._roles.standby(side, may_be_two=may_be_two)]
        made = self._made(replica, wanted, look) if replica.is_ours else []
        steps = [*made, *self._connected(replica, side, look)]
        if wanted is State.PRESENT:
            return steps
        return [
            *steps,
            *self._roles.primary(
                replica.resource,
                side,
                wanted,
                may_be_two=may_be_two,
                alone=self._disks.alone,
                force=self._disks.force,
            ),
        ]

    def _made(self, replica: _Replica, wanted: State, look: _Look) -> List[Step]:
        """The volumes and their metadata; what is missing is made only for a replica that shall be present."""
        steps = []
        for name, size in (
            (replica.data, replica.disk.size),
            (replica.metadata, drbd_resource.metadata_size(replica.disk.size)),
        ):
            volume = look.volumes.get(name)
            if volume is None:
                steps.append(self._volumes.create(name, size))
            elif not volume.is_active:
                steps.append(self._volumes.activate(name))
        if not self._is_unmade(replica, look):
            return steps
        if wanted is not State.PRESENT:
            raise errors.Refused(f"{self._disks.instance} has no whole replica {replica.resource} on this node")
        if replica.resource in look.sides:
            raise errors.Refused(f"{replica.resource} is up without its volumes or its file: a person must look at it")
        if replica.file.exists():
            steps.insert(0, Step(f"remove {replica.file}, whose volumes are gone", replica.file.unlink))
        return [*steps, Step(f"make the metadata of {replica.resource}", lambda: self._create_metadata(replica))]

    def _up_again(self, replica: _Replica, side: Optional[Side], look: _Look) -> List[Step]:
        """Up where it is whole and down, as after a boot; one that does not come up may not run here either."""
        if side is not None or (replica.is_ours and self._is_unmade(replica, look)):
            return []
        names = [replica.data, replica.metadata] if replica.is_ours else []
        activated = [self._volumes.activate(name) for name in names if not look.volumes[name].is_active]
        return [*activated, Step(f"bring {replica.resource} up, if its disk allows", lambda: self._try_up(replica))]

    def _try_up(self, replica: _Replica) -> None:
        with contextlib.suppress(errors.Failed):
            self._node.adjust(replica.resource)

    def _is_unmade(self, replica: _Replica, look: _Look) -> bool:
        return not ({replica.data, replica.metadata} <= set(look.volumes) and replica.file.exists())

    def _is_unwritten(self, replica: _Replica, look: _Look) -> bool:
        """Whether the file is not what it shall be; without a peer it stays as it is."""
        if not replica.is_ours or (self._disks.peer is None and not self._is_unmade(replica, look)):
            return False
        return self._is_unmade(replica, look) or self._text(replica, look) != _text_of(replica.file)

    def _text(self, replica: _Replica, look: _Look) -> str:
        """What the file shall be; that of volumes that are gone says nothing any more."""
        return self._resource(replica, written="" if self._is_unmade(replica, look) else _text_of(replica.file)).text()

    def _connected(self, replica: _Replica, side: Optional[Side], look: _Look) -> List[Step]:
        """Up, with the peer that it shall have.

        What stands alone is connected: where the replicas have parted, DRBD refuses that itself.
        """
        steps: List[Step] = []
        is_new = self._is_unwritten(replica, look)
        if is_new:
            text = self._text(replica, look)
            peer = self._disks.peer.name if self._disks.peer else ""
            old = "" if self._is_unmade(replica, look) else drbd_resource.written_peer(_text_of(replica.file))
            if side is not None:
                if side.role is Role.PRIMARY or old != peer:
                    self._refuse_worthless(replica, side)
                if side.connection is not Connection.STANDALONE:
                    steps.append(self._drbdadm("disconnect", replica.resource))
            if side is not None and old not in {"", peer}:
                steps += self._roles.new_generation(side)
            if look.version >= NINE and old not in {"", peer}:
                # Under the number of a peer version 9 keeps what that one lacks, and a new peer takes the number.
                steps.append(
                    Step(f"forget {old} in {replica.resource}", lambda: self._node.forget_peers(replica.resource))
                )
            steps.append(Step(f"write {replica.file} with {peer} as peer", lambda: _replace(replica.file, text)))
        if is_new or side is None or side.connection is Connection.STANDALONE:
            steps.append(Step(f"adjust {replica.resource}", lambda: self._node.adjust(replica.resource)))
        return steps

    def _let_go(self, replica: _Replica, side: Optional[Side]) -> List[Step]:
        """Without its peer; what is down stays so."""
        if side is None or side.connection is Connection.STANDALONE:
            return []
        if side.role is Role.PRIMARY:
            raise errors.Refused(f"{replica.resource} is primary on this node: it keeps its peer")
        return [self._drbdadm("disconnect", replica.resource)]

    def _refuse_worthless(self, replica: _Replica, side: Side) -> None:
        """The old peer is let go only by a replica that has all data, or by one that never had any.

        A secondary in the middle of its resync may get another secret or address of the same peer, and goes on with it.
        """
        if all(volume.disk is Disk.UP_TO_DATE for volume in side.volumes) or self._roles.is_fresh(side):
            return
        states = ", ".join(volume.disk.value for volume in side.volumes)
        raise errors.Refused(f"{replica.resource} is {states} on this node: it keeps its peer until it is up to date")

    def _gone(self, replica: _Replica, side: Optional[Side], look: _Look) -> List[Step]:
        steps: List[Step] = []
        is_resource_ours = not replica.is_ours or drbd_resource.is_on(_text_of(replica.file), f"/dev/{replica.data}")
        if not is_resource_ours and replica.file.exists():
            # The resource is named after the instance: this one belongs to a namesake.
            side = None
        if side is not None and side.role is Role.PRIMARY:
            raise errors.Refused(f"{replica.resource} is primary on this node, where its instance may run")
        if not self._disks.last:
            self._refuse_last(replica, side, look)
        if side is not None:
            steps.append(
                Step(f"take {replica.resource} down", lambda: self._runner.run("drbdsetup", "down", replica.resource))
            )
        if replica.is_ours:
            # The file goes first: without it, what is left is no replica any more.
            steps += [Step(f"remove {replica.file}", replica.file.unlink)] if is_resource_ours else []
            steps += [self._volumes.remove(name) for name in (replica.data, replica.metadata) if name in look.volumes]
        return steps

    def _refuse_last(self, replica: _Replica, side: Optional[Side], look: _Look) -> None:
        """Keep a replica that may be the only one with all data: the peer must be known to be up to date."""
        if side is None:
            if replica.is_ours and not self._is_unmade(replica, look):
                raise errors.Refused(
                    f"{replica.resource} is down on this node: whether its peer is up to date is not known"
                )
            return
        has_peer = is_together(side)
        for volume in side.volumes:
            if volume.disk.is_gone or volume.disk is Disk.INCONSISTENT:
                continue
            if not has_peer or volume.peer_disk is not Disk.UP_TO_DATE:
                peer = volume.peer_disk.value if has_peer else "not connected"
                raise errors.Refused(
                    f"{replica.resource} is {volume.disk.value} on this node, and its peer is {peer}: it is kept"
                )

    def _local_disks(
        self,
        replica: _Replica,
        side: Optional[Side],
        volumes: Dict[str, Volume],
        *,
        seen: Dict[int, Dict[str, float]],
    ) -> List[LocalDisk]:
        found = volumes.get(replica.data) if replica.is_ours else None
        size = None if found is None else found.size
        written = _text_of(replica.file) if replica.is_ours else ""
        ids, peer = drbd_resource.written_ids(written), drbd_resource.written_peer(written)
        address = drbd_resource.written_peer_address(written)
        node_id = ids[0] if ids else None
        if side is None:
            if replica.is_ours and not replica.file.exists():
                # Its file goes first when it is removed: what is left is no replica any more.
                size = None
            path = (
                f"/dev/drbd{replica.disk.minor}"
                if replica.disk.minor is not None
                else f"/dev/drbd/by-res/{replica.resource}/0"
            )
            is_asked, down = self._disks.generations and size is not None, "is down on this node"
            return [
                LocalDisk(
                    path,
                    size,
                    is_synced=False,
                    progress=0.0,
                    text=down,
                    trouble=down,
                    node_id=node_id,
                    peer=peer,
                    peer_address=address,
                    seen=seen.get(0, {}),
                    generation=self._node.stored_generation(replica.resource) if is_asked else None,
                )
            ]
        return [
            LocalDisk(
                f"/dev/drbd{volume.minor}",
                size if replica.is_ours else replica.disk.size,
                is_synced=drbd_progress.is_settled(side, volume),
                progress=drbd_progress.percent(side, volume, size or replica.disk.size),
                text=f"{side.role.value}, {side.connection.value}, {volume.disk.value}/{volume.peer_disk.value}",
                trouble=drbd_progress.trouble(side, volume),
                node_id=node_id,
                role=side.role.value,
                disk=volume.disk.value,
                peer_disk=volume.peer_disk.value,
                is_connected=is_together(side),
                peer=peer,
                peer_address=address,
                seen=seen.get(volume.number, {}),
                generation=self._node.generation(side, volume) if self._disks.generations else None,
                out_of_sync=volume.out_of_sync,
            )
            for volume in side.volumes
        ]

    def _sides(self) -> Dict[str, Side]:
        """The resources of the instance that are up."""
        found, names = self._node.resources(), [replica.resource for replica in self._named()]
        return {name: side for name in names for side in [found.side(name)] if side is not None}

    def _look(self) -> _Look:
        version = self._node.load()
        sides = {name: side for name, side in self._sides().items() if side.volumes}
        return _Look(sides, self._volumes.found(), self._node.allowing_two(), version)

    def _named(self) -> List[_Replica]:
        disks, found = self._disks, []
        for number, disk in enumerate(disks.disks):
            name = drbd_resource.name(disks.instance, disks.uuid, number, adopted=disk.name)
            data, metadata = (f"{disks.vg}/{disks.own_name(number, kind)}" for kind in ("disk", "meta"))
            file = self._root / drbd_resource.FOLDER / f"roundsman-{name}.res"
            found.append(_Replica(disk, name, data, metadata, file))
        return found

    def _resource(self, replica: _Replica, *, written: str) -> drbd_resource.Resource:
        here, peer = self._disks.here, self._disks.peer
        if here is None or peer is None or replica.disk.minor is None:
            raise errors.InvalidInput(f"{replica.resource}: a replicated disk needs `here`, `peer` and its minor")
        is_nine = self._node.load() >= NINE
        return drbd_resource.Resource(
            name=replica.resource,
            instance=self._disks.instance,
            minor=replica.disk.minor,
            data=f"/dev/{replica.data}",
            metadata=f"/dev/{replica.metadata}",
            nodename=self._nodename,
            here=here,
            peer=peer,
            secret=self._secret(peer, written=written),
            node_ids=drbd_resource.node_ids(here, peer, written=written) if is_nine else None,
        )

    def _secret(self, peer: asked.End, *, written: str) -> str:
        """A pair keeps its secret: it would part while only one of its nodes has another."""
        is_known = drbd_resource.written_peer(written) == peer.name and not self._disks.new_secret
        return drbd_resource.written_secret(written) if is_known else self._disks.secret

    def _create_metadata(self, replica: _Replica) -> None:
        """With a file of its own, which goes: the resource's is put in place when its metadata are whole."""
        made = replica.file.with_name(replica.file.name + ".metadata")
        sights.forget(self._root, replica.resource)
        try:
            _replace(made, "global { usage-count no; }\n" + self._resource(replica, written="").text())
            self._runner.run("drbdadm", "--config-file", str(made), "create-md", "--force", replica.resource)
        finally:
            if made.exists():
                made.unlink()

    def _drbdadm(self, verb: str, resource: str) -> Step:
        return Step(f"{verb} {resource}", lambda: self._runner.run("drbdadm", verb, resource))


def _text_of(file: pathlib.Path) -> str:
    return file.read_text() if file.exists() else ""


def _replace(file: pathlib.Path, text: str) -> None:
    """Write a file that only root can read, whole or not at all."""
    made = file.with_name(file.name + ".new")
    try:
        file.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        descriptor = os.open(str(made), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        made.replace(file)
    except OSError as error:
        raise errors.StoreFailed(f"{file}: {error.strerror}") from error
