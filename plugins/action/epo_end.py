"""The action `epo_end`: what the return of an emergency power off has brought back, and the end of the hold."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible.plugins.action import ActionBase

from ..module_utils.domain import changes, errors, tree
from ..plugin_utils import holding
from ..plugin_utils.config import store

if TYPE_CHECKING:
    from ..module_utils.domain import cluster as clusters

_SPEC = {
    "nodes": {"type": "list", "elements": "str", "required": True},
    "instances": {"type": "list", "elements": "str", "required": True},
}


class ActionModule(ActionBase):  # type: ignore[misc]  # Ansible ships no types
    """Nodes that are back and instances that run (names) are struck off; when nothing is left, maintenance goes on."""

    _requires_connection = False
    _VALID_ARGS = frozenset(_SPEC)

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        _validated, options = self.validate_argument_spec(argument_spec=_SPEC)
        where = tree.Tree(Path(str((task_vars or {}).get("roundsman_root", "/"))))
        try:
            cluster = store.read(where.config)
            stated = _left(cluster, set(options["nodes"]), set(options["instances"]))
            if stated is not None and not self._task.check_mode:
                holding.record(holding.play(str(where.root), pid=os.getppid()), stated, now=time.time())
        except errors.RoundsmanError as error:
            return {**result, "failed": True, "msg": str(error)}
        lifted = isinstance(stated, changes.EpoGone)
        return {**result, "changed": stated is not None, "lifted": lifted, **_told(cluster, stated)}


def _left(cluster: clusters.Cluster, nodes: set[str], instances: set[str]) -> changes.EpoStands | changes.EpoGone | None:
    known = cluster.maintenance.epo
    if known is None:
        return None
    there = [uuid for uuid in known.nodes if uuid in cluster.nodes and cluster.nodes[uuid].name not in nodes]
    down = [
        uuid for uuid in known.instances if uuid in cluster.instances and cluster.instances[uuid].name not in instances
    ]
    if not there and not down:
        return changes.EpoGone()
    return changes.EpoStands(tuple(there), tuple(down), known.by, returning=True)


def _told(cluster: clusters.Cluster, stated: object) -> dict[str, list[str]]:
    if not isinstance(stated, changes.EpoStands):
        return {"nodes": [], "instances": []}
    return {
        "nodes": [cluster.nodes[uuid].name for uuid in stated.nodes],
        "instances": [cluster.instances[uuid].name for uuid in stated.instances],
    }
