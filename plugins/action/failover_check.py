"""The action `failover_check`: decides whether an instance may be failed over; nothing is contacted."""

from __future__ import annotations

import time
from typing import Any

from ..module_utils.domain import errors, failovers
from ..plugin_utils import holding, libraries, module_answers, replica_evidence

with libraries.optional():
    from ..plugin_utils.config import store

_SPEC = {
    "instance": {"type": "dict", "required": True},
    "source": {"type": "dict", "required": True},
    "target": {"type": "dict", "required": True},
    "replicated": {"type": "bool", "required": True},
    "judged": {"type": "bool", "default": False},
    "parted_since": {"type": "float", "default": 0},
    "ignore_consistency": {"type": "bool", "default": False},
    "stopped": {"type": "bool", "default": False},
    "answered": {"type": "bool", "default": False},
    "was_in_sync": {"type": "bool", "default": False},
    "times": {"type": "dict", "default": {}},
    "interval": {"type": "float", "default": 0},
}


class ActionModule(module_answers.Action):
    """Judge what `instance_disks` and `instance_info` answered on the `source` and the `target` of a failover.

    Both are dicts of `name`, `disks` and, of the target, `guests`; a source without `disks` was not contacted. Returns
    the `objection`, '' for none, whether the target's replica may become primary without its peer (`alone`),
    what is promoted by force (`forced`, '' for nothing), whether both nodes said that the pair is `in_sync`, whether
    the source answered (`answers`), and what may be lost (`loss`).
    """

    _requires_connection = False
    _needs_libraries = True
    _VALID_ARGS = frozenset(_SPEC)

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        _validated, options = self.validate_argument_spec(argument_spec=_SPEC)
        escape = module_answers.shown
        times = {key: float(seconds) for key, seconds in options["times"].items()}
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
            is_judged=options["judged"],
            against=_against(options, times, task_vars) if options["judged"] else "",
            ignore_consistency=options["ignore_consistency"],
            is_stopped=options["stopped"],
            last_answer=_last_answer(options, times, task_vars) if options["answered"] else None,
        )
        at = {key: time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + seconds for key, seconds in times.items()}
        last_in_sync = at.get("look", 0.0) if options["was_in_sync"] else 0.0
        return {
            **result,
            "changed": False,
            "objection": failovers.objection(asked),
            "alone": failovers.may_be_alone(asked),
            "forced": failovers.forced_text(asked),
            "in_sync": failovers.is_in_sync(asked),
            "answers": asked.source_answers,
            "loss": failovers.stated_loss(asked, last_in_sync=last_in_sync, seen_off=at.get("seen_off", 0.0)),
        }


def _last_answer(
    options: dict[str, Any], times: dict[str, float], task_vars: dict[str, Any] | None
) -> failovers.LastAnswer:
    return failovers.LastAnswer(
        was_in_sync=options["was_in_sync"],
        age=times.get("silent", float("inf")) - times.get("look", 0.0),
        interval=options["interval"],
        is_parted=_is_parted(str(options["instance"]["uuid"]), task_vars),
    )


def _against(options: dict[str, Any], times: dict[str, float], task_vars: dict[str, Any] | None) -> str:
    """Why the verdict on the target's replica does not stand any more, or ''; so it counts where nobody can tell.

    By hand the verdict may be as old as the steps before this one, so before the stop it is found again.
    """
    play = holding.current(task_vars)
    try:
        cluster = store.read(play.where.config)
        instance = cluster.instance(str(options["instance"]["uuid"]))
        if instance.parted is not None and instance.parted.since != options["parted_since"]:
            return f"meanwhile {replica_evidence.parted_text(cluster, instance)}"
        if play.run is not None or times:
            return ""
        files = replica_evidence.Files(play.where, cluster, now=time.time())
        source, target = (cluster.node(str(options[member]["name"])).uuid for member in ("source", "target"))
        return replica_evidence.judge(cluster, instance, files, source=source, target=target).reason
    except errors.RoundsmanError as error:
        return str(error)


def _is_parted(instance: str, task_vars: dict[str, Any] | None) -> bool:
    """Whether the pair is on record as out of sync now, after the stop; so it counts where nobody can tell."""
    try:
        return store.read(holding.current(task_vars).where.config).instance(instance).parted is not None
    except errors.RoundsmanError:
        return True
