"""The action `epo_starts`: which instances start now that these nodes do not answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase

from ..module_utils.domain import errors, tree
from ..plugin_utils.config import store
from ..plugin_utils.planning import epo

_SPEC = {"silent": {"type": "list", "elements": "str", "default": []}}


class ActionModule(ActionBase):  # type: ignore[misc]  # Ansible ships no types
    """Per node (name) what to start there; an instance starts when every node that has a copy of it answers."""

    _requires_connection = False
    _VALID_ARGS = frozenset(_SPEC)

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        _validated, options = self.validate_argument_spec(argument_spec=_SPEC)
        try:
            cluster = store.read(tree.Tree(Path(str((task_vars or {}).get("roundsman_root", "/")))).config)
        except errors.RoundsmanError as error:
            return {**result, "failed": True, "msg": str(error)}
        known = cluster.maintenance.epo
        remembered = known.instances if known else ()
        answering = [uuid for uuid, one in cluster.nodes.items() if one.name not in options["silent"]]
        found = epo.startable(cluster, remembered, answering=answering)
        starts = {cluster.node_name(node): epo.facts(cluster, uuids) for node, uuids in found.items()}
        there = {uuid for uuids in found.values() for uuid in uuids}
        waiting = [cluster.instances[uuid].name for uuid in remembered if uuid in cluster.instances and uuid not in there]
        return {**result, "changed": False, "starts": starts, "waiting": waiting}
