"""The action `second_copies`: what nodes run, or may write, of instances whose primary is another node."""

from __future__ import annotations

from typing import Any

from ..plugin_utils import findings, module_answers, whereabouts

_SPEC = {
    "looks": {"type": "dict", "required": True},
    "records": {"type": "dict", "required": True},
}


class ActionModule(module_answers.Action):
    """Compare what nodes answered with what the configuration says of each instance.

    The result has `found`, by node the sentences that say what is wrong, and `troubles`, by node why not all was seen.
    """

    _requires_connection = False
    _VALID_ARGS = frozenset(_SPEC)

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        _validated, options = self.validate_argument_spec(argument_spec=_SPEC)
        looks = {name: whereabouts.seen(answers) for name, answers in options["looks"].items()}
        found = whereabouts.second_copies(options["records"], looks)
        troubles = {name: module_answers.shown(look.trouble) for name, look in looks.items() if look.trouble}
        return {**result, "changed": False, "found": _told(found), "troubles": troubles}


def _told(found: dict[str, list[str]]) -> dict[str, list[str]]:
    entries = [findings.Finding(findings.INSTANCES, node, text) for node, texts in found.items() for text in texts]
    told: dict[str, list[str]] = {}
    for finding in findings.bounded(entries, escape=module_answers.shown):
        told.setdefault(finding.node, []).append(finding.text)
    return told
