"""`python -m tests.golden.state_parts.making FOLDER`: make a controller's state folder as a killed daemon leaves it.

The folder in `recorded/state_folder/folder` was made by this program with the daemon that keeps its state in these
files, once: it is the input of the trace. A daemon that keeps its state in another way cannot make it again.

It calls a service on a lab's folder (`twins.assemble`), its API, its queue and its rounds, and the files of a real
opcode process. A kill is a queue that lets go of all jobs at once; what a kill may leave between two writes is made by
holding back the second write, or by putting the file of before in place.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import json
import logging
import os
import shutil
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible_collections.roundsman.cluster.daemon.jobs import process, task_log, values
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import tree
from ansible_collections.roundsman.cluster.plugins.plugin_utils import run_records, sealed_json
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import document, store

from tests.golden.faces_parts import adapter
from tests.golden.state_parts.starting import LAB, MADE
from tests.unit.daemon import twins

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest
    from ansible_collections.roundsman.cluster.daemon.lab import world

PAIRS = [
    *[("node1", "node2"), ("node2", "node3"), ("node3", "node1"), ("node4", "node1"), ("node3", "node4")],
    *[("node1", "node3"), ("node5", "node6"), ("node6", "node7"), ("node5", "node7"), ("node2", "node4")],
]
NOBODY = 4194305
"""A pid that no process has: Linux gives none above 4194304."""
OK = '{"status":"Ok"}'
EVACUATE = '{"status":"evacuate","details":"fan 2"}'
LARGE = json.dumps({"status": "evacuate", "details": {"dmesg": "ECC error; " * 400}})
FILTERS = [f"aaaaaaaa-0000-4000-8000-00000000000{number}" for number in range(1, 5)]
VERSIONS = 2
"""How many versions of the configuration are kept in the folder, for they are large."""


class Processes(twins.Processes):
    """The twin of opcode processes, which leaves the files of real ones beside its own."""

    def start(self, run: Path, spec: process.Spec) -> None:
        super().start(run, spec)
        found = Path("/usr/share/roundsman") / spec.playbook.relative_to(spec.playbook.parents[2])
        environment = {name: spec.environment[name] for name in ("ROUNDSMAN_ROOT", "ANSIBLE_GATHERING")}
        process.Processes._write(run, dataclasses.replace(spec, playbook=found, environment=environment))
        opcode = json.loads((run / "opcode.json").read_bytes())
        (run / "opcode.json").write_text(json.dumps({**opcode, "started": 1000.0}))
        (run / "output").touch()
        if (run / "began").exists():
            (run / "began").write_text(json.dumps({"pid": NOBODY, "time": MADE}))
            log = task_log.Writer(run)
            log.tell("started", host="localhost", task=f"Begin {spec.kind}")
            log.close()


class Maker:
    """The daemons that make the folder, one after the other."""

    lost: int
    ended: int
    canceled: int
    damaged: int
    never: int
    cut: int
    several: int
    held: int
    removed: int
    tagged: int

    def __init__(self, lab: world.Lab, patch: pytest.MonkeyPatch, clock: adapter.Clock) -> None:
        self._lab, self._patch, self._clock = lab, patch, clock
        self.where = tree.Tree(lab.controller)
        self.start({})

    def start(self, outcomes: dict[str, str]) -> None:
        """Start a daemon after the one before was stopped or killed."""
        self.service, self.twin = twins.assemble(self._lab, self._patch, outcomes=outcomes)
        self.daemon = adapter.Daemon(self._lab, self.service, self.twin, self._patch, self._clock)
        self.service.queue.resume()

    async def kill(self) -> None:
        """Let the daemon end with everything as it stands."""
        await self.service.queue.stop()

    def uuid(self, name: str) -> str:
        """The UUID of a node, a group or an instance."""
        known = adapter.named(json.loads(document.dump(self.service.configuration.current)))
        return next(uuid_ for uuid_, found in known.items() if found == name)

    async def submit(self, *opcodes: values.Opcode, after: Sequence[values.Dependency] = (), text: str = "") -> int:
        """Submit a job that the API offers no request for; returns its number."""
        (number,) = self.service.queue.reserve(1)
        reason = (values.Reason("gnt:user", text, int(self._clock.now * 1e9)),) if text else ()
        job = values.Job(number, opcodes, tuple(after), reason, received=self._clock.now)
        await self.service.queue.submit([job])
        return number

    def tags(self, name: str, *tags: str, **fields: Any) -> values.Opcode:
        """An opcode that gives an instance tags."""
        return values.Opcode("tags_set", {"of": "instance", "object": self.uuid(name), "tags": list(tags)}, **fields)

    def move(self, name: str) -> values.Opcode:
        """An opcode that migrates an instance to its secondary."""
        instance = self.service.configuration.current.instance(name)
        target = instance.secondary_nodes[0]
        return values.Opcode("migrate", {"instance": instance.uuid, "source": instance.primary_node, "target": target})

    async def ask(self, method: str, path: str, body: Any = None) -> int:
        """Ask for a job; returns its number."""
        found = await self.daemon.change(method, path, body)
        return int(found["id"] if isinstance(found, dict) else found)

    async def reach(self, number: int, status: str) -> int:
        """Wait until a job has a status; returns its number."""
        end = time.monotonic() + adapter.SECONDS
        while (found := (await self.daemon.statuses())[number]) != status:
            assert time.monotonic() < end, f"job {number} is {found}, not {status}"
            await asyncio.sleep(adapter.PAUSE)
        return number

    async def do(self, status: str, method: str, path: str, body: Any = None) -> int:
        """Ask for a job, and wait until it has a status; returns its number."""
        return await self.reach(await self.ask(method, path, body), status)

    def run(self, number: int, index: int = 0) -> Path:
        """The folder of a run."""
        return self.where.queue / str(number) / str(index)

    def damage(self, number: int, folder: str = "") -> None:
        """Cut off the end of a job's file."""
        path = self.where.queue / folder / str(number) / "job.json"
        path.write_bytes(path.read_bytes()[:-40])


def make(folder: Path) -> None:
    """Make the state folder."""
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory(prefix="state-") as temporary, adapter.frozen() as (patch, clock):
        clock.now = MADE - 86400
        numbers = iter(range(1, 1 << 31))
        # The UUIDs of a recording are others: they have no such end.
        patch.setattr(uuid, "uuid4", lambda: uuid.UUID(int=next(numbers) << 96 | 4 << 76 | 8 << 60 | 5))
        patch.setattr(twins, "Processes", Processes)
        patch.setattr(process, "end_run", adapter._never_ended)
        root = Path(temporary).resolve()
        lab = twins.lab(root, nodes=8, pairs=PAIRS)
        _edit(tree.Tree(lab.controller))
        asyncio.run(_make(lab, patch, clock))
        _keep(lab, folder)


async def _make(lab: world.Lab, patch: pytest.MonkeyPatch, clock: adapter.Clock) -> None:
    maker = Maker(lab, patch, clock)
    clock.now = MADE - 7200
    await _yesterday(maker)
    await maker.kill()
    maker.damage(5)
    clock.now = MADE - 3600
    maker.start({"migrate": "held", "startup": "held", "activate_disks": "held", "power": "held"})
    await _rounds(maker, clock)
    _thin(maker, {"inventory.json", "opcode.json", "granted.json", "output", "livelock"})
    clock.now = MADE - 300
    await _jobs(maker)
    clock.now = MADE - 60
    await _last_moment(maker)
    await maker.kill()
    _after_the_kill(maker)


async def _yesterday(maker: Maker) -> None:
    """Jobs 1 to 5 end: 1 and 2 are archived, and 5 will be damaged."""
    await maker.do("success", "PUT", "/2/nodes/node8/tags?tag=spare&reason=inventory")
    await maker.do("success", "PUT", "/2/instances/instance3/shutdown")
    await maker.daemon.change("PUT", "/2/jobs/1/archive")
    await maker.daemon.change("PUT", "/2/jobs/2/archive")
    maker.daemon.fail("verify_disks")
    await maker.do("error", "PUT", "/2/instances/instance5/verify-disks")
    await maker.do("success", "POST", "/2/groups", {"group_name": "empty"})
    await maker.do("success", "POST", "/2/instances/instance9/replace-disks", {"mode": "replace_new_secondary"})


async def _rounds(maker: Maker, clock: adapter.Clock) -> None:
    """Two rounds: one has repaired what a large report said, of the other a kill left one job in the queue."""
    for number in (1, 2, 3, 4, 7):
        maker.daemon.report(f"node{number}", OK)
    maker.daemon.report("node8", LARGE)
    await maker.daemon.rounds()
    await twins.jobs_end(maker.service)
    await maker.daemon.rounds()
    clock.now += 600
    maker.daemon.spool("node3-1.json", '{"neither":"signed"}')
    maker.daemon.report("node3", OK, age=-4000.0)
    maker.daemon.report("node2", OK, facts_lost=["instance10"])
    maker.daemon.report("node6", problem="no-diagnosis")
    note = {"node": "node8", "time": clock.now, "text": "Connection timed out"}
    maker.daemon.spool("node8-1.unreachable", json.dumps(note))
    await maker.daemon.rounds()


async def _jobs(maker: Maker) -> None:
    """Jobs at work of every kind, and jobs that wait for them."""
    rules = [
        {"predicates": [["opcode", ["=", "OP_ID", "OP_CLUSTER_VERIFY"]]], "action": "PAUSE", "priority": 5},
        {"predicates": [["reason", ["=~", "reason", "night"]]], "action": "REJECT"},
        {"predicates": [["opcode", ["=", "OP_ID", "OP_TAGS_SET"]]], "action": ["RATE_LIMIT", 1], "priority": 9},
        {"predicates": [["jobid", [">", "id", "watermark"]]], "action": "CONTINUE", "priority": 1},
    ]
    maker.removed = await maker.do("success", "DELETE", "/2/groups/empty")
    maker.tagged = await maker.do("success", "PUT", "/2/nodes/node7/tags?tag=twice")
    for name, rule in zip(FILTERS, rules, strict=True):
        await maker.daemon.change("PUT", f"/2/filters/{name}", rule)
    maker.lost, maker.ended, maker.canceled, maker.damaged = [
        await maker.do("running", "PUT", f"/2/instances/instance{number}/migrate", {"priority": 10})
        for number in (1, 2, 4, 6)
    ]
    maker.never = await maker.do("running", "PUT", "/2/instances/instance3/startup?reason=after the move")
    maker.cut = await maker.do("running", "PUT", "/2/instances/instance5/activate-disks")
    await maker.do("running", "PUT", "/2/nodes/node8/power", {"command": "off"})
    maker.several = await maker.submit(
        maker.tags("instance9", "first"), maker.move("instance9"), maker.tags("instance9", "last")
    )
    await maker.reach(maker.several, "running")
    await maker.daemon.change("DELETE", f"/2/jobs/{maker.canceled}?kill=0")
    waiting = await maker.do("waiting", "PUT", "/2/instances/instance1/shutdown")
    await maker.daemon.change("PUT", f"/2/jobs/{waiting}/priority", {"priority": -10})
    await maker.submit(maker.tags("instance2", "dry", dry_run=True))
    maker.held = await maker.do("queued", "PUT", "/2/verify")
    await maker.do("canceled", "PUT", "/2/instances/instance2/tags?tag=x&reason=night shift")
    # Each is about another instance: which of them is first is not said.
    for index, number in enumerate((1, maker.lost, maker.ended, maker.canceled, maker.damaged, maker.held), start=3):
        opcode = maker.tags(f"instance{index}", f"after-{number}")
        await maker.submit(opcode, after=[values.Dependency(number)], text="follow-up")
    await maker.submit(
        maker.tags("instance1", "whatever-became"), after=[values.Dependency(maker.lost, ())], text="follow-up"
    )
    old = maker.tags("instance10", "aged", priority=7, aged=3)
    depends = [values.Dependency(maker.never), values.Dependency(maker.cut, (values.Status.ERROR,))]
    await maker.submit(old, after=depends)
    unwanted = await maker.submit(maker.tags("instance10", "unwanted"), after=[values.Dependency(maker.never)])
    await maker.daemon.change("DELETE", f"/2/jobs/{unwanted}")


async def _last_moment(maker: Maker) -> None:
    """A round of which only the first job is in the queue, a plan whose jobs are not, reports in the spool."""
    submit = maker.service.queue.submit

    async def hang(jobs: Sequence[values.Job]) -> list[values.Job]:
        if jobs[0].id:
            await asyncio.Event().wait()
        return await submit(jobs)

    def break_off(jobs: Sequence[values.Job]) -> None:
        maker.service.queue._ports.store.save(jobs[0])
        folder = maker.where.queue / str(jobs[1].id)
        folder.mkdir()
        (folder / f".job.json.{NOBODY}.new").write_text('{"checksum": "sha256:0123')
        raise _KilledError

    maker.service.queue.submit = hang  # type: ignore[method-assign]
    await maker.do("running", "POST", "/2/nodes/node4/evacuate", {"mode": "secondary-only"})
    maker.daemon.report("node5", EVACUATE)
    maker.service.queue.submit = break_off  # type: ignore[assignment, method-assign]
    with contextlib.suppress(_KilledError):
        await maker.daemon.rounds()
    await maker.daemon.change("PUT", "/2/pause", {"reason": "the switch of rack 1 is being replaced"})
    maker.daemon.report("node1", OK)
    maker.daemon.spool("node2-9.json", '{"cut o')


class _KilledError(Exception):
    """The daemon ends here."""


def _after_the_kill(maker: Maker) -> None:
    """Put what only a kill at the right moment leaves."""
    for number in (maker.lost, maker.damaged):
        _record(maker, number)
        with (maker.run(number) / "changes.jsonl").open("a") as lines:
            lines.write('{"checksum": "sha256:0123')
    for number in (maker.ended, maker.several):
        maker.twin.finish(maker.run(number, int(number == maker.several)))
    maker.twin.finish(maker.run(maker.cut))
    result = maker.run(maker.cut) / "result.json"
    result.write_bytes(result.read_bytes()[:-9])
    for name in ("began", "tasks.jsonl"):
        (maker.run(maker.never) / name).unlink()
    _thin(maker, {"inventory.json", "granted.json", "output"}, but=maker.lost)
    maker.damage(maker.damaged)
    maker.damage(2, "archive/0")
    # Committed, and the end not yet written: a removal, and a change that is harmless if it is made twice.
    for number, status in ((maker.removed, values.Status.RUNNING), (maker.tagged, values.Status.QUEUED)):
        job = maker.service.queue.jobs[number]
        opcode = dataclasses.replace(job.opcodes[0], status=status, ended=0.0, text="", result=None)
        maker.service.queue._ports.store.save(dataclasses.replace(job, opcodes=(opcode,), ended=0.0))
    round_file = maker.where.rounds / "1.json"
    round_file.write_bytes(round_file.read_bytes().replace(b"evacuating", b"evacuated.", 1))
    report = maker.where.reports / f"{maker.uuid('node7')}.json"
    report.write_bytes(report.read_bytes()[:-20])
    descriptor = store.open_lock(maker.where)
    store.sign_lock(descriptor, f"roundsmand, pid {NOBODY}")
    os.close(descriptor)
    end = {"boot": "00000000-0000-4000-8000-000000000000", "moment": 1000.0, "text": "an end of another boot"}
    maker.where.run.mkdir(parents=True, exist_ok=True)
    maker.where.abnormal_ends.write_text(json.dumps([end, end, end]))
    _hold(maker)


def _thin(maker: Maker, names: set[str], *, but: int = 0) -> None:
    """Remove files of runs that nothing asks for, for they are many: those that only the opcode's process reads."""
    for path in maker.where.queue.rglob("[0-9]*/[0-9]/*"):
        if path.name in names and path.parent.parent.name != str(but):
            path.unlink()


def _record(maker: Maker, number: int) -> None:
    """Let a run record that it has moved its instance; nothing follows."""
    variables = maker.twin.specs[maker.run(number)].variables
    moved = {"change": "instance_nodes", "instance": variables["instance"]["uuid"]}
    target, others = variables["instance_target"]["uuid"], variables["instance_secondaries"]
    run_records.append(maker.run(number), {**moved, "primary": target, "secondaries": others})


def _hold(maker: Maker) -> None:
    """Let a play by hand hold locks, which has ended, and the job that is held now, which waited for its slot."""
    held = json.loads(sealed_json.unseal(maker.where.locks.read_bytes()))["held"]
    livelock = str(maker.where.livelocks / "evacuate-1")
    wanted = {f"node/{maker.uuid('node8')}": "shared"}
    held.append(
        {"owner": "evacuate", "livelock": livelock, "purpose": "evacuate", "since": MADE - 400, "locks": wanted}
    )
    wanted = {f"instance/{maker.uuid('instance10')}": "exclusive"}
    row = {"owner": f"job {maker.held}", "livelock": "", "purpose": "cluster_verify", "since": MADE - 300}
    held.append({**row, "locks": wanted})
    maker.where.locks.write_bytes(sealed_json.seal(json.dumps({"held": held}, indent=1).encode()))


def _edit(where: tree.Tree) -> None:
    """Give the configuration what no job of this script makes."""
    content = json.loads(document.dump(store.read(where.config)))
    nodes = {node["name"]: node for node in content["nodes"].values()}
    instances = {instance["name"]: instance for instance in content["instances"].values()}
    content["cluster"] |= {"cluster_name": "kept", "tags": ["prod"]}
    nodes["node1"] |= {"primary_ip": "192.0.2.1", "tags": ["rack:1"]}
    instances["instance10"]["hvparams"] = {"vnc_password": "made-up"}
    content["maintenance"]["incidents"] = [_failed(nodes["node7"]["uuid"])]
    left = {**instances["instance7"], "primary_node": nodes["node5"]["uuid"]}
    content["maintenance"]["left_behind"] = [
        {
            "node": nodes["node8"]["uuid"],
            "instance": {**left, "secondary_nodes": [nodes["node8"]["uuid"]]},
            "since": MADE - 90000,
            "is_new": False,
            "generations": [],
        }
    ]
    store.write(where.config, document.load(json.dumps(content).encode()))


def _failed(node: str) -> dict[str, Any]:
    return {
        "uuid": "bbbbbbbb-0000-4000-8000-000000000001",
        "node": node,
        "original": '{"status":"evacuate","details":"fan 1"}',
        "action": "evacuate",
        "repair_status": "failed",
        "tag": "maintd:repairfailed:bbbbbbbb-0000-4000-8000-000000000001",
        "ctime": MADE - 95000,
        "mtime": MADE - 94000,
        "command": None,
        "jobs": [],
        "reason": "instance8 has no room anywhere",
        "serial_no": 3,
        "power_jobs": [],
        "digest": "",
    }


def _keep(lab: world.Lab, folder: Path) -> None:
    """Copy the state without what is of this machine."""
    where = tree.Tree(lab.controller)
    versions = sorted((where.lib / "config.history").iterdir(), key=lambda path: int(path.stem))
    for path in versions[:-VERSIONS]:
        path.unlink()
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(where.lib, folder / "var/lib/roundsman")
    for path in folder.rglob("*"):
        if path.is_file():
            path.write_bytes(_of_nowhere(path.read_bytes(), str(lab.folder)))


def _of_nowhere(data: bytes, root: str) -> bytes:
    """The content of a file with the root of no machine; a sealed one is sealed again."""
    is_sealed = False
    with contextlib.suppress(Exception):
        data, is_sealed = sealed_json.unseal(data), True
    data = data.replace(root.encode(), LAB.encode()).replace(sys.executable.encode(), b"/usr/bin/python3")
    return sealed_json.seal(data) if is_sealed else data


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.golden.state_parts.making", description=__doc__)
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="where the state folder is made")
    make(parser.parse_args().folder)
