"""What libvirt hosts become: nodes, and instances of the domains that are there.

Pure: it takes what `host_inventory_info` read, and tells what it would add to a cluster, what it leaves out and why.
What is on record already stays as it is.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ...module_utils.domain.values import errors, value_rules
from ..cluster import changes
from ..cluster import cluster as clusters
from ..settings import host_variables, instance_making, joining, parameter_rules
from . import adopted_disks, adopted_hosts, adopted_xml

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence


@dataclass(frozen=True)
class Adoption:
    """What is new: nodes as (UUID, fields), and instances; the lines tell what is left out and what to do by hand.

    `autostart` are the domains (UUIDs) of hosts (names) that start by themselves; `known` counts what was there.
    `host_variables` are those of new nodes (names) that the configuration does not hold: root writes them to a file.
    """

    nodes: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    instances: tuple[clusters.Instance, ...] = ()
    left_out: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
    autostart: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    host_variables: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    known: int = 0
    unread: tuple[str, ...] = ()
    """The hosts (names) of which nobody knows what they have."""

    @property
    def is_empty(self) -> bool:
        return not (self.nodes or self.instances)


def plan(
    cluster: clusters.Cluster,
    hosts: Sequence[adopted_hosts.Host],
    *,
    group: str,
    new_uuid: Callable[[], str],
    disables_autostart: bool = False,
) -> tuple[Adoption, clusters.Cluster]:
    """What a cluster gets of these hosts, and the cluster with it; new nodes go to the group of this name.

    Without a name that is the only group. A cluster without nodes gets the first new one as its master. What
    `disables_autostart` turns off is no advice.
    """
    found = _Adopter(cluster, new_uuid, disables_autostart=disables_autostart)
    problems = adopted_hosts.problems(hosts)
    found.left_out += [f"host {name}: {text}: {_remedy(text)}" for name, text in problems.items()]
    found.unread = tuple(problems)
    answered = [host for host in hosts if host.name not in problems]
    secondaries = _secondaries(found.cluster, answered, found.advice)
    for host in answered:
        found.node(host, group=group, secondary=secondaries.get(host.name, ""))
    members = [host for host in answered if _is_node(found.cluster, host.name)]
    found.domains(members)
    found.volume_group(members)
    return found.adoption(), found.cluster


def _remedy(problem: str) -> str:
    """What a person does about a host that could not be read."""
    if "Host key verification failed" in problem:
        return (
            "compare the fingerprint of `ssh-keyscan HOST | ssh-keygen -lf -` with the host's own, then run "
            "`ssh-keyscan HOST >> ~/.ssh/known_hosts` and adopt the host again"
        )
    if "Permission denied" in problem:
        return "run `ssh-copy-id USER@HOST`, or name a user and a key in the inventory, then adopt the host again"
    return "fix that, then adopt the host again"


@dataclass(frozen=True)
class _Draft:
    """An instance that may be recorded: where it was found, and the media that were taken out of its drives."""

    instance: clusters.Instance
    host: adopted_hosts.Host
    found: Sequence[tuple[adopted_hosts.Host, Mapping[str, Any]]]
    media: tuple[str, ...]


class _Adopter:
    def __init__(self, cluster: clusters.Cluster, new_uuid: Callable[[], str], *, disables_autostart: bool) -> None:
        self._disables_autostart = disables_autostart
        self.cluster = cluster
        self.left_out: list[str] = []
        self.advice: list[str] = []
        self.unread: tuple[str, ...] = ()
        self._new_uuid = new_uuid
        self._nodes: list[tuple[str, Mapping[str, Any]]] = []
        self._instances: list[clusters.Instance] = []
        self._drafts: list[_Draft] = []
        self._autostart: dict[str, list[str]] = {}
        self._host_variables: dict[str, Mapping[str, str]] = {}
        self._known = 0

    def adoption(self) -> Adoption:
        autostart = {name: tuple(uuids) for name, uuids in self._autostart.items()}
        lines = (tuple(self.left_out), tuple(self.advice))
        found = (tuple(self._nodes), tuple(self._instances), *lines)
        return Adoption(*found, autostart, self._host_variables, self._known, self.unread)

    def node(self, host: adopted_hosts.Host, *, group: str, secondary: str) -> None:
        """Make a node of a host, unless it is one."""
        if _is_node(self.cluster, host.name):
            self._known += 1
            return
        fields = adopted_hosts.node_fields(host, self.cluster.cluster.vg_name)
        fields |= {"group": group} if group else {}
        fields |= {"secondary_ip": secondary} if secondary else {}
        uuid = self._new_uuid()
        try:
            stated = joining.add(self.cluster, uuid, fields)
        except errors.InvalidInput as error:
            self.left_out.append(f"host {host.name}: {error}")
            return
        self._apply(stated)
        if self.cluster.cluster.master_node not in self.cluster.nodes:
            own = replace(self.cluster.cluster, master_node=uuid)
            self.cluster = replace(self.cluster, cluster=own)
        self._nodes.append((uuid, fields))
        others = {key: text for key, text in host.variables.items() if not host_variables.is_plain(key, text)}
        if others:
            self._host_variables[host.name] = others

    def domains(self, hosts: Sequence[adopted_hosts.Host]) -> None:
        """Make instances of the domains of hosts that are nodes."""
        own = self.cluster.cluster
        folders = [folder for folder in (own.file_storage_dir, own.shared_file_storage_dir) if folder]
        disks = adopted_disks.Disks({host.name: host.seen for host in hosts}, folders)
        by_name: dict[str, list[tuple[adopted_hosts.Host, Mapping[str, Any]]]] = {}
        for host in hosts:
            for domain in host.seen["libvirt"]["domains"]:
                by_name.setdefault(domain["name"], []).append((host, domain))
        for name in sorted(by_name, key=clusters.natural):
            try:
                self._instance(name, by_name[name], disks)
            except errors.InvalidInput as error:
                self.left_out.append(f"{name}: {error}")
        self._record()
        numbers = Counter(
            disk.minor for instance in self._instances for disk in instance.disks if disk.minor is not None
        )
        for minor in sorted(number for number, count in numbers.items() if count > 1):
            names = [
                instance.name for instance in self._instances if any(disk.minor == minor for disk in instance.disks)
            ]
            self.advice.append(
                f"{' and '.join(names)} have a DRBD device with the same minor {minor}: they cannot have a copy on the "
                "same node; give one of them another minor in its resource file"
            )

    def volume_group(self, hosts: Iterable[adopted_hosts.Host]) -> None:
        """Tell when the cluster's volume group is another one than the hosts have, by names that could be set."""
        groups = {name for host in hosts for name in host.seen["storage"]["groups"] if _is_volume_group(name)}
        wanted = self.cluster.cluster.vg_name
        if groups and wanted not in groups:
            told = ", ".join(sorted(groups))
            self.advice.append(
                f"the cluster's volume group is {wanted}, and the hosts have {told}: "
                f"`roundsman cluster modify vg_name={min(groups)}`"
            )

    def _instance(
        self, name: str, found: Sequence[tuple[adopted_hosts.Host, Mapping[str, Any]]], disks: adopted_disks.Disks
    ) -> None:
        host, domain = self._where(name, found)
        if _known(self.cluster, name):
            self._known += 1
            self._tell_of_known(name, host, found)
            return
        if domain["uuid"] in self.cluster.instances:
            other = self.cluster.instances[domain["uuid"]].name
            raise errors.InvalidInput(f"its UUID is that of the instance {other}: give the domain another one")
        kept = disks.layout(host.name, domain)
        secondary = tuple(self._node_uuid(peer) for peer in ([kept.peer] if kept.peer else []))
        instance = clusters.Instance(
            domain["uuid"],
            name,
            self._node_uuid(host.name),
            secondary,
            disk_template=kept.template,
            disks=kept.disks,
            nics=tuple(_nic(each) for each in domain["nics"]),
            memory=int(domain["memory"]),
            vcpus=int(domain["vcpus"]),
            hypervisor="kvm",
            admin_state="up" if domain["running"] else "down",
            hvparams={"domain_xml": domain["xml"]},
        )
        try:
            instance_making.adopt(self.cluster, instance)
            accepted = adopted_xml.accept(name, domain["xml"])
        except errors.InvalidInput as error:
            raise errors.InvalidInput(f"on {host.name}, {error}: change it there, and adopt it again") from error
        self._drafts.append(
            _Draft(replace(instance, hvparams={"domain_xml": accepted.xml}), host, found, accepted.media)
        )

    def _record(self) -> None:
        """Record the instances that share no disk and no UUID with another one, whichever host says so."""
        owners: dict[tuple[str, str], set[str]] = {}
        known = list(self.cluster.instances.values())
        for instance in [*known, *(draft.instance for draft in self._drafts)]:
            for claim in adopted_disks.claims(self.cluster, instance):
                owners.setdefault(claim, set()).add(instance.name)
        for draft in self._drafts:
            instance = draft.instance
            shared = [
                (claim, other)
                for claim in sorted(adopted_disks.claims(self.cluster, instance))
                for other in sorted(owners[claim] - {instance.name}, key=clusters.natural)
            ]
            made = [other for other in known if any(other.uuid in disk.name for disk in instance.disks)]
            if shared or made:
                (what, which), other = shared[0] if shared else (("the disk", instance.disks[0].name), made[0].name)
                self.left_out.append(
                    f"{instance.name}: {what} {which} is that of {other}, too: find out whose it is, change the "
                    "definition of the other domain, and adopt again"
                )
                continue
            self._apply(instance_making.adopt(self.cluster, instance))
            self._instances.append(instance)
            if draft.media:
                self.advice.append(
                    f"{instance.name} has {' and '.join(filter(None, draft.media)) or 'a medium'} in a drive: the "
                    "drive is recorded empty, because other nodes do not have it"
                )
            self._tell_of_definitions(instance.name, draft.host, draft.found)

    def _where(
        self, name: str, found: Sequence[tuple[adopted_hosts.Host, Mapping[str, Any]]]
    ) -> tuple[adopted_hosts.Host, Mapping[str, Any]]:
        """Where a domain is: where it runs, else where it is defined.

        Raises:
            InvalidInput: that is not one place.
        """
        running = [place for place in found if place[1]["running"]]
        places = running or found
        if len(places) == 1:
            return places[0]
        names = " and ".join(host.name for host, _ in places)
        if running:
            raise errors.InvalidInput(f"runs on {names}: stop it on all but one, and look which disk is right")
        record = self.cluster.node_name(self.cluster.instance(name).primary_node) if _known(self.cluster, name) else ""
        at_record = [place for place in places if place[0].name == record]
        if at_record:
            return at_record[0]
        raise errors.InvalidInput(
            f"is defined on {names} and runs on none: undefine it on all but one (`virsh undefine`)"
        )

    def _tell_of_known(
        self, name: str, host: adopted_hosts.Host, found: Sequence[tuple[adopted_hosts.Host, Mapping[str, Any]]]
    ) -> None:
        record = self.cluster.node_name(self.cluster.instance(name).primary_node)
        runs = any(domain["running"] for other, domain in found if other.name == host.name)
        if runs and record != host.name:
            self.advice.append(f"{name} runs on {host.name}, and the configuration says {record}: nothing was changed")
        self._tell_of_definitions(name, host, found)

    def _tell_of_definitions(
        self, name: str, host: adopted_hosts.Host, found: Sequence[tuple[adopted_hosts.Host, Mapping[str, Any]]]
    ) -> None:
        for other, domain in found:
            if other.name != host.name:
                self.advice.append(
                    f"{name} is defined on {other.name}, too: undefine it there, so that nobody starts a second copy "
                    f"(`virsh undefine {name}`)"
                )
            if domain["autostart"] and value_rules.is_uuid(domain["uuid"]):
                self._autostart.setdefault(other.name, []).append(domain["uuid"])
                if self._disables_autostart:
                    continue
                self.advice.append(
                    f"{name} starts by itself with {other.name}: after a failover that would be a second copy: "
                    "turn it off with --disable-autostart"
                )

    def _node_uuid(self, name: str) -> str:
        return self.cluster.node(name).uuid

    def _apply(self, stated: list[changes.Change]) -> None:
        self.cluster = changes.apply_all(self.cluster, stated, now=self.cluster.mtime)


def _is_node(cluster: clusters.Cluster, name: str) -> bool:
    return any(node.name == name for node in cluster.nodes.values())


def _known(cluster: clusters.Cluster, name: str) -> bool:
    return any(instance.name == name for instance in cluster.instances.values())


def _secondaries(cluster: clusters.Cluster, hosts: Sequence[adopted_hosts.Host], advice: list[str]) -> dict[str, str]:
    """The addresses that DRBD uses, where that is another one than the primary on every host: all nodes are alike."""
    own = adopted_hosts.replication_addresses(hosts)
    new = [host.name for host in hosts if not _is_node(cluster, host.name)]
    has_nodes = any(node.vm_capable for node in cluster.nodes.values())
    if has_nodes or all(name in own for name in new):
        return own
    for name, address in own.items():
        advice.append(f"DRBD reaches {name} at {address}, and not all hosts have such an address: none is recorded")
    return {}


def _is_volume_group(name: str) -> bool:
    try:
        parameter_rules.CLUSTER["vg_name"]("vg_name", name)
    except errors.InvalidInput:
        return False
    return True


def _nic(nic: Mapping[str, str]) -> clusters.Nic:
    return clusters.Nic(mac=nic["mac"].lower(), link=nic["link"] if nic["type"] == "bridge" else "")
