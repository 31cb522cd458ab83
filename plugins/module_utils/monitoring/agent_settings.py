"""What the controller has told a node's agent, which so works while the master is away: `etc/roundsman/agent.json`."""

from __future__ import annotations

import dataclasses
import ipaddress
import math
import re
from typing import TYPE_CHECKING, Any, Dict, Mapping, Optional, Tuple

from .. import node_settings
from ..domain.agent import collected
from ..domain.values import errors, json_values

if TYPE_CHECKING:
    import pathlib

DEFAULT_SECONDS: Mapping[str, float] = {
    collected.DIAGNOSE.name: 60.0,
    collected.CPU_LOAD.name: 5.0,
    collected.DISKSTATS.name: 60.0,
    collected.DRBD.name: 30.0,
    collected.LV.name: 60.0,
    collected.INST_STATUS.name: 30.0,
}
LOOPBACK = "127.0.0.1"
_LONGEST = 86400.0
_WORD = re.compile("[A-Za-z0-9_-]{0,128}")


@dataclasses.dataclass(frozen=True)
class Settings:
    """Where the agent listens, and what it collects: `intervals` in seconds by collector, 0 for one that is off.

    Without a `diagnose_command` the node reports that it cannot be diagnosed. `controllers` are the addresses for
    which connections are reserved.
    """

    bind: Tuple[str, ...] = (LOOPBACK,)
    port: int = collected.PORT
    controllers: Tuple[str, ...] = ()
    diagnose_command: str = ""
    hypervisor: str = "kvm"
    intervals: Mapping[str, float] = dataclasses.field(default_factory=lambda: dict(DEFAULT_SECONDS))

    @property
    def place(self) -> Tuple[Tuple[str, ...], int, Tuple[str, ...]]:
        """What another process has to be started for."""
        return self.bind, self.port, self.controllers


def parse(text: str) -> Settings:
    """Read the settings; a field that is left out has its default.

    Raises: errors.InvalidInput naming the field, for one that is unknown or wrong.
    """
    value = json_values.parse(text)
    if not isinstance(value, dict):
        raise errors.InvalidInput("not a JSON object")
    fields = {field.name for field in dataclasses.fields(Settings)} - {"intervals"} | {"collectors"}
    for name in value:
        if name not in fields:
            raise errors.InvalidInput("{}: there is no such setting".format(ascii(name[:40])))
    return Settings(
        bind=_addresses("bind", value.get("bind", [LOOPBACK])),
        controllers=_addresses("controllers", value["controllers"]) if value.get("controllers") else (),
        port=_port(value.get("port", json_values.Number(str(collected.PORT)))),
        diagnose_command=_word("diagnose_command", value.get("diagnose_command", "")),
        hypervisor=_word("hypervisor", value.get("hypervisor", "kvm")),
        intervals=_intervals(value.get("collectors", {})),
    )


def read(path: pathlib.Path) -> Settings:
    """Read the settings from a file that others may not write.

    Raises: errors.StoreFailed if it cannot be read or trusted, errors.InvalidInput naming file and field.
    """
    data = node_settings.content(path, forbidden=node_settings.WRITABLE_BY_OTHERS)
    try:
        return parse(data.decode())
    except (UnicodeDecodeError, errors.InvalidInput) as e:
        raise errors.InvalidInput("{}: {}".format(path, e)) from e


def diagnose_command(path: pathlib.Path, *, otherwise: str) -> str:
    """The diagnose command of the node's agent, so that all who ask the node run the same; `otherwise` without one.

    Raises: errors.StoreFailed, errors.InvalidInput if the agent's settings are there and cannot be used.
    """
    if not (path.exists() or path.is_symlink()):
        return otherwise
    return read(path).diagnose_command or otherwise


class Watched:
    """The last good settings of a file, read again whenever it changes; `error` says why newer ones do not count."""

    def __init__(self, path: pathlib.Path) -> None:
        """Raises: errors.StoreFailed, errors.InvalidInput, where there are no good ones to begin with."""
        self._path = path
        self._seen = self._look()
        self.settings = read(path)
        self.error = ""

    def refresh(self) -> bool:
        """Read the file if it has changed; tells whether that gave other settings."""
        seen = self._look()
        if seen == self._seen:
            return False
        self._seen, before = seen, self.settings
        try:
            self.settings, self.error = read(self._path), ""
        except (errors.StoreFailed, errors.InvalidInput) as e:
            self.error = str(e)
        return self.settings != before

    def _look(self) -> Optional[Tuple[int, ...]]:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _addresses(field: str, value: Any) -> Tuple[str, ...]:
    if not isinstance(value, list) or not value or not all(isinstance(address, str) for address in value):
        raise errors.InvalidInput("{}: not a list of IP addresses".format(field))
    for address in value:
        try:
            ipaddress.ip_address(address.partition("%")[0])
        except ValueError as e:
            raise errors.InvalidInput("{}: {} is no IP address".format(field, ascii(address[:80]))) from e
    return tuple(dict.fromkeys(value))


def _port(value: Any) -> int:
    if not isinstance(value, json_values.Number) or not re.fullmatch("[0-9]{1,5}", value.token):
        raise errors.InvalidInput("port: not a port")
    if int(value.token) > 65535:  # noqa: PLR2004 - the largest port
        raise errors.InvalidInput("port: not a port")
    return int(value.token)


def _word(field: str, value: Any) -> str:
    if not isinstance(value, str) or not _WORD.fullmatch(value):
        raise errors.InvalidInput("{}: not a bare name".format(field))
    return value


def _intervals(value: Any) -> Dict[str, float]:
    if not isinstance(value, dict):
        raise errors.InvalidInput("collectors: not an object of intervals")
    for name, interval in value.items():
        if name not in DEFAULT_SECONDS:
            raise errors.InvalidInput(
                "collectors: there is no {}: use {}".format(ascii(name), ", ".join(DEFAULT_SECONDS))
            )
        seconds = float(interval.token) if isinstance(interval, json_values.Number) else math.nan
        if not (seconds == 0 or 1 <= seconds <= _LONGEST):
            raise errors.InvalidInput("collectors: {} has no interval of 1 s to a day, or 0 for off".format(name))
    return {name: float(value[name].token) if name in value else seconds for name, seconds in DEFAULT_SECONDS.items()}
