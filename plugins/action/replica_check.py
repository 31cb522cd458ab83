"""The action `replica_check`: decides whether a replica may be removed, counts, or is started; nothing is contacted."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from ..module_utils.domain.disks import replacements, starts
from ..module_utils.storage import drbd_sides
from ..plugin_utils import module_answers

if TYPE_CHECKING:
    from collections.abc import Mapping

_SPEC = {
    "instance": {"type": "dict", "required": True},
    "primary": {"type": "dict", "required": True},
    "old": {"type": "dict", "required": True},
    "left_behind": {"type": "bool", "default": False},
    "starts": {"type": "bool", "default": False},
    "made": {"type": "bool", "default": False},
    "discards": {"type": "bool", "default": False},
    "may_stay": {"type": "bool", "default": False},
    "may_have_run": {"type": "bool", "default": False},
    "recorded": {"type": "list", "elements": "str", "default": []},
}


class ActionModule(module_answers.Action):
    """Judge what `instance_disks` answered on the `primary` and on the `old` secondary, dicts of `name` and `disks`.

    An old secondary without `disks` was not contacted. One that was `left_behind` is none any more, and has to be an
    ancestor of the primary's replica. With `starts` nothing is removed: the instance is to be started on the primary,
    and `old` is its secondary, whose data a person gives up with `discards`, and which has to say what it has if it
    `may_have_run` the instance meanwhile. With `made` it is the new secondary, whose
    replica has to be the primary's. Returns the `objection`, '' for none, and what is said of an outdated one that the
    primary has gone on without (`kept`): with `may_stay` it is left behind, and no objection.

    `recorded` are the generations of the old secondary's replicas that are on record as not newer than the primary's.
    If nothing is objected to, `generations` are those that may be recorded so now.
    """

    _requires_connection = False
    _VALID_ARGS = frozenset(_SPEC)

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        _validated, options = self.validate_argument_spec(argument_spec=_SPEC)
        name, primary = str(options["instance"]["name"]), _node(options["primary"])
        generations: tuple[str, ...] = ()
        old = _node(options["old"]) if options["old"].get("disks") else None
        says_kept = options["starts"] or options["may_stay"]
        kept = replacements.kept(name, primary, old, options["recorded"]) if says_kept else ""
        if options["starts"]:
            peer = old or replacements.Node(str(options["old"]["name"]), None)
            objection = starts.objection(
                name, primary, peer, discards=options["discards"], peer_may_have_run_it=options["may_have_run"]
            )
        elif options["made"]:
            objection = replacements.objection_to_new(name, primary, _node(options["old"]))
        elif options["left_behind"]:
            objection = replacements.objection_to_removal(name, primary, _node(options["old"]))
        else:
            may_stay = options["may_stay"]
            objection = replacements.objection(name, primary, old, options["recorded"], may_stay=may_stay)
            generations = () if objection else replacements.judged(primary, old, options["recorded"])
        return {**result, "changed": False, "objection": objection, "kept": kept, "generations": list(generations)}


def _node(given: Mapping[str, Any]) -> replacements.Node:
    answer = given.get("disks") or {}
    found = answer.get("disks")
    name, answers = str(given["name"]), bool(answer) and not answer.get("unreachable")
    if answer.get("failed") or answer.get("unreachable") or not isinstance(found, list):
        why = module_answers.shown(str(answer.get("msg") or "no answer"))
        return replacements.Node(name, None, why, answers=answers)
    replicas = drbd_sides.decode_replicas(found)
    if replicas is None:
        return replacements.Node(name, None, drbd_sides.NOT_UNDERSTOOD, answers=answers)
    told = tuple(dataclasses.replace(each, text=module_answers.shown(each.text)) for each in replicas)
    return replacements.Node(name, told, answers=answers)
