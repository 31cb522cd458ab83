"""The hypervisor parameters of an instance: texts by name in the configuration, typed values for the driver."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import Any, Callable, Mapping

from . import errors, value_rules

Rule = Callable[[str, str], Any]


def _number(least: float, most: float, *, whole: bool) -> Rule:
    """The rule of a text that is a number between two."""
    rule = value_rules.number(least, most, whole=whole)

    def check(name: str, value: str) -> Any:
        if not re.fullmatch(r"[0-9]{1,9}" if whole else r"[0-9]{1,9}(\.[0-9]{1,6})?", value):
            raise errors.InvalidInput(f"{name}: {value!r} is not a {'whole ' if whole else ''}number in plain digits")
        return rule(name, int(value) if whole else float(value))

    return check


def _yes(name: str, value: str) -> bool:
    return value_rules.one_of("yes", "no", "true", "false")(name, value) in {"yes", "true"}


_WORD = value_rules.text(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}|", "a word of letters, digits and . _ -")
_PATH = value_rules.text(r"/[^\x00-\x1f]{1,4000}|", "an absolute path")


@dataclass(frozen=True)
class Kvm:
    """What an instance of kvm has of its own.

    Empty texts and 0 leave the choice to the driver, or to libvirt. Times are in seconds, `migration_downtime` is in
    ms, `migration_bandwidth` in MiB/s; with the transport `ssh` memory goes through the connection of libvirt too.
    `domain_xml` is the definition of an adopted instance: what it says stands, but for name, UUID, memory, vcpus and
    the sources of its disks.
    """

    accel: str = ""
    machine: str = ""
    cpu: str = ""
    boot: str = "disk"
    vnc: str = ""
    serial_log: str = ""
    domain_xml: str = ""
    shutdown_timeout: float = 120.0
    migration_transport: str = "ssh"
    migration_limit: float = 1800.0
    migration_downtime: int = 0
    migration_bandwidth: int = 0
    migration_port: int = 0
    migration_unsafe: bool = False
    migratable: bool = True


KVM: Mapping[str, Rule] = {
    "accel": value_rules.one_of("kvm", "tcg"),
    "machine": _WORD,
    "cpu": _WORD,
    "boot": value_rules.one_of("disk", "network"),
    "vnc": value_rules.address,
    "serial_log": _PATH,
    "domain_xml": value_rules.text(r"(?s:.*)", "a text in Unicode"),
    "shutdown_timeout": _number(0, 86400, whole=False),
    "migration_transport": value_rules.one_of("ssh", "tls", "tcp"),
    "migration_limit": _number(1, 86400 * 7, whole=False),
    "migration_downtime": _number(1, 60000, whole=True),
    "migration_bandwidth": _number(1, 10**6, whole=True),
    "migration_port": _number(1, 65535, whole=True),
    "migration_unsafe": _yes,
    "migratable": _yes,
}
FAKE: Mapping[str, Rule] = {
    **{name: KVM[name] for name in ("shutdown_timeout", "migration_limit", "migratable")},
    "migration_seconds": _number(0, 86400, whole=False),
    "shutdown_seconds": _number(0, 86400, whole=False),
}
KNOWN: Mapping[str, Mapping[str, Rule]] = {"kvm": KVM, "fake": FAKE}
"""By hypervisor what may be set of an instance."""


def check(hypervisor: str, given: Mapping[str, str]) -> None:
    """Refuse a parameter that the hypervisor does not have, or whose value it does not take.

    Raises:
        InvalidInput: the text names the parameter and what it takes.
    """
    rules = KNOWN.get(hypervisor, {})
    for name, value in given.items():
        if name not in rules:
            raise errors.InvalidInput(
                f"hvparams: {hypervisor} has no parameter {name!r}: use one of {', '.join(sorted(rules))}"
            )
        rules[name](f"hvparams.{name}", value)


def kvm(given: Mapping[str, str]) -> Kvm:
    """The parameters of an instance of kvm; those that are for others are left out.

    Raises:
        InvalidInput: as `check`.
    """
    known = {field.name for field in fields(Kvm)} & given.keys()
    return Kvm(**{name: KVM[name](f"hvparams.{name}", given[name]) for name in known})
