"""The action `failover_check`: decides whether an instance may be failed over; nothing is contacted."""

from __future__ import annotations

import dataclasses
import pathlib
import time
from typing import TYPE_CHECKING, Any

from ..module_utils.domain.values import errors
from ..plugin_utils import holding, libraries, log_output, module_answers, replica_evidence, whereabouts
from ..plugin_utils.cluster import known_off
from ..plugin_utils.disks import failovers, possible_loss
from ..plugin_utils.rounds import audit_lines

with libraries.optional():
    from ..plugin_utils.config import store

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..plugin_utils.cluster import cluster as clusters

UPTIME = pathlib.Path("/proc/uptime")
_SPEC = {
    "instance": {"type": "dict", "required": True},
    "source": {"type": "dict", "required": True},
    "target": {"type": "dict", "required": True},
    "replicated": {"type": "bool", "required": True},
    "ignore_consistency": {"type": "bool", "default": False},
    "stopped": {"type": "bool", "default": False},
    "was_in_sync": {"type": "bool", "default": False},
    "fenced": {"type": "str", "default": ""},
    "times": {"type": "dict", "default": {}},
    "known_off": {"type": "dict", "default": {}},
    "max_loss": {"type": "int", "default": -1},
    "unfinished": {"type": "bool", "default": False},
}


class ActionModule(module_answers.Action):
    """Judge what `instance_disks` and `instance_info` answered on the `source` and the `target` of a failover.

    Both are dicts of `name`, `disks` and, of the target, `guests`; a source without `disks` was not contacted. Returns
    the `objection`, '' for none, and what only the possible loss is against (`waits`), whether the target's replica may
    become primary without its peer (`alone`), what is promoted by force (`forced`, '' for nothing), whether both nodes
    said that the pair is `in_sync`, whether it runs on the target already (`adopts`), whether the source answered
    (`answers`), what may be lost (`loss`, `text`), and the command that ends its guest on a node (`end`).
    """

    _requires_connection = False
    _needs_libraries = True
    _VALID_ARGS = frozenset(_SPEC)

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        _validated, options = self.validate_argument_spec(argument_spec=_SPEC)
        escape = module_answers.shown
        name, source, target = str(options["instance"]["name"]), options["source"], options["target"]
        asked = failovers.Failover(
            instance=name,
            is_replicated=options["replicated"],
            source=(
                failovers.node(source["name"], name, disks=source["disks"], escape=escape)
                if source.get("disks")
                else None
            ),
            target=failovers.node(target["name"], name, disks=target["disks"], guests=target["guests"], escape=escape),
            ignore_consistency=options["ignore_consistency"],
            is_stopped=options["stopped"],
            is_off=bool(options["fenced"]),
            is_unfinished=options["unfinished"],
        )
        play = holding.current(task_vars)
        waits: dict[str, Any] = {}
        try:
            if failovers.is_silent(asked) and not failovers.adopts(asked) and asked.target.replicas is not None:
                cluster = store.read(play.where.config)
                asked = dataclasses.replace(asked, loss=_possible_loss(play, cluster, options, asked))
                waits = dict(failovers.waits(asked))
                if waits:
                    waits["basis"] = replica_evidence.basis(cluster, cluster.instance(options["instance"]["uuid"]))
        except errors.RoundsmanError as error:
            return {**result, "failed": True, "msg": str(error)}
        objection, loss = failovers.objection(asked), failovers.stated_loss(asked)
        text = failovers.announced_text(asked)
        if asked.is_off and not objection and text:
            _announce(play, options, text, loss)
        return {
            **result,
            "changed": False,
            "objection": objection,
            "waits": waits,
            "alone": failovers.may_be_alone(asked),
            "forced": failovers.forced_text(asked),
            "adopts": failovers.adopts(asked),
            "in_sync": failovers.is_in_sync(asked),
            "answers": asked.source_answers,
            "loss": loss,
            "text": text,
            "end": whereabouts.end_command(name, options["instance"]["hypervisor"]),
        }


def _announce(play: holding.Play, options: Mapping[str, Any], text: str, loss: Mapping[str, Any]) -> None:
    """State in the audit log what a failover may lose, right before the target may write."""
    line = audit_lines.failover(
        f"record {log_output.account()} play={play.name}: {text}",
        instance=str(options["instance"]["name"]),
        source=str(options["source"]["name"]),
        target=str(options["target"]["name"]),
        by=play.opcode or log_output.user(),
        seconds=loss["seconds"],
        accepted=_accepted(options),
        is_ignored=bool(loss["ignored"]),
    )
    log_output.append_audit(play.where, [line])


def _possible_loss(
    play: holding.Play, cluster: clusters.Cluster, options: Mapping[str, Any], asked: failovers.Failover
) -> possible_loss.Answer:
    """What becomes of the failover by the target's answer, and by what is on record and was reported by now."""
    source, target = (cluster.node(str(options[member]["name"])).uuid for member in ("source", "target"))
    known = replica_evidence.Files(play.where, cluster, now=time.time(), only=(source, target))
    return replica_evidence.judge(
        cluster,
        cluster.instance(str(options["instance"]["uuid"])),
        known,
        _answered(cluster, source, options, asked),
        source=source,
        target=target,
        accepted=_accepted(options),
    )


def _accepted(options: Mapping[str, Any]) -> int | None:
    return options["max_loss"] if options["max_loss"] >= 0 else None


def _answered(
    cluster: clusters.Cluster, source: str, options: Mapping[str, Any], asked: failovers.Failover
) -> replica_evidence.Answered:
    """What the target said, dated by the controller's clocks: by that of them which makes the loss larger."""
    uptime, node, wall = time.clock_gettime(time.CLOCK_BOOTTIME), cluster.nodes[source], time.time()
    # In a container the file that plays read may count from the container's start.
    behind = uptime - float(UPTIME.read_text().split()[0])
    times = {key: float(seconds) + behind for key, seconds in options["times"].items()}
    answered = times.get("asked", uptime)
    wall -= uptime - answered
    address = replica_evidence.replication_address(cluster, source)
    look = answered - times["look"] if options["was_in_sync"] else None
    since_off, stated_by = None, known_off.stated_by(node)
    if known_off.is_known_off(node) and not (stated_by and options["fenced"] == "bmc" and _accepted(options) is None):
        off, followed = known_off.seen_off(node), options["known_off"]
        since_off = wall - off
        if followed.get("at") == off:
            since_off = min(since_off, answered - followed["uptime"])
    elif "seen_off" in times:
        since_off, stated_by = answered - times["seen_off"], ""
    disks = [_disk(replica, address, look) for replica in asked.target.replicas or ()]
    return replica_evidence.Answered(
        wall,
        asked.target.uptime,
        tuple(disks),
        since_off,
        stated_by,
        # Another failover counts from the off on record, or from the one that it finds out itself.
        is_recorded=known_off.is_known_off(node),
    )


def _disk(replica: failovers.Replica, address: str, look: float | None) -> possible_loss.Disk:
    """One disk; `look` is how many seconds before both nodes answered in this failover that it is in sync."""
    current, bitmap, *ancestors = [*replica.generations, None, None][: max(2, len(replica.generations))]
    return possible_loss.Disk(
        text=replica.text,
        state=replica.disk,
        is_connected=replica.is_connected,
        age=replica.seen.get(address),
        answered=look,
        current=current,
        bitmap=bitmap,
        ancestors=tuple(one for one in ancestors if one is not None),
    )
