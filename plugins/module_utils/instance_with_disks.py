"""An instance made to run, or not to run, on its node, together with its disks: they open first, and close last."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Mapping, Optional

from .domain import errors
from .hypervisor import drivers, stepping
from .storage import disks, templates

if TYPE_CHECKING:
    import pathlib

    from .storage.disks import Storage

AT_ONCE = 8
"""How many instances are started or stopped at the same time where many are taken in one step."""
DISKS = {
    "disk_template": {"type": "str", "default": "diskless"},
    "disks": {"type": "list", "elements": "dict", "default": [], "options": disks.DISK},
    "vg": {"type": "str", "default": "roundsman"},
    "file_dir": {"type": "str", "default": "/var/lib/roundsman/disks"},
}
"""The options of an instance's disks beside those of the instance; without a template they are left alone."""


def make(
    given: Mapping[str, Any], root: pathlib.Path, *, starts: bool, only_looks: bool, limit: Optional[float], opcode: str
) -> stepping.Made:
    """Start an instance on disks that are opened for it, or stop it and close them, unless this only looks.

    Raises:
        InvalidInput, Refused, Failed, Unconfirmed: as the hypervisor and the disk template do.
    """
    name = given["name"]
    hypervisor = drivers.get(given["hypervisor"], root, opcode=opcode)
    if only_looks or given["disk_template"] == "diskless":
        return stepping.make(hypervisor, name, given, starts=starts, only_looks=only_looks, limit=limit)
    storage = _storage(given, root, opcode=opcode)
    facts = dict(given)
    if starts and name not in hypervisor.running():
        templates.done(storage.steps(disks.State.ACTIVE))
        facts["devices"] = [one.path for one in storage.copies()]
    made = stepping.make(hypervisor, name, facts, starts=starts, only_looks=False, limit=limit)
    if not starts:
        templates.done(storage.steps(disks.State.STANDBY))
    return made


def stand_by(given: Mapping[str, Any], root: pathlib.Path, *, only_looks: bool, opcode: str) -> stepping.Made:
    """Have the copies of an instance that runs elsewhere up, and closed, unless this only looks.

    Raises:
        InvalidInput, Refused, Failed: as the disk template does, and where a copy is not fit to follow.
    """
    storage = _storage(given, root, opcode=opcode)
    before, steps = _told(storage), storage.steps(disks.State.STANDBY)
    if only_looks:
        return stepping.Made(bool(steps), running=False, before=before, after="standby" if steps else before)
    templates.done(steps)
    trouble = next((f"{one.path} {one.trouble}" for one in storage.copies() if one.trouble), "")
    if trouble:
        raise errors.Failed(trouble)
    return stepping.Made(bool(steps), running=False, before=before, after=_told(storage))


def _storage(given: Mapping[str, Any], root: pathlib.Path, *, opcode: str) -> Storage:
    return templates.get(
        given["disk_template"],
        # It is started on its primary of record, with or without its peer.
        disks.of_options({**given, "instance": given["name"], "here": None, "peer": None, "secret": "", "alone": True}),
        root=root,
        hypervisor=given["hypervisor"],
        opcode=opcode,
    )


def _told(storage: Storage) -> str:
    return ", ".join(one.text for one in storage.copies())
