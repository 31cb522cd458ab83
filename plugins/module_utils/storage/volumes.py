"""The logical volumes of this node, by the names `group/volume`; sizes in MiB."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Dict

from ..domain.values import errors
from .disks import Step

if TYPE_CHECKING:
    from .programs import Runner

FIELDS = "vg_name,lv_name,lv_size,lv_active,lv_device_open"


@dataclass(frozen=True)
class Volume:
    """A logical volume: its size in MiB, whether it has a device, and whether something holds that open."""

    size: float
    is_active: bool
    is_open: bool


class Volumes:
    """Reads and changes the logical volumes of this node."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    def found(self) -> Dict[str, Volume]:
        """All of them, by `group/volume`."""
        said = self._runner.run("lvs", "--reportformat", "json", "--units", "m", "--nosuffix", "-o", FIELDS)
        try:
            rows = [row for report in json.loads(said)["report"] for row in report["lv"]]
            return {
                f"{row['vg_name']}/{row['lv_name']}": Volume(
                    float(row["lv_size"]), row["lv_active"] == "active", row["lv_device_open"] == "open"
                )
                for row in rows
            }
        except (ValueError, KeyError, TypeError) as error:
            raise errors.Failed(f"the report of lvs is not as expected: {error!r}") from error

    def create(self, name: str, size: int) -> Step:
        """The step that makes a volume of at least this size, active, with nothing of what was there before."""
        group, _, volume = name.partition("/")
        command = ("lvcreate", "--yes", "--wipesignatures", "y", "--zero", "y", "--size", f"{size}m")
        return self._step(f"make the volume {name} of {size} MiB", *command, "--name", volume, group)

    def room(self, group: str) -> float:
        """The MiB that are free in a volume group.

        Raises:
            Failed: there is no such group, or it cannot be read.
        """
        options = ("--reportformat", "json", "--units", "m", "--nosuffix", "-o", "vg_name,vg_free")
        said = self._runner.run("vgs", *options, group)
        try:
            found = {row["vg_name"]: float(row["vg_free"]) for row in json.loads(said)["report"][0]["vg"]}
            return found[group]
        except (ValueError, LookupError, TypeError) as error:
            raise errors.Failed(f"the report of vgs is not as expected: {error!r}") from error

    def snapshot(self, name: str, new: str, size: int) -> Step:
        """The step that keeps what a volume has now, as the volume `new` beside it, in so many MiB."""
        command = ("lvcreate", "--yes", "--snapshot", "--size", f"{size}m", "--name", new.partition("/")[2], name)
        return self._step(f"keep what {name} has now as the snapshot {new}", *command)

    def activate(self, name: str) -> Step:
        """The step that gives a volume its device."""
        return self._step(f"activate the volume {name}", "lvchange", "--activate", "y", name)

    def deactivate(self, name: str) -> Step:
        """The step that takes a volume's device; LVM refuses while it is open."""
        return self._step(f"deactivate the volume {name}", "lvchange", "--activate", "n", name)

    def remove(self, name: str) -> Step:
        """The step that removes a volume for ever; LVM refuses while it is open."""
        return self._step(f"remove the volume {name}", "lvremove", "--yes", name)

    def _step(self, text: str, *command: str) -> Step:
        return Step(text, lambda: self._runner.run(*command))
