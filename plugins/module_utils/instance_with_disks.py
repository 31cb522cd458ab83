"""An instance made to run, or not to run, on its node, together with its disks: they open first, and close last."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Mapping, Optional

from .domain import errors, hvparams
from .domain import starts as start_rules
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
}
"""The options of an instance's disks beside those of the instance; without a template they are left alone."""


def make(
    given: Mapping[str, Any],
    root: pathlib.Path,
    *,
    starts: bool,
    only_looks: bool,
    limit: Optional[float],
    opcode: str,
    connects: bool = False,
) -> stepping.Made:
    """Start an instance on disks that are opened for it, or stop it and close them, unless this only looks.

    `connects` says that the node of its other replica answers: one here that may be older is not started.

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
        if connects:
            _refuse_older(storage, name)
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


def stand_by(given: Mapping[str, Any], root: pathlib.Path, *, only_looks: bool, opcode: str) -> stepping.Made:
    """Have the replicas of an instance that runs elsewhere up, and closed, unless this only looks.

    Raises:
        InvalidInput, Refused, Failed: as the disk template does, and where a replica is not fit to follow.
    """
    storage = _storage(given, root, opcode=opcode)
    before, steps = _told(storage), storage.steps(disks.State.STANDBY)
    if only_looks:
        return stepping.Made(bool(steps), running=False, before=before, after="standby" if steps else before)
    templates.done(steps)
    trouble = next((f"{disk.path} {disk.trouble}" for disk in storage.local_disks() if disk.trouble), "")
    if trouble:
        raise errors.Failed(trouble)
    return stepping.Made(bool(steps), running=False, before=before, after=_told(storage))


def _refuse_older(storage: Storage, name: str) -> None:
    """Let the replicas connect; one that does not may be older, unless it was written since, and DRBD refuses nothing.

    Raises:
        Refused: it may be the older one.
    """
    templates.done(storage.steps(disks.State.UP))
    for disk in templates.until_connected(storage, time_limit=CONNECTING):
        # One that stands alone, too: DRBD may have refused a peer that has newer data, or none in common.
        is_newest = start_rules.is_known_newest(
            is_connected=disk.is_connected, is_refused=bool(disk.trouble), generation=disk.generation
        )
        if disk.role and not is_newest:
            raise errors.Refused(
                f"{disk.path} ({disk.text}) may be older than the other one, whose node is back, and they did not "
                f"connect: restore their link, or compare them with `roundsman instance start {name}`"
            )


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


def _told(storage: Storage) -> str:
    return ", ".join(disk.text for disk in storage.local_disks())
