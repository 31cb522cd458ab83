"""The daemon's own settings: `/etc/roundsman/roundsmand.json`, overridden by the command line."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pydantic

from ..plugins.module_utils.domain.values import errors

if TYPE_CHECKING:
    from pathlib import Path

PORT = 1816


class Settings(pydantic.BaseModel):
    """Where the daemon listens, how many opcodes run at once, and whether Ansible is kept imported for them.

    An empty `bind` is the master's own address. Jobs that ended `archive_after` seconds ago are archived, and those
    that ended `archive_keep` seconds ago leave the archive for good, with their logs; with 0 none. The nodes in
    `configuration_copies` (names) keep a copy of the configuration: root of such a node is root of the cluster.
    """

    model_config = pydantic.ConfigDict(extra="forbid")
    port: int = pydantic.Field(default=PORT, ge=0, le=65535)
    bind: str = ""
    max_running_jobs: int = pydantic.Field(default=max(4, 2 * (os.cpu_count() or 1)), ge=1, le=200)
    warm_ansible: bool = True
    archive_after: float = pydantic.Field(default=6 * 3600, ge=0)
    archive_keep: float = pydantic.Field(default=21 * 86400, ge=0)
    configuration_copies: list[str] = []


def read(path: Path) -> Settings:
    """The settings in a file; without one, the defaults.

    Raises:
        InvalidInput: the file is damaged; the text names the field.
    """
    try:
        return Settings.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return Settings()
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = "/".join(str(part) for part in first["loc"])
        raise errors.InvalidInput(f"{path}: {where}: {first['msg']}") from error
