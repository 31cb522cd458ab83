"""A DRBD pair on the simulated disks of a lab, as sequences drive it: its programs are asked as the guests' are."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ansible_collections.roundsman.cluster.daemon.lab.simulator import (
    simulated_node,
    simulated_replica,
    simulated_store,
    simulated_world,
)
from ansible_collections.roundsman.cluster.daemon.lab.simulator.simulated_programs import SimulatedPrograms
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.module_utils.storage import (
    disks,
    drbd_node,
    drbd_resource,
    drbd_status,
)

from . import playing

if TYPE_CHECKING:
    from pathlib import Path

    from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks.drbd import Generation

MINOR, SIZE = 7, 8
DATA, METADATA = "vg/sequence.data", "vg/sequence.meta"
HOUR = 3600 * simulated_replica.SECOND


class Simulated:
    """A healthy pair whose primary is node1, below the folder `nodes`; its clock goes when it is looked at."""

    def __init__(self, nodes: Path) -> None:
        self.nodes = nodes
        self.now = 1
        for node in playing.NODES:
            (nodes / node / "lab").mkdir(parents=True)
            self._make(node)
        for node in playing.NODES:
            self.run(node, "drbdadm", "adjust", playing.RESOURCE)
        self.run("node1", "drbdadm", "new-current-uuid", "--clear-bitmap", f"{playing.RESOURCE}/0")
        self.run("node1", "drbdadm", "primary", playing.RESOURCE)

    def run(self, node: str, *command: str) -> str:
        return SimulatedPrograms(self.nodes / node, clock=lambda: self.now).run(*command)

    def drbdadm(self, node: str, *arguments: str) -> str:
        if arguments[0] == "create-md":
            self._create_metadata(node)
            return playing.DONE
        try:
            self.run(node, "drbdadm", *arguments, playing.RESOURCE)
        except errors.Failed as error:
            classes = re.findall(r"(?:Failure|failed): \((-?\d+)\)", str(error))
            refusal = error.__cause__
        else:
            return playing.DONE
        assert isinstance(refusal, simulated_replica.Rejected)
        return f"exit {refusal.status}" + (f" ({classes[-1]})" if classes else "")

    def write(self, node: str, number: int) -> str:
        with simulated_store.opened(self.nodes, now=self.now) as store:
            pair = store.pair(node, playing.RESOURCE)
            try:
                after = pair.write(0, str(number), number)
                outcome = playing.DONE
            except simulated_replica.Rejected:
                after, outcome = pair.after_failed_write(0), playing.FAILED
            if after != pair:
                store.keep(node, playing.RESOURCE, after)
        return outcome

    def act(self, node: str, deed: str) -> str:
        root = self.nodes / node
        if deed == "power-off":
            (root / simulated_node.OFF).touch()
            simulated_world.lose_power(root, now=self.now)
        elif deed == "boot":
            self._boot(node)
        elif deed == "reboot":
            self.run(node, "drbdadm", "down", playing.RESOURCE)
            simulated_world.lose_power(root, now=self.now)
            self._boot(node)
        elif deed in {"lose-disk", "return-disk"}:
            simulated_node.set_fault(root, "disks/sequence", "lost" if deed == "lose-disk" else "")
            simulated_world.settle(root, now=self.now)
        else:
            raise AssertionError(deed)
        return playing.DONE

    def set_link(self, *, is_cut: bool) -> None:
        simulated_node.set_fault(self.nodes / "node2", "links/node1", "cut" if is_cut else "")
        simulated_world.settle(self.nodes / "node1", now=self.now)

    def set_resync(self, *, is_slow: bool) -> None:
        for node in playing.NODES:
            simulated_world.set_resync_speed(self.nodes / node, 0 if is_slow else None, now=self.now)

    def settled(self) -> dict[str, playing.Replica]:
        self.now += HOUR
        return {node: self._replica(node) for node in playing.NODES}

    def _replica(self, node: str) -> playing.Replica:
        root = self.nodes / node
        if not simulated_node.is_on(root):
            return playing.Replica(is_on=False)
        status = self.run(node, "drbdsetup", "status", "--verbose", "--statistics")
        sides = drbd_status.of_text(status, (root / drbd_node.PROC).read_text()).sides
        generation: Generation | None = None
        try:
            generation = drbd_status.generation(self.run(node, "drbdadm", "get-gi", f"{playing.RESOURCE}/0"))
        except errors.Failed:
            generation = None
        with simulated_store.opened(self.nodes, now=self.now) as store:
            found = store.pair(node, playing.RESOURCE).sides[0]
        writes = None if found.has_failed else tuple(sorted(int(run) for run, _ in found.content.runs))
        side = next((side for side in sides if side.resource == playing.RESOURCE), None)
        return playing.Replica(is_on=True, side=side, generation=generation, writes=writes)

    def _boot(self, node: str) -> None:
        root = self.nodes / node
        simulated_node.new_boot(root)
        (root / simulated_node.OFF).unlink(missing_ok=True)
        self.run(node, "modprobe", "drbd")

    def _make(self, node: str) -> None:
        simulated_node.new_boot(self.nodes / node)
        self.run(node, "modprobe", "drbd")
        for name, size in ((DATA, SIZE), (METADATA, 4)):
            self.run(node, "lvcreate", "--size", f"{size}m", "--name", name.partition("/")[2], "vg")
        here, peer = (disks.End(name, "192.0.2.1") for name in sorted(playing.NODES, key=lambda one: one != node))
        resource = drbd_resource.Resource(
            playing.RESOURCE, "sequence", MINOR, f"/dev/{DATA}", f"/dev/{METADATA}", here.name, here, peer
        )
        path = self.nodes / node / drbd_resource.FOLDER / f"roundsman-{playing.RESOURCE}.res"
        path.parent.mkdir(parents=True)
        path.write_text(resource.text())
        self._create_metadata(node)

    def _create_metadata(self, node: str) -> None:
        self.run(node, "drbdadm", "create-md", "--force", playing.RESOURCE)
