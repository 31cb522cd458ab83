"""What is wrong with a cluster: its power out of band (seed 001, "Addition to gnt-cluster verify"), and more; pure."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ..module_utils.domain.power import power_record
from .cluster import cluster as clusters
from .silent_nodes import dead_node_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ..module_utils.domain.power import power
    from . import whereabouts

PROGRAM, POWERED, HOSTVARS, DIAGNOSE = "oob_program", "powered", "hostvars", "diagnose_command"
LEFT_BEHIND = "left_behind"
REPLICA = "replica"
INSTANCES = "instances"
SETTINGS = "settings"
DOCUMENT = "configuration"
MOST_PER_NODE, TEXT_LIMIT = 100, 500
"""How many findings of one check about one node are told, and how long each may be: a node may answer anything."""


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
    told = [
        (outcome.name, power_record.difference(outcome.name, powered=records[outcome.name], outcome=outcome))
        for outcome in outcomes
    ]
    return _ordered(Finding(POWERED, name, text) for name, text in told if text)


def of_instances(differences: Iterable[whereabouts.Difference]) -> list[Finding]:
    """Each instance that does not run where it should, or runs where it should not."""
    return _ordered(Finding(INSTANCES, difference.node, difference.text) for difference in differences)


def bounded(found: Iterable[Finding], *, escape: Callable[[str], str]) -> list[Finding]:
    """The findings with texts that can be printed, `escape`d and cut; of each check at most so many about a node."""
    told: list[Finding] = []
    counts: dict[tuple[str, str], int] = {}
    for finding in found:
        key = (finding.check, finding.node)
        counts[key] = counts.get(key, 0) + 1
        if counts[key] <= MOST_PER_NODE:
            told.append(Finding(finding.check, finding.node, _cut(finding.text, escape)))
    for (check, node), count in counts.items():
        if count > MOST_PER_NODE:
            told.append(Finding(check, node, f"and {count - MOST_PER_NODE} more on {node}"))
    return told


def _cut(text: str, escape: Callable[[str], str]) -> str:
    cut = text if len(text) <= TEXT_LIMIT else f"{text[:TEXT_LIMIT]} ... ({len(text)} characters)"
    return escape(cut).replace("\n", "\\n").replace("\t", "\\t")


def of_left_behind(left: Mapping[str, Iterable[str]]) -> list[Finding]:
    """Each node that still holds replicas which instances (names) left there while it did not answer."""
    text = (
        "replicas of {1} were left on {0}, which did not answer; a job removes them when {0} is back in service and "
        "the other replicas are in sync and have everything that is on them; one that may hold writes of its own is "
        "kept, and `roundsman instance repair-disks NAME --discard {0}` removes it"
    )
    named = {node: ", ".join(sorted(names)) for node, names in left.items()}
    return _ordered(Finding(LEFT_BEHIND, node, text.format(node, names)) for node, names in named.items() if names)


def of_host_variables(ignored: Mapping[str, Iterable[str]]) -> list[Finding]:
    """Each node with host variables in the configuration that no run uses (name: their names)."""
    return _ordered(Finding(HOSTVARS, node, ignored_text(node, names)) for node, names in ignored.items() if names)


def of_refused(refused: Mapping[str, str]) -> list[Finding]:
    """Each node that no run can have as a host (name: the reason)."""
    return _ordered(Finding(HOSTVARS, node, f"{node} was not asked: {reason}") for node, reason in refused.items())


def of_diagnose_commands(differences: Mapping[str, str]) -> list[Finding]:
    """Each node that runs another diagnose command than the cluster's setting names (name: the sentence)."""
    return _ordered(Finding(DIAGNOSE, node, text) for node, text in differences.items())


def of_parted(degraded: Iterable[Mapping[str, str]]) -> list[Finding]:
    """Each instance that writes without its secondary (`node` is its primary, `text` the sentence)."""
    return _ordered(Finding(REPLICA, entry["node"], entry["text"]) for entry in degraded)


def of_settings(cluster: clusters.Cluster) -> list[Finding]:
    """Each setting about dead nodes that does nothing, or cannot do what it is set for; of the master."""
    master = cluster.node_name(cluster.cluster.master_node)
    return [Finding(SETTINGS, master, text) for text in dead_node_settings.problems(cluster)]


def of_document(cluster: clusters.Cluster, lines: Iterable[str]) -> list[Finding]:
    """Each value of the configuration that no command sets and no import takes (a line for each); of the master."""
    master = cluster.node_name(cluster.cluster.master_node)
    cure = "no import takes that: correct it with a command, or in an export that is imported then"
    return [Finding(DOCUMENT, master, f"{line}; {cure}") for line in lines]


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
    return sorted(found, key=lambda finding: clusters.natural(finding.node))
