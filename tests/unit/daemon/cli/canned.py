"""What a daemon would answer for a small cluster in trouble, made by the daemon's own views."""

from __future__ import annotations

import dataclasses
import math
import time
import types
from typing import Any

import orjson
from ansible_collections.roundsman.cluster.daemon import failures
from ansible_collections.roundsman.cluster.daemon.api import explanations, page, snapshots, views
from ansible_collections.roundsman.cluster.daemon.jobs import values
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent import diagnosis, reports
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import incidents
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.plan import Refusal
from ansible_collections.roundsman.cluster.plugins.plugin_utils.rounds import rounds, work

from tests.unit.plugins.plugin_utils.rounds import tables

BROKEN = "3f2a91c0-1111-4222-8333-444455556666"
MENDED = "77be01d4-1111-4222-8333-444455556666"
LOST = "c0ffee00-1111-4222-8333-444455556666"
TABLE = f"""
    node1 16384 100000 oob
    node2 16384 100000 oob drained
    node3 16384 100000 oob offline unpowered
    node4 16384 100000 group=b
    node5 16384 100000 group=b
    node6 16384 100000 group=b oob
    instance1 drbd 4096 10240 node2 node1
    instance2 drbd 2048 10240 node1 node2
    instance3 plain 2048 10240 node5
    instance4 drbd 1024 10240 node4 node6
    incident {BROKEN} node2 evacuate pending 100
    incident {MENDED} node3 evacuate-failover completed 100
    incident {LOST} node5 live-repair failed 100
"""
ORIGINAL = '{"status":"evacuate","details":"fan 3 stands still","serial":12345678901234567890,"load":0.10}'
HOSTILE = '{"status":"live-repair","details":"<script>alert(1)</script><img src=x onerror=alert(2)>"}'
RUNNING, WAITING, ENDED = 11, 12, 10


def service(*, at_work: bool = True, name: str = "north") -> Any:
    """Stands in for the running daemon's parts, as far as the page and the views look at them."""
    cluster = _cluster(name, at_work=at_work)
    plan = rounds.RoundPlan(jobs=_drafts(), refusals=_refusals(), notes=("the loss of node1",))
    return types.SimpleNamespace(
        configuration=types.SimpleNamespace(current=cluster),
        intake=_intake(cluster),
        copying=types.SimpleNamespace(listed=list),
        dead=types.SimpleNamespace(verdicts={}),
        rounds=types.SimpleNamespace(is_at_work=at_work, preview=lambda: plan),
        queue=types.SimpleNamespace(jobs={one.id: one for one in jobs()}),
        read_only=types.SimpleNamespace(reason=""),
        failures=failures.Failures(clock=lambda: 100.0),
        poll=types.SimpleNamespace(problem="the playbook diagnose.yml has no hosts"),
    )


def snapshots_of(service: Any) -> snapshots.Snapshots:
    """What serves the lists of such a daemon."""
    return snapshots.Snapshots(lambda: service.configuration.current)


def answers(*, at_work: bool = True) -> dict[tuple[str, str], bytes]:
    """The answers to every GET of the command line, by method and path."""
    parts = service(at_work=at_work)
    cluster, preview = parts.configuration.current, parts.rounds.preview()
    told = [views.job(one) for one in jobs()]
    found: dict[str, Any] = {
        "/1/page": page.state(parts, snapshots_of(parts)),
        "/1/status": views.status(cluster),
        "/1/nodes": views.nodes(snapshots.Snapshot(cluster), parts.intake),
        "/1/instances": views.instances(snapshots_of(parts), parts.intake),
        "/1/plan": views.plan(cluster, preview, is_at_work=at_work),
        "/1/jobs": [views.public_job(one) for one in jobs()],
        "/1/rounds": [
            _round(3),
            {"round": 2, "started": None, "plan": None, "jobs": [], "problem": "2.json is damaged"},
        ],
        **{f"/1/rounds/{number}": {**_round(number), "names": jobs()[1].names} for number in (1, 3)},
        **{f"/2/incidents/{entry.uuid}": views.incident(cluster, entry) for entry in cluster.maintenance.incidents},
        "/2/jobs": told,
        **{f"/2/jobs/{one['id']}": one for one in told},
        **{
            f"/1/explain/{one.name}": explanations.explain(
                cluster, one.name, intake=parts.intake, queue=parts.queue, preview=preview
            )
            for one in cluster.nodes.values()
        },
    }
    return {("GET", path): orjson.dumps(value) for path, value in found.items()}


def _round(number: int) -> dict[str, Any]:
    plan = rounds.RoundPlan(jobs=_drafts(), refusals=_refusals(), completed=(MENDED,), failed=((LOST, "job 7 failed"),))
    told = dataclasses.asdict(plan)
    return {"round": number, "started": 100.0, "plan": told, "jobs": [RUNNING, 9], "problem": None}


def jobs() -> list[values.Job]:
    """A drain that is done, a migration at work, and the farewell that waits for it."""
    return [
        _job(ENDED, ("node_role", {"node": "u-node2", "drained": True}), status=values.Status.SUCCESS),
        _job(
            RUNNING,
            ("migrate", {"instance": "u-instance1", "source": "u-node2", "target": "u-node1"}),
            status=values.Status.RUNNING,
            after=ENDED,
        ),
        _job(WAITING, ("node_role", {"node": "u-node2", "offline": True}), after=RUNNING),
    ]


def job(number: int, kind: str, params: dict[str, Any], *, status: values.Status, text: str = "") -> dict[str, Any]:
    """One job as the daemon tells it."""
    made = _job(number, (kind, params), status=status)
    ended = dataclasses.replace(made.opcodes[0], text=text)
    return views.job(dataclasses.replace(made, opcodes=(ended,)))


def _job(
    number: int,
    step: tuple[str, dict[str, Any]],
    *,
    status: values.Status = values.Status.QUEUED,
    after: int | None = None,
) -> values.Job:
    return values.Job(
        id=number,
        opcodes=(values.Opcode(*step, status=status, started=100.0),),
        depends=() if after is None else (values.Dependency(after),),
        reason=(values.Reason("gnt:daemon:maintd", "evacuating node2", 1),),
        received=100.0,
        names={one: one.removeprefix("u-") for one in step[1].values() if isinstance(one, str)},
    )


def _cluster(name: str, *, at_work: bool) -> clusters.Cluster:
    made = tables.read(TABLE)
    broken, mended, lost = made.maintenance.incidents
    broken = dataclasses.replace(broken, jobs=(10, 11, 12), original=ORIGINAL, ctime=time.time() - 300)
    lost = dataclasses.replace(
        lost,
        original=HOSTILE,
        jobs=(7,),
        reason="job 7: the repair command failed",
        tag=incidents.FAILED_TAG + LOST,
    )
    nodes = {
        **made.nodes,
        "u-node3": dataclasses.replace(made.nodes["u-node3"], tags=(mended.tag,)),
        "u-node5": dataclasses.replace(made.nodes["u-node5"], tags=(lost.tag,)),
    }
    maintenance = dataclasses.replace(
        made.maintenance, incidents=(broken, mended, lost), round=3, jobs=(10, 11, 12) if at_work else ()
    )
    parameters = dataclasses.replace(made.cluster, cluster_name=name, master_node="u-node1")
    return dataclasses.replace(made, cluster=parameters, nodes=nodes, maintenance=maintenance)


def _intake(cluster: clusters.Cluster) -> Any:
    said = {
        "u-node1": diagnosis.OK,
        "u-node2": diagnosis.parse(ORIGINAL),
        "u-node5": diagnosis.parse(HOSTILE),
    }
    problem = reports.Problem("missing", "the diagnose command is not there")
    return types.SimpleNamespace(
        tracks={},
        seen={},
        diagnosed={
            uuid: types.SimpleNamespace(report=reports.Report(uuid, 1, one, None), accepted=100.0)
            for uuid, one in said.items()
            if uuid in cluster.nodes
        },
        problem_of=lambda uuid: problem if uuid == "u-node4" else None,
        age=lambda uuid: 30.0 if uuid in {*said, "u-node4"} else None,
        age_limit=240.0,
        serves_for=math.inf,
        is_current=lambda _uuid: True,
        unreachable={"node6": {"time": 100.0, "text": "connection refused"}},
        is_silent=lambda _uuid: False,
        rejections={"replayed": 2, "unsigned": 1},
        refused={},
        rejected={},
        last=lambda _uuid: None,
        now=types.SimpleNamespace(wall=100.0),
        diagnosed_by=lambda _uuid: None,
        ahead=lambda _uuid: 0.0,
    )


def _drafts() -> tuple[work.Job, ...]:
    move = work.Opcode("migrate", {"instance": "u-instance1", "source": "u-node2", "target": "u-node1"})
    leave = work.Opcode("node_role", {"node": "u-node2", "offline": True})
    return (
        work.Job("move:instance1", (move,), after=(), incident=BROKEN, reason="moving instance1 away"),
        work.Job("offline:node2", (leave,), after=("move:instance1",), incident=BROKEN, reason="node2 is empty"),
    )


def _refusals() -> tuple[Refusal, ...]:
    return (Refusal("instance2", "node1 has no room", "1024 MiB on node1", incident=BROKEN, permanent=False),)
