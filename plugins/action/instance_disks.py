"""The controller's half of `instance_disks`: two nodes of a DRBD disk know each other by a secret made here."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, Optional, Tuple

from ansible.errors import AnsibleActionFail

from ..module_utils.domain.agent import signing
from ..module_utils.domain.values import errors, tree
from ..plugin_utils import module_answers


class ActionModule(module_answers.Action):
    """Hand the module the secret of a pair of nodes, which the cluster's key makes, unless one is given.

    Where there is no cluster, and so no key, there is no secret either.
    """

    def run(self, tmp: Optional[str] = None, task_vars: Optional[Dict[str, Any]] = None) -> Dict[str, Any]:
        variables = task_vars or {}
        super().run(tmp, variables)
        options = dict(self._task.args)
        is_replicated = options.get("disk_template", "drbd") == "drbd"
        ends = _ends(options)
        if is_replicated and not options.get("secret") and options.get("uuid") and ends:
            options["secret"] = _secret(Path(str(variables.get("roundsman_root", "/"))), str(options["uuid"]), ends)
        found: Dict[str, Any] = self._execute_module(
            module_name="roundsman.cluster.instance_disks", module_args=options, task_vars=variables
        )
        return found


def _ends(options: Dict[str, Any]) -> Optional[Tuple[str, str]]:
    """The names of both nodes; without a peer no file is written, and no secret is needed."""
    here, peer = options.get("here"), options.get("peer")
    return (str(here["name"]), str(peer["name"])) if here and peer else None


def _secret(root: Path, instance: str, nodes: Tuple[str, str]) -> str:
    path = tree.Tree(root).hmac_key
    try:
        return signing.pair_secret(path.read_bytes(), instance, nodes)
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise AnsibleActionFail(f"{path} cannot be read: {error.strerror}") from error
    except errors.InvalidInput as error:
        raise AnsibleActionFail(f"{path}: {error}") from error
