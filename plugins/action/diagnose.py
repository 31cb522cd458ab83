"""The controller's half of `diagnose`: the signed report goes from the node to the spool, unopened."""

from __future__ import annotations

import json
import pathlib
import time
from typing import Any, Dict, Optional

from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure

from ..module_utils.domain.agent import reports
from ..module_utils.domain.values import errors
from ..plugin_utils import durable_files, module_answers

_SPEC = {"command": {"type": "str", "default": ""}, "spool": {"type": "path", "default": ""}}


class ActionModule(module_answers.Action):
    """Put the node's envelope, or a note that the node is unreachable, into the spool.

    In check mode, and with an empty `spool`, the result is only returned.
    """

    _VALID_ARGS = frozenset(_SPEC)

    def run(self, tmp: Optional[str] = None, task_vars: Optional[Dict[str, Any]] = None) -> Dict[str, Any]:
        variables = task_vars or {}
        _validated, options = self.validate_argument_spec(argument_spec=_SPEC)
        spool = "" if self._task.check_mode else options["spool"]
        host = _file_name(str(variables.get("inventory_hostname", "")))
        try:
            super().run(tmp, variables)
            result: Dict[str, Any] = self._execute_module(
                module_name="roundsman.cluster.diagnose",
                module_args={"command": options["command"]},
                task_vars=variables,
            )
        except AnsibleConnectionFailure as e:
            if spool:
                note = {"node": host, "time": int(time.time()), "text": str(e).encode(errors="replace").decode()}
                _put(json.dumps(note), folder=pathlib.Path(spool), name=host + ".unreachable")
            raise
        if len(str(result.get("envelope", "")).encode()) > reports.LIMIT:
            raise AnsibleActionFail("the report is larger than {} bytes, and is not kept".format(reports.LIMIT))
        if spool and isinstance(result.get("envelope"), str):
            name = "{}-{}.json".format(host, time.time_ns())
            _put(result["envelope"], folder=pathlib.Path(spool), name=name)
        return result


def _file_name(host: str) -> str:
    if not host or host.startswith(".") or pathlib.PurePath(host).name != host:
        raise AnsibleActionFail("the host name cannot be a file name: " + ascii(host))
    return host


def _put(text: str, *, folder: pathlib.Path, name: str) -> None:
    # The folder has other writers, and the daemon has to read what root puts there; a report is signed, and no secret.
    try:
        with durable_files.opened_folder(folder) as opened:
            durable_files.replace(opened / name, text.encode(), mode=0o644, is_of_folder=True)
    except errors.StateUnknown as e:
        raise AnsibleActionFail("cannot write to the spool {}: {}".format(folder, e)) from e
    except (OSError, errors.StoreFailed) as e:
        raise AnsibleActionFail("cannot write to the spool {}".format(folder)) from e
