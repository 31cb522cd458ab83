"""The controller's half of `host_inventory_info`: what a host has, and how it is reached, as a file for an adoption."""

from __future__ import annotations

import json
import pathlib
from typing import Any, Dict, Optional

from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure, AnsibleError

from ..plugin_utils import module_answers

_SPEC = {"folder": {"type": "path", "default": ""}, "file_dir": {"type": "str", "default": "/var/lib/roundsman/disks"}}
CONNECTION = (
    "ansible_host",
    "ansible_port",
    "ansible_user",
    "ansible_connection",
    "ansible_ssh_private_key_file",
    "ansible_ssh_common_args",
    "ansible_ssh_extra_args",
    "ansible_python_interpreter",
    "ansible_become",
    "ansible_become_user",
    "ansible_become_method",
)
"""The variables with which a host is reached; passwords are none of them."""


class ActionModule(module_answers.Action):
    """Put what a host has, or why it cannot be asked, into `folder`.

    In check mode, and with an empty `folder`, it is only returned.
    """

    _VALID_ARGS = frozenset(_SPEC)

    def run(self, tmp: Optional[str] = None, task_vars: Optional[Dict[str, Any]] = None) -> Dict[str, Any]:
        variables = task_vars or {}
        _validated, options = self.validate_argument_spec(argument_spec=_SPEC)
        folder = "" if self._task.check_mode else options["folder"]
        told: Dict[str, Any] = {
            "name": str(variables["inventory_hostname"]),
            "place": list(variables["ansible_play_hosts_all"]).index(variables["inventory_hostname"]),
            "variables": {name: self._text(variables[name]) for name in CONNECTION if name in variables},
        }
        try:
            super().run(tmp, variables)
            result: Dict[str, Any] = self._execute_module(
                module_name="roundsman.cluster.host_inventory_info",
                module_args={"file_dir": options["file_dir"]},
                task_vars=variables,
            )
        except AnsibleConnectionFailure as e:
            _put({**told, "problem": f"cannot be reached: {e}"}, folder)
            raise
        except AnsibleError as e:
            _put({**told, "problem": module_answers.shown(str(e))}, folder)
            raise
        if result.get("failed"):
            _put({**told, "problem": str(result.get("msg", "the module failed"))}, folder)
        else:
            # What is missing of an answer is found where it is read, and the host is left out for it.
            seen = {name: result.get(name) for name in ("hostname", "libvirt", "storage")}
            _put({**told, "seen": seen}, folder)
        return result

    def _text(self, value: Any) -> str:
        return str(self._templar.template(value))


def _put(told: Dict[str, Any], folder: str) -> None:
    if not folder:
        return
    name = told["name"]
    if not name or name.startswith(".") or pathlib.PurePath(name).name != name:
        raise AnsibleActionFail("the host name cannot be a file name: " + ascii(name))
    (pathlib.Path(folder) / f"{name}.json").write_text(json.dumps(told))
