"""Nodes that do not answer: what is concluded from silence, and only with the word of a BMC, or of a person.

Silence alone moves nothing. Instances start elsewhere only when the power of their node is known to be off: fencing
before failover (DESIGN, "Maintenance"; seed 001, "Emergency Power Off" for what a BMC's word is worth).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Iterable, Mapping, NamedTuple, Optional, Sequence, Tuple

from ...module_utils.domain.agent import diagnosis
from ...module_utils.domain.power import power
from ...module_utils.domain.values import errors, json_values
from ..cluster import cluster as clusters
from ..cluster import incidents, known_off, roles
from ..disks import replica_texts
from . import witnesses

KIND = "dead-node"
POLICIES = ("none", "failover", "fence")
_FAILING_OVER = frozenset({"failover", "fence"})
"""The policies by which instances of a node that is known to be off start elsewhere."""
_NOT_ALIVE = frozenset(
    {witnesses.Finding.DEAD, witnesses.Finding.DOUBT, witnesses.Finding.UNKNOWN, witnesses.Finding.NONE}
)
"""The findings by which no peer is connected to a node: one that reads off may be commanded off."""


@dataclass(frozen=True)
class Silence:
    """How often in a row a node's agent has not answered, and when it did so for the first time (unix seconds).

    `ssh_misses` is how often in a row its SSH server did not greet either; that is asked where the policy is `fence`.
    `answered` is when its agent answered last (unix seconds), 0 where it has not since the daemon began. `unsigned` is
    how often something else answered since then that the node did not sign.
    """

    misses: int
    since: float
    ssh_misses: int = 0
    answered: float = 0.0
    unsigned: int = 0

    @property
    def questions(self) -> int:
        """How many questions in a row brought no answer that the node signed."""
        return self.misses + self.unsigned

    @property
    def text(self) -> str:
        if not self.unsigned:
            return f"its agent has not answered {self.misses} times"
        return f"what answers as its agent has signed none of {self.questions} answers"


@dataclass(frozen=True)
class Reading:
    """What is known of a node's power since it fell silent.

    `state` is what its BMC said last; `is_commanded` that off was to be commanded then, `is_fenced` that the BMC took
    it, and read off afterwards. `rejected` is why a BMC that reads off took none (a `power.Reason`), '' otherwise.
    `alive` says what of the node still answers, '' for nothing.
    """

    state: power.State
    is_commanded: bool = False
    is_fenced: bool = False
    rejected: str = ""
    alive: str = ""


def reading(outcome: power.Outcome) -> Reading:
    """What the outcome of a power command says of a silent node; nothing but a confirmed fence is one."""
    fences = outcome.command.fences
    return Reading(
        outcome.after,
        is_commanded=fences,
        is_fenced=fences and outcome.confirmed,
        rejected=outcome.reason or "" if power.is_rejected(outcome) else "",
        alive=outcome.text or "" if outcome.reason == power.Reason.ANSWERS.value else "",
    )


class Step(Enum):
    """What is to be done next about a silent node."""

    WAIT = "wait"
    ASK = "await what its BMC says"
    CONFIRM = "command it off, as it reads, and read it back"
    FENCE = "power it off"
    FAIL_OVER = "start its instances elsewhere"


COMMANDING = frozenset({Step.CONFIRM, Step.FENCE})
"""The steps that command a BMC."""


@dataclass(frozen=True)
class Verdict:
    """The next step, why, and for one that waits what would lift that; empty texts when there is nothing to tell."""

    step: Step
    reason: str = ""
    unblock: str = ""


def judge(
    cluster: clusters.Cluster,
    node: clusters.Node,
    *,
    silence: Silence,
    silences: Mapping[str, Silence],
    answering: int,
    reads: Optional[Reading] = None,
    peers: Sequence[witnesses.Peer] = (),
    booting: str = "",
) -> Verdict:
    """What to do about a node that does not answer.

    `silences` holds every silent node (UUIDs), `answering` is how many nodes answered the last poll; `reads` is what
    is known of the node's power since it fell silent, None when its BMC was not asked yet; `peers` are its DRBD peers
    that answer, with their words of it; `booting` says that it was powered on a short time ago, '' else. Rules, of
    which the first that applies decides; each that waits says what would lift it. Of a node that has lived since it was
    known to be off (`has_lived`) neither the record nor an earlier fence or statement counts.
    """
    least = cluster.maintenance.settings.dead_after
    if not least or silence.questions < least:
        return Verdict(Step.WAIT)
    told = silence.text
    if not answering:
        return Verdict(Step.WAIT, f"{told}, and no agent answers: the fault may be here", "an agent that answers")
    if node.uuid == cluster.cluster.master_node:
        return Verdict(
            Step.WAIT, f"{told}, and it is the master", f"the master role on another node: {roles.TO_MOVE_MASTER}"
        )
    if known_off.is_stated_off(node):
        return _off(cluster, node, f"{told}, and a person has stated that it is off")
    second = witnesses.judge(peers)
    if second.finding is witnesses.Finding.DEAF:
        told = f"{told}, but {second.text}"
    if known_off.has_lived(node):
        told = f"{told}, and {lived_text(node)}"
    if not _has_bmc(cluster, node):
        cure = to_confirm_again(cluster, node) if known_off.has_lived(node) else to_confirm(node)
        return Verdict(Step.WAIT, f"{told}, and it has no BMC that could say whether it is off", cure)
    verdict = _by_its_bmc(cluster, node, told, reads=reads, silences=silences, second=second)
    return _unless_it_may_live(node, verdict, told, answers=silence.misses < least, booting=booting)


def _unless_it_may_live(node: clusters.Node, verdict: Verdict, told: str, *, answers: bool, booting: str) -> Verdict:
    """No node is fenced at whose address anything answers, or that may still boot."""
    if verdict.step is Step.FENCE and answers:
        cure = f"its agent repaired (`roundsman node info {node.name}` shows what is wrong with its answers)"
        return Verdict(Step.WAIT, told, f"{cure}, or {_power_off_by_hand(node)}")
    if verdict.step is Step.FENCE and booting:
        return Verdict(Step.WAIT, f"{told}, and {booting}", f"its answer, or {_power_off_by_hand(node)}")
    return verdict


def unless_isolated(node: clusters.Node, verdict: Verdict, *, isolation: str) -> Verdict:
    """The verdict of a controller that reaches less than half of the nodes that vote, where a text says so.

    It commands no BMC, not even to power off what reads off: its readings may be wrong, or older than what another
    controller has commanded.
    """
    if not isolation or verdict.step not in COMMANDING:
        return verdict
    cure = f"answers of at least half of the nodes that vote, or {_power_off_by_hand(node)}"
    return Verdict(Step.WAIT, f"{verdict.reason}; {isolation}: the fault may be here", cure)


def _power_off_by_hand(node: clusters.Node) -> str:
    return f"its power off: `roundsman node power off {node.name} --force`"


def _by_its_bmc(
    cluster: clusters.Cluster,
    node: clusters.Node,
    told: str,
    *,
    reads: Optional[Reading],
    silences: Mapping[str, Silence],
    second: witnesses.Testimony,
) -> Verdict:
    if reads is not None and (reads.is_commanded or reads.alive):
        return _commanded(cluster, node, told, reads=reads, silences=silences, second=second)
    if not node.powered and not known_off.has_lived(node):
        return _reads_off(cluster, node, f"{told}, and it is recorded as powered off", second=second)
    if reads is None:
        return Verdict(Step.ASK, told)
    if reads.state is power.State.OFF:
        return _reads_off(cluster, node, f"{told}, and its BMC says that it is off", second=second)
    if reads.state is power.State.ON:
        told = f"{told}, and its BMC says that it is on: it may run its instances"
        return _on(cluster, node, told, silences=silences, second=second)
    told = f"{told}, and its BMC does not answer either: it may run its instances"
    return Verdict(Step.WAIT, told, to_confirm(node))


def _commanded(
    cluster: clusters.Cluster,
    node: clusters.Node,
    told: str,
    *,
    reads: Reading,
    silences: Mapping[str, Silence],
    second: witnesses.Testimony,
) -> Verdict:
    """Off was to be commanded. If it was not read back, what its BMC said before was wrong, or it does not do it."""
    if reads.is_fenced:
        return _off(cluster, node, f"{told}, and its BMC reads off after it was commanded off")
    if reads.alive:
        cure = f"its repair, or its power off by a person: `roundsman node power off {node.name} --force`"
        return Verdict(Step.WAIT, f"{told}, but {reads.alive}", cure)
    if reads.state is power.State.ON:
        told = f"{told}, and its BMC says that it is on when it is commanded off: it may run its instances"
        return _on(cluster, node, told, silences=silences, second=second)
    if reads.rejected:
        told = f"{told}, and its BMC reads off but accepted no command to power off ({reads.rejected}): it may run its"
        return Verdict(Step.WAIT, f"{told} instances", f"its BMC repaired, or {to_confirm(node)}")
    wrong = "does not answer" if reads.state is power.State.UNKNOWN else "does not stay with its answer"
    told = f"{told}, and its BMC {wrong} when it is commanded off: it may run its instances"
    return Verdict(Step.WAIT, told, to_confirm(node))


def _off(cluster: clusters.Cluster, node: clusters.Node, told: str) -> Verdict:
    if known_off.has_lived(node):
        return _doubted(cluster, node, told)
    if cluster.maintenance.settings.dead_node_policy in _FAILING_OVER:
        return Verdict(Step.FAIL_OVER, told)
    return Verdict(Step.WAIT, told, _to_fail_over(node))


def _reads_off(cluster: clusters.Cluster, node: clusters.Node, told: str, *, second: witnesses.Testimony) -> Verdict:
    """Off as it was before anybody commanded it is no fence: its BMC may be wrong."""
    if known_off.has_lived(node):
        return _doubted(cluster, node, told)
    is_outvoted = second.finding is witnesses.Finding.DEAF and second.is_outvoted
    if not (is_outvoted or second.finding in _NOT_ALIVE):
        return Verdict(Step.WAIT, f"{told}: it may run its instances", f"its BMC repaired, or {to_confirm(node)}")
    if cluster.maintenance.settings.dead_node_policy in _FAILING_OVER:
        return Verdict(Step.CONFIRM, told)
    return Verdict(Step.WAIT, told, _to_fail_over(node))


def _doubted(cluster: clusters.Cluster, node: clusters.Node, told: str) -> Verdict:
    """The BMC or the person was wrong before, or the sign of life is: the same word again does not settle it."""
    return Verdict(Step.WAIT, f"{told}: it may run its instances", to_confirm_again(cluster, node))


def _to_fail_over(node: clusters.Node) -> str:
    return f"`roundsman evacuate {node.name} --failover`, or dead_node_policy=failover"


def _on(
    cluster: clusters.Cluster,
    node: clusters.Node,
    told: str,
    *,
    silences: Mapping[str, Silence],
    second: witnesses.Testimony,
) -> Verdict:
    """Power off what is on and silent, by the policy, where its peers have lost it, too: a second witness.

    Only a finding that is named here has it powered off.
    """
    by_hand = _power_off_by_hand(node)
    if cluster.maintenance.settings.dead_node_policy != "fence" or second.finding is witnesses.Finding.DEAF:
        return Verdict(Step.WAIT, told, f"its agent or its management link repaired, or {by_hand}")
    if second.finding is witnesses.Finding.DEAD:
        lack = None
    elif second.finding is witnesses.Finding.NONE:
        lack = _lack_without_peers(cluster, node, silences)
    else:
        lack = "", second.cure or "the word of its DRBD peers"
    if lack is not None:
        reason = ", and ".join(filter(None, [second.text, lack[0]]))
        return Verdict(Step.WAIT, f"{told}; {reason}", f"{lack[1]}, or {by_hand}")
    held = storm(cluster, silences)
    if held:
        return Verdict(Step.WAIT, f"{told}; {held}", "fewer silent nodes, or a higher storm_fraction or storm_minimum")
    return Verdict(Step.FENCE, f"{told}; {second.text}")


def _lack_without_peers(
    cluster: clusters.Cluster, node: clusters.Node, silences: Mapping[str, Silence]
) -> Optional[Tuple[str, str]]:
    """What a node is not powered off for of which no peer can say anything, and what lifts that; None for nothing."""
    least, quiet = cluster.maintenance.settings.dead_after, silences[node.uuid].ssh_misses
    if quiet < least:
        return f"its SSH server has been silent for {quiet} of {least} questions in a row", "more questions"
    if _is_master_alone(cluster, node, silences):
        return "of all other nodes only the master answers: the fault may be here", "another node that answers"
    return None


def _is_master_alone(cluster: clusters.Cluster, node: clusters.Node, silences: Mapping[str, Silence]) -> bool:
    """Whether every other node than the master, which needs no network to answer here, is silent; not of a pair."""
    others = [
        uuid
        for uuid, other in cluster.nodes.items()
        if uuid not in {node.uuid, cluster.cluster.master_node} and clusters.reachable(cluster, other)
    ]
    return bool(others) and silences.keys() >= set(others)


def storm(cluster: clusters.Cluster, silences: Mapping[str, Silence]) -> str:
    """Why so many silent nodes are no reason to power any of them off, or ''; the limits are those of evacuations."""
    settings = cluster.maintenance.settings
    nodes = {uuid for uuid, node in cluster.nodes.items() if node.vm_capable and not node.offline}
    silent = {uuid for uuid, silence in silences.items() if uuid in nodes and silence.misses >= settings.dead_after}
    asking = {incident.node for incident in cluster.maintenance.incidents if incident.is_asking} & nodes
    count = len(silent | asking)
    if count >= settings.storm_minimum and count > settings.storm_fraction * len(nodes):
        return f"storm: {count} of {len(nodes)} nodes are silent or ask for evacuation, so the fault may be elsewhere"
    return ""


def to_confirm(node: clusters.Node) -> str:
    """What a person must see and say of a node of which no BMC tells."""
    return (
        f"a person who sees that {node.name} is off, keeps it so, and says it: `roundsman node confirm-off {node.name}`"
    )


def lived_text(node: clusters.Node) -> str:
    """That a node that was known to be off has lived since, and when."""
    return f"at {replica_texts.clock(node.alive_at)} it showed that it lives, after it was known to be off"


def to_confirm_again(cluster: clusters.Cluster, node: clusters.Node) -> str:
    """What a person does about a node that was known to be off, and has lived since, and how it returns to service."""
    step = to_know_power(cluster, node)
    return f"{step}. {_way_back(cluster, node)}" if _may_run_second_copies(cluster, node) else step


def to_know_power(cluster: clusters.Cluster, node: clusters.Node) -> str:
    """What a person does so that the power of a node is known that was known to be off, and has lived since."""
    name, off, on = node.name, f"`roundsman node confirm-off {node.name}`", _to_state_on(node)
    if _may_run_second_copies(cluster, node):
        return _to_power_off(cluster, node)
    if _has_bmc(cluster, node):
        on = f"`roundsman node power on {name}`, or {on} if its BMC does not answer"
        off = f"`roundsman node power off {name} --force`, or {off} if its BMC does not answer"
    return f"check on site whether {name} is on; if it is on, run {on}; if it is off and will stay off, run {off}"


def _may_run_second_copies(cluster: clusters.Cluster, node: clusters.Node) -> bool:
    """Whether instances of a node that was known to be off may have been started elsewhere, and none should run there.

    A node that is still the primary of some is contacted again once it is recorded as on: its reports show the others.
    """
    return node.vm_capable and (node.offline or not _running(cluster, node))


def _to_power_off(cluster: clusters.Cluster, node: clusters.Node) -> str:
    name, running = node.name, _running(cluster, node)
    copies = f"second copies of instances that were started elsewhere may run on {name}"
    stops = f", which also stops {running}" if running else ""
    stated = f"run `roundsman node confirm-off {name}`"
    if not _has_bmc(cluster, node):
        return f"{copies}: power it off on site{stops}, and {stated}"
    off = f"power it off with `roundsman node power off {name} --force`{stops}"
    return f"{copies}: {off}; if its BMC does not answer, power it off on site and {stated}"


def _way_back(cluster: clusters.Cluster, node: clusters.Node) -> str:
    """How a node that was powered off by `_to_power_off` returns to service: it is looked at before."""
    name, by_hand = node.name, f"power it on by hand and run {_to_state_on(node)}"
    on, forced = by_hand, ""
    if _has_bmc(cluster, node):
        on = f"run `roundsman node power on {name}`; if its BMC does not answer, {by_hand}"
        forced = " (with `--force` if its BMC does not answer)"
    online = f"`roundsman node online {name}`{forced}, which refuses a node that runs second copies"
    return f"To bring it back, {on}. Then run {online}"


def _to_state_on(node: clusters.Node) -> str:
    """The command by which a person states that a node is on that is recorded or stated to be off."""
    command = f"confirm-off {node.name} --undo" if node.powered else f"modify {node.name} --powered yes"
    return f"`roundsman node {command}`"


def _has_bmc(cluster: clusters.Cluster, node: clusters.Node) -> bool:
    return clusters.parameter(cluster, node, "oob_program") is not None


def _running(cluster: clusters.Cluster, node: clusters.Node) -> str:
    """The instances that should run on a node, by the record."""
    return _up(cluster.primaries(node.uuid))


def _up(instances: Iterable[clusters.Instance]) -> str:
    return ", ".join(instance.name for instance in instances if instance.is_up)


class ByHand(NamedTuple):
    """What is wrong with a node that does not answer, or is off, and what a person does about it."""

    what: str
    step: str


def by_hand(
    cluster: clusters.Cluster, node: clusters.Node, *, primaries: Iterable[clusters.Instance], hangs: bool = False
) -> Optional[ByHand]:
    """What a person does about the instances of a node that does not answer, or is off; None if none should run there.

    `primaries` are those whose primary it is. Of a node that has lived since it was known to be off also what is to be
    done about the node itself. `hangs` says that it accepts connections, so that its network is no reason.
    """
    names = _up(primaries)
    over = f"fail over with `roundsman evacuate {node.name} --failover`"
    if known_off.has_lived(node):
        cure = to_confirm_again(cluster, node)
        if not names or node.offline:
            return ByHand(f"{node.name} may be on, because {lived_text(node)}", cure)
        return ByHand(f"{node.name} is the primary of {names}, and {lived_text(node)}", f"{cure}, then {over}")
    if not names or node.offline:
        return None
    if known_off.is_off(node):
        return ByHand(f"{node.name} is off and is the primary of {names}", f"power it on, or {over}")
    off = f"power it off with `roundsman node power off {node.name} --force`"
    if not _has_bmc(cluster, node):
        off = f"power it off on site and run `roundsman node confirm-off {node.name}`"
    silent = f"{node.name} does not answer and is the primary of {names}"
    first = "see on its console what hangs there" if hangs else "restore its network link"
    return ByHand(silent, f"{first}; if it stays silent, {off}, then {over}")


def step_by_hand(cluster: clusters.Cluster, node: clusters.Node, *, hangs: bool = False) -> str:
    """The same in a sentence without a full stop, or ''."""
    found = by_hand(cluster, node, primaries=cluster.primaries(node.uuid), hangs=hangs)
    return "" if found is None else f"{found.what}: {found.step}"


def report(node: clusters.Node) -> diagnosis.Diagnosis:
    """What stands for the report of a dead node: the same text each time, so that it is one incident."""
    text = json.dumps(
        {"status": diagnosis.Status.EVACUATE_FAILOVER.value, "details": {"kind": KIND, "node": node.name}}
    )
    return diagnosis.parse(text)


def is_of_a_dead_node(incident: incidents.Incident) -> bool:
    """Whether an incident was noted for silence, and not for what the node said."""
    return _is_of_silence(incident.original)


@lru_cache(maxsize=1000)
def _is_of_silence(original: str) -> bool:
    try:
        value = json_values.parse(original)
    except errors.InvalidInput:
        return False
    details = value.get("details") if isinstance(value, dict) else None
    return isinstance(details, dict) and details.get("kind") == KIND and set(details) == {"kind", "node"}


def observed(cluster: clusters.Cluster, silences: Mapping[str, Silence]) -> Mapping[str, diagnosis.Diagnosis]:
    """The nodes (UUIDs) that are still dead: noted so before, and off, or silent as before."""
    found = {}
    for incident in cluster.maintenance.incidents:
        node = cluster.nodes.get(incident.node)
        if node is None or incident.returned_at or not is_of_a_dead_node(incident):
            continue
        if known_off.is_off(node) or node.uuid in silences:
            found[node.uuid] = report(node)
    return found
