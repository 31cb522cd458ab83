"""Give a node its own key, which is derived from the cluster's: that one never leaves the controller."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail

from ..module_utils.domain.agent import signing
from ..module_utils.domain.values import errors
from ..plugin_utils import module_answers, pushing

_SPEC = {
    **pushing.SPEC,
    "dest": {"type": "path", "default": "/var/lib/roundsman/node.key"},
    "mode": {"type": "str", "default": "0400"},
    "node": {"type": "str", "required": True},
    "cluster_key": {"type": "path", "default": "/var/lib/roundsman/hmac.key"},
}


class ActionModule(module_answers.Action):
    """`node` is the UUID, `cluster_key` a file of the controller; neither key is ever in the result or a difference."""

    _VALID_ARGS = frozenset(_SPEC)

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        variables = task_vars or {}
        super().run(tmp, variables)
        _validated, options = self.validate_argument_spec(argument_spec=_SPEC)
        if not options["node"].strip():
            raise AnsibleActionFail("node: the UUID of the node is empty")
        try:
            key = signing.node_key(Path(options["cluster_key"]).read_bytes(), options["node"])
        except OSError as error:
            raise AnsibleActionFail(f"{options['cluster_key']} on the controller: {error.strerror}") from error
        except errors.InvalidInput as error:
            raise AnsibleActionFail(f"{options['cluster_key']} on the controller: {error}") from error
        return pushing.push(self, key, options=options, variables=variables, is_secret=True)
