"""An instance made to run, or not to run, on its node, together with its disks: they open first, and close last."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Tuple

from .domain.disks import starts as start_rules
from .domain.values import errors, hvparams
from .hypervisor import drivers, stepping
from .storage import disks, templates

if TYPE_CHECKING:
    import pathlib

    from .storage.disks import Storage

AT_ONCE = 8
"""How many instances are started or stopped at the same time where many are taken in one step."""
CONNECTING = 10.0
"""How many seconds a replica gets to connect to the other one, which is up, before its instance starts."""
DISKS = {
    "disk_template": {"type": "str", "default": "diskless"},
    "disks": {"type": "list", "elements": "dict", "default": [], "options": disks.DISK},
    "vg": {"type": "str", "default": "roundsman"},
    "file_dir": {"type": "str", "default": "/var/lib/roundsman/disks"},
    "only_here": {"type": "bool", "default": False},
    "peer": {
        "type": "dict",
        "options": {
            "here": {"type": "str", "required": True},
            "name": {"type": "str", "required": True},
            "answered": {"type": "bool", "default": False},
            "disks": {"type": "list", "elements": "dict"},
        },
    },
}
"""The options of where an instance runs and of its disks, which are left alone without a template."""


def make(
    given: Mapping[str, Any],
    root: pathlib.Path,
    *,
    starts: bool,
    only_looks: bool,
    limit: Optional[float],
    opcode: str,
) -> stepping.Made:
    """Start an instance on disks that are opened for it, or stop it and close them, unless this only looks.

    Where its `peer`, the node of its other replica, has answered, one here that may be older is not started.

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
        peer = given.get("peer")
        if peer and peer["answered"]:
            _refuse_older(storage, name, peer)
        templates.done(storage.steps(disks.State.ACTIVE))
        facts["devices"] = [disk.path for disk in storage.local_disks()]
    made = stepping.make(hypervisor, name, facts, starts=starts, only_looks=False, limit=limit)
    if not starts:
        templates.done(storage.steps(disks.State.STANDBY))
    return made


def soft_stop(given: Mapping[str, Any], *, most: Optional[float]) -> Optional[float]:
    """How long the guest of an instance gets to shut down; None for as long as its own parameter says."""
    if most is None:
        return None
    texts = {key: str(value) for key, value in given["hvparams"].items()}
    return min(most, hvparams.kvm(texts).shutdown_timeout)


def stand_by(
    given: Mapping[str, Any], root: pathlib.Path, *, only_looks: bool, opcode: str
) -> Tuple[stepping.Made, Dict[str, Any]]:
    """Have the replicas of an instance that runs elsewhere up, and closed, unless this only looks.

    Beside it are those `disks`, and why one does not get in sync (`text`).

    Raises:
        InvalidInput, Refused, Failed: as the disk template does.
    """
    storage = _storage(given, root, opcode=opcode)
    known, steps = storage.local_disks(), storage.steps(disks.State.STANDBY)
    if only_looks:
        before = _told(known)
        made = stepping.Made(bool(steps), running=False, before=before, after="standby" if steps else before)
        return made, {"text": "", "disks": disks.as_result(known)["disks"]}
    templates.done(steps)
    found = storage.local_disks()
    trouble = next((f"{disk.path} {disk.trouble}" for disk in found if disk.trouble), "")
    made = stepping.Made(bool(steps), running=False, before=_told(known), after=_told(found))
    return made, {"text": trouble, "disks": disks.as_result(found)["disks"]}


def _refuse_older(storage: Storage, name: str, peer: Mapping[str, Any]) -> None:
    """Let the replicas connect; those that do not are compared with what their peer said of its own.

    Raises:
        Refused: they may be the older ones.
    """
    templates.done(storage.steps(disks.State.UP))
    found = templates.until_connected(storage, time_limit=CONNECTING)
    mine = disks.as_node(peer["here"], disks.as_result(found)["disks"])
    objection = start_rules.objection_apart(name, mine, disks.as_node(peer["name"], peer["disks"]))
    if objection:
        raise errors.Refused(objection)


def _storage(given: Mapping[str, Any], root: pathlib.Path, *, opcode: str) -> Storage:
    # It is started on its primary of record, with or without its peer.
    options = {"here": None, "peer": None, "secret": "", "alone": True, "generations": True}
    return templates.get(
        given["disk_template"],
        disks.of_options({**given, **options, "instance": given["name"]}),
        root=root,
        hypervisor=given["hypervisor"],
        opcode=opcode,
    )


def _told(found: List[disks.LocalDisk]) -> str:
    return ", ".join(disk.text for disk in found)
