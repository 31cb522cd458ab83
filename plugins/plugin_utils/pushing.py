"""Putting what was made on the controller into a file of a node, as Ansible's own `copy` does it."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING, Any

from . import module_answers

if TYPE_CHECKING:
    from collections.abc import Mapping

SPEC = {
    "dest": {"type": "path", "required": True},
    "owner": {"type": "str", "default": "root"},
    "group": {"type": "str", "default": "root"},
    "mode": {"type": "str", "default": "0644"},
}
"""The options that say where it goes."""


def push(
    action: Any, data: bytes, *, options: Mapping[str, Any], variables: Mapping[str, Any], is_secret: bool = False
) -> dict[str, Any]:
    """Give a file of the node this content, as the options of SPEC say; check mode and diff are those of `copy`.

    Of a secret the result tells whether it has changed, and nothing of the content.
    """
    task = action._task.copy()  # noqa: SLF001 - the way of Ansible's own actions to use another one
    if is_secret:
        task.diff = False
    with tempfile.NamedTemporaryFile(prefix="roundsman-") as file:
        file.write(data)
        file.flush()
        task.args = {"src": file.name, **{name: options[name] for name in SPEC}}
        copy = action._shared_loader_obj.action_loader.get(  # noqa: SLF001 - as above
            "ansible.builtin.copy",
            task=task,
            connection=action._connection,  # noqa: SLF001 - as above
            play_context=action._play_context,  # noqa: SLF001 - as above
            loader=action._loader,  # noqa: SLF001 - as above
            templar=action._templar,  # noqa: SLF001 - as above
            shared_loader_obj=action._shared_loader_obj,  # noqa: SLF001 - as above
        )
        with module_answers.bounded(action._connection, limit=module_answers.NODE_BYTES):  # noqa: SLF001 - as above
            result: dict[str, Any] = copy.run(task_vars=variables)
    told, _ = module_answers.documented("copy", result)
    told |= {"dest": options["dest"]}
    return {name: value for name, value in told.items() if not (is_secret and name == "diff")}
