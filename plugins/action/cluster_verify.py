"""The action `cluster_verify`: what is wrong with a cluster, reported and never repaired."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ..module_utils.domain.power import power
from ..module_utils.domain.values import errors
from ..plugin_utils import commanding, findings, holding, libraries, module_answers, sealed_json, whereabouts

with libraries.optional():
    from ..plugin_utils.config import import_rules, store

if TYPE_CHECKING:
    from ..module_utils.domain.values import tree

_SPEC = {
    "targets": {"type": "list", "elements": "dict", "required": True},
    "paths": {"type": "list", "elements": "str", "required": True},
    "looks": {"type": "dict", "required": True},
    "unseen": {"type": "dict", "default": {}},
    "ignored": {"type": "dict", "default": {}},
    "refused": {"type": "dict", "default": {}},
    "differing": {"type": "dict", "default": {}},
    "left_behind": {"type": "dict", "default": {}},
    "degraded": {"type": "list", "elements": "dict", "default": []},
    "runs": {"type": "dict", "default": {}},
    "offline": {"type": "list", "elements": "str", "default": []},
    "not_asked": {"type": "dict", "default": {}},
    "disks": {"type": "dict", "default": {}},
    "records": {"type": "dict", "default": {}},
    "before": {"type": "dict", "default": {}},
    "credentials_file": {"type": "str", "required": True},
}


class ActionModule(module_answers.Action):
    """Compare the power of nodes (`name`, `powered`, `driver`), and what runs there, with what is on record.

    No instance is locked meanwhile, so what runs is compared twice: the result of the first time is given as `before`
    the second look, and has in `again` the nodes to look at. Instances that jobs work on are not judged: `unjudged`.
    """

    _requires_connection = False
    _needs_libraries = True
    _VALID_ARGS = frozenset(_SPEC)

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        _validated, options = self.validate_argument_spec(argument_spec=_SPEC)
        try:
            known, busy, settings = _now(holding.current(task_vars).where)
        except (errors.RoundsmanError, OSError, ValueError) as error:
            return {**result, "failed": True, "msg": str(error)}
        read = self._power(options, task_vars) if options["targets"] else []
        records = {target["name"]: target["powered"] for target in options["targets"]}
        runs, disks, before = options["runs"], options["disks"], options["before"]
        looks = {
            name: whereabouts.seen(
                {"runs": runs[name], "disks": disks.get(name, ())}, is_offline=name in options["offline"]
            )
            for name in runs
        }
        differences = whereabouts.wrong(known, looks)
        told = whereabouts.settled(differences, before, known, busy)
        found = [
            *findings.of_programs(options["looks"], paths=options["paths"], unseen=options["unseen"]),
            *findings.of_power(read, records=records),
            *findings.of_instances(told),
            *findings.of_left_behind(options["left_behind"]),
            *findings.of_host_variables(options["ignored"]),
            *findings.of_refused(options["refused"]),
            *findings.of_diagnose_commands(options["differing"]),
            *findings.of_parted(options["degraded"]),
            *settings,
        ]
        differing = sorted({difference.instance for difference in differences if difference.instance})
        return {
            **result,
            "changed": False,
            "findings": [finding.as_dict() for finding in findings.bounded(found, escape=module_answers.shown)],
            **_looked_at(looks, options["not_asked"]),
            "again": whereabouts.to_look_again(differences, known, looks),
            "differing": differing,
            "records": {name: known[name] for name in differing if name in known},
            "busy": busy,
            "unjudged": sorted({*differing} & {*busy, *before.get("busy", ())}),
        }

    def _power(self, options: dict[str, Any], task_vars: dict[str, Any] | None) -> list[power.Outcome]:
        return commanding.commanded(
            self._execute_module,
            power.Command.STATUS,
            options["targets"],
            credentials_file=options["credentials_file"],
            variables=task_vars or {},
        )


def _looked_at(looks: dict[str, whereabouts.Look], not_asked: dict[str, str]) -> dict[str, Any]:
    """On which nodes all that runs there was seen, and why not on the others."""
    unseen = {name: look.trouble for name, look in looks.items() if look.trouble}
    troubles = {
        name: module_answers.shown(f"it is offline, and {why}" if looks[name].is_offline else why)
        for name, why in unseen.items()
    }
    return {
        "looked_at": [name for name in looks if name not in unseen],
        "not_looked_at": {**not_asked, **troubles},
    }


def _now(where: tree.Tree) -> tuple[dict[str, dict[str, Any]], list[str], list[findings.Finding]]:
    """What the configuration says of each instance now, which of them jobs or plays work on, and its own findings."""
    try:
        rows = json.loads(sealed_json.unseal(where.locks.read_bytes()))["held"]
    except FileNotFoundError:
        rows = []
    cluster = store.read(where.config)
    busy = whereabouts.at_work(cluster, [row["locks"] for row in rows])
    lines = import_rules.refusals(cluster, is_lab=where.lab_file.is_file())
    own = [*findings.of_settings(cluster), *findings.of_document(cluster, lines)]
    return whereabouts.records(cluster), busy, own
