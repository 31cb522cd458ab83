"""What is wrong with a cluster's power out of band (seed 001, "Addition to gnt-cluster verify"); pure."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ..module_utils.domain import cluster as clusters
from ..module_utils.domain import power_record

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ..module_utils.domain import power

PROGRAM, POWERED, HOSTVARS, DIAGNOSE = "oob_program", "powered", "hostvars", "diagnose_command"


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong; `check` is the rule that is broken, `node` whom it is about."""

    check: str
    node: str
    text: str

    def as_dict(self) -> dict[str, str]:
        """Give the finding as JSON values."""
        return asdict(self)


def of_programs(
    looks: Mapping[str, Mapping[str, Any]], *, paths: Iterable[str], unseen: Mapping[str, str]
) -> list[Finding]:
    """Each helper program that a master candidate lacks, or that nobody could see there (name: why)."""
    found = [Finding(PROGRAM, name, f"{name} is a master candidate and {why}") for name, why in unseen.items()]
    for name, look in looks.items():
        problems = look.get("problems")
        if problems is None:
            why = "does not answer" if look.get("unreachable") else look.get("msg", "could not be looked at")
            found.append(Finding(PROGRAM, name, f"{name} is a master candidate and {why}"))
            continue
        found += [Finding(PROGRAM, name, f"{path} {problems[path]} on {name}") for path in paths if path in problems]
    return _ordered(found)


def of_power(outcomes: Iterable[power.Outcome], *, records: Mapping[str, bool]) -> list[Finding]:
    """Each node whose power on record is not what its BMC says, or whose BMC does not tell."""
    told = [(one.name, power_record.difference(one.name, powered=records[one.name], outcome=one)) for one in outcomes]
    return _ordered(Finding(POWERED, name, text) for name, text in told if text)


def of_host_variables(ignored: Mapping[str, Iterable[str]]) -> list[Finding]:
    """Each node with host variables in the configuration that no run uses (name: their names)."""
    return _ordered(Finding(HOSTVARS, node, ignored_text(node, names)) for node, names in ignored.items() if names)


def of_diagnose_commands(differences: Mapping[str, str]) -> list[Finding]:
    """Each node that runs another diagnose command than the cluster's setting names (name: the sentence)."""
    return _ordered(Finding(DIAGNOSE, node, text) for node, text in differences.items())


def ignored_text(node: str, names: Iterable[str]) -> str:
    """Why host variables of a node are not used, and what to do."""
    told = sorted(names)
    remove = " ".join(f"hostvars.{name}=default" for name in told)
    return (
        f"the host variables {', '.join(told)} of {node} are not used, because the configuration may hold only plain "
        f"ones: have root write them to etc/roundsman/host_vars/{node}.yml on the controller, then run "
        f"`roundsman node modify {node} {remove}`"
    )


def _ordered(found: Iterable[Finding]) -> list[Finding]:
    return sorted(found, key=lambda one: clusters.natural(one.node))
