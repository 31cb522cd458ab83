"""`roundsman cluster adopt`: what libvirt hosts have becomes a cluster, or part of one."""

from __future__ import annotations

import dataclasses
import ipaddress
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...plugins.module_utils import own_addresses
from ...plugins.module_utils.domain.values import errors, tree
from ...plugins.plugin_utils import ansible_runs, daemon_client, unsafe_json
from ...plugins.plugin_utils.adoption import adopted_hosts, adoption
from ...plugins.plugin_utils.cluster import changes
from ...plugins.plugin_utils.cluster import cluster as clusters
from ...plugins.plugin_utils.config import store
from ...plugins.plugin_utils.settings import instance_making, joining
from . import (
    by_hand_audit,
    client,
    cluster_init,
    completion,
    configuration,
    host_variables,
    jobs,
    name_resolution,
    output,
    questions,
    watching,
    wording,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

RUN = "roundsman-adopt-"
Inventory = Annotated[
    Path, typer.Option("--inventory", "-i", metavar="FILE", help="An inventory of Ansible with the hosts.", exists=True)
]
Name = Annotated[str, typer.Option("--name", help="The cluster's name, where there is none yet.")]
Group = Annotated[
    str, typer.Option("--group", "-g", help="The node group of new nodes.", autocompletion=completion.groups)
]
Limit = Annotated[str, typer.Option("--limit", "-l", metavar="PATTERN", help="Only these hosts of the inventory.")]
Version = cluster_init.Version
Controller = Annotated[
    str,
    typer.Option(
        "--controller",
        metavar="NAME[:ADDRESS]",
        help="The machine of the daemon, which becomes the master of a new cluster. Default: this machine.",
    ),
]


def adopt(
    ctx: typer.Context,
    *,
    inventory: Inventory,
    name: Name = "",
    group: Group = "",
    limit: Limit = "",
    controller: Controller = "",
    primary_ip_version: Version = 4,
    become: Annotated[
        bool, typer.Option("--become", "-b", help="Be root on the hosts, as Ansible's --become.")
    ] = False,
    disable_autostart: Annotated[
        bool, typer.Option("--disable-autostart", help="Let no domain start by itself with its host any more.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be done.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    form: output.Option = output.Format.TABLE,
) -> None:
    """Make nodes and instances of libvirt hosts and the domains that are on them; the hosts are only read.

    What cannot be represented is reported and left out. What is on record already stays as it is, so that this can be
    repeated. Definitions stay on the hosts until Roundsman starts or moves the instance. Exit status 1 if a host could
    not be read.

    A new cluster gets the machine of the controller as its master, a node that takes no instances. If that is one of
    the hosts, it can never be evacuated or powered off, with what runs there.
    """
    where = _where(ctx)
    before = configuration.cluster(client.Daemon(where.root)) if where.config.exists() else None
    if before is None and not name:
        raise errors.Refused(f"there is no cluster at {where.config}: give the new one a name, with --name")
    version = before.cluster.primary_ip_version if before else primary_ip_version
    cluster = before or cluster_init.empty(name, version=version, now=time.time())
    with tempfile.TemporaryDirectory(prefix=RUN) as folder:
        run = _Run(Path(folder), inventory, limit=limit, become=become, where=where)
        run.play("adopt.yml", {"adopt_folder": folder, "adopt_file_dir": cluster.cluster.file_storage_dir})
        hosts = run.hosts(version)
        if not hosts:
            raise errors.Refused(f"{inventory} has no hosts to adopt")
        if before is None:
            cluster, hosts = _mastered(cluster, hosts, controller, version=version)
        found, after = adoption.plan(
            cluster, hosts, group=group, new_uuid=lambda: str(uuid.uuid4()), disables_autostart=disable_autostart
        )
        turned_off = {name: uuids for name, uuids in found.autostart.items() if disable_autostart}
        _show(found, after, where, is_new=before is None, form=form)
        _show_turned_off({} if form is output.Format.JSON else turned_off)
        if len(found.unread) == len(hosts):
            raise errors.Failed("no host could be read: see above what each needs")
        if dry_run or (found.is_empty and not turned_off):
            _require_read(found)
            return
        client.notice(ctx).tell(where.root, lambda: cluster.cluster.cluster_name)
        questions.confirm("Write this to the configuration?" if not found.is_empty else "Turn it off?", yes=yes)
        if not found.is_empty:
            for line in host_variables.write(where, found.host_variables):
                output.warning(line)
            _write(where, before, after, found, quiet=form is output.Format.JSON)
        if turned_off:
            run.play("adopt_autostart.yml", {"adopt_autostart": turned_off})
    _require_read(found)


def _require_read(found: adoption.Adoption) -> None:
    if found.unread:
        raise errors.Failed(
            f"{', '.join(found.unread)} could not be read: see above what each needs, then run this again"
        )


def _mastered(
    cluster: clusters.Cluster, hosts: list[adopted_hosts.Host], controller: str, *, version: int
) -> tuple[clusters.Cluster, list[adopted_hosts.Host]]:
    """A new cluster with the controller as its master; if that is one of the hosts, that one comes first.

    Raises:
        InvalidInput: this machine has no address that others reach, and none is given.
    """
    name = controller.partition(":")[0]
    is_it = [host.name == name if name else _is_here(host.address) for host in hosts]
    if any(is_it):
        place = is_it.index(True)
        return cluster, [hosts[place], *hosts[:place], *hosts[place + 1 :]]
    fields = cluster_init.node_fields(controller or socket.gethostname(), version=version)
    if not fields["primary_ip"]:
        raise errors.InvalidInput(
            f"{fields['name']}, the controller, has no address that the hosts can reach: give one with "
            "--controller NAME:ADDRESS"
        )
    node = str(uuid.uuid4())
    stated = joining.add(cluster, node, {**fields, "vm_capable": False})
    after = changes.apply_all(cluster, stated, now=cluster.ctime)
    return dataclasses.replace(after, cluster=dataclasses.replace(after.cluster, master_node=node)), hosts


def _is_here(address: str) -> bool:
    return bool(address) and own_addresses.is_own(address)


def _where(ctx: typer.Context) -> tree.Tree:
    """The tree of the controller, which need not be there yet."""
    chosen: Path | None = ctx.find_root().params.get("root")
    if chosen is None:
        return tree.Tree(client.find_daemon(ctx).root)
    return tree.Tree(chosen / "controller" if (chosen / "controller").is_dir() else chosen.resolve())


class _Run:
    """Runs of Ansible on the hosts of a user's inventory, with a folder for what they leave."""

    def __init__(self, folder: Path, inventory: Path, *, limit: str, become: bool, where: tree.Tree) -> None:
        self._folder, self._where, self._become = folder, where, become
        self._options = ["-i", str(inventory.resolve()), *(["--limit", limit] if limit else [])]
        self._options += ["--become"] if become else []
        # The hosts are reached as the person reaches them, who may have a configuration beside the inventory.
        self._config = ansible_runs.configuration_file(warn=output.warning, in_working_folder=True)
        self._stand = ansible_runs.working_folder(folder, warn=output.warning)

    def play(self, playbook: str, variables: dict[str, Any]) -> None:
        """Run a playbook; what it says goes to standard error. Hosts that fail are told of by what they left."""
        path = self._folder / "variables"
        path.write_bytes(unsafe_json.dumps(variables))
        program = str(Path(sys.executable).with_name("ansible-playbook"))
        command = [program, *self._options, "-e", f"@{path}", str(ansible_runs.PLAYBOOKS / playbook)]
        own = {
            "ANSIBLE_CONFIG": self._config,
            "ANSIBLE_HOME": str(self._folder / "ansible"),
            "ANSIBLE_INVENTORY_ENABLED": "host_list,script,auto,yaml,ini,toml",
            "ANSIBLE_STDOUT_CALLBACK": "roundsman.cluster.steps",
        }
        environment = {**os.environ, **ansible_runs.environment(self._where), **own}
        ended = subprocess.run(
            command, cwd=self._stand, env=environment, stdin=subprocess.DEVNULL, stdout=sys.stderr, check=False
        )
        # 2 and 4 are failed and unreachable hosts.
        if ended.returncode not in {0, 2, 4}:
            raise errors.Failed(f"ansible-playbook {playbook} ended with {ended.returncode}")

    def hosts(self, version: int) -> list[adopted_hosts.Host]:
        """The hosts in the order of the inventory, each with an address of this version of IP, if it has one."""
        told = [json.loads(path.read_text()) for path in self._folder.glob("*.json")]
        return [self._host(host, version) for host in sorted(told, key=lambda each: int(each["place"]))]

    def _host(self, told: dict[str, Any], version: int) -> adopted_hosts.Host:
        variables = {**told["variables"], **({"ansible_become": "true"} if self._become else {})}
        named = str(variables.get("ansible_host", told["name"]))
        address = named if _is_address(named) else name_resolution.address_of(named, version=version)
        return adopted_hosts.Host(told["name"], address, variables, told.get("seen", {}), told.get("problem", ""))


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _write(
    where: tree.Tree, before: clusters.Cluster | None, after: clusters.Cluster, found: adoption.Adoption, *, quiet: bool
) -> None:
    """Have the daemon take it over, or write it where none runs."""
    text = f"cluster adopt: {len(found.nodes)} nodes, {len(found.instances)} instances"
    if before is None:
        cluster_init.write(where, dataclasses.replace(after, serial_no=1))
        by_hand_audit.append_import(where, text, None, after)
        if not quiet:
            output.line(f"The cluster is made; start its daemon with `roundsmand --root {where.root}`.")
        return
    if daemon_client.answers(where.socket):
        body = {"nodes": found.nodes, "instances": [dataclasses.asdict(instance) for instance in found.instances]}
        with client.Daemon(where.root) as daemon:
            _settled(daemon, daemon.send("POST", "2", "adopt", body=body), quiet=quiet)
        return
    with store.locked(where, "roundsman cluster adopt"):
        cluster, now, stated = store.read(where.config), time.time(), list[changes.Change]()
        for uuid_, fields in found.nodes:
            stated += joining.add(changes.apply_all(cluster, stated, now=now), uuid_, fields)
        for instance in found.instances:
            stated += instance_making.adopt(changes.apply_all(cluster, stated, now=now), instance)
        by_hand_audit.append_import(where, text, cluster, store.commit(where, stated, now=now))


def _settled(daemon: client.Daemon, job: int, *, quiet: bool) -> None:
    if not quiet:
        jobs.follow(daemon, job)
        return
    ended = watching.until_ended(daemon, job, quiet=True)
    if ended["status"] != "success":
        raise errors.Failed(f"job {job} ended as {ended['status']}: {ended['text']}")


def _show(
    found: adoption.Adoption, cluster: clusters.Cluster, where: tree.Tree, *, is_new: bool, form: output.Format
) -> None:
    master = cluster.nodes.get(cluster.cluster.master_node)
    if form is output.Format.JSON:
        output.as_json(json.dumps({**dataclasses.asdict(found), "master": master.name if master is not None else None}))
        return
    if is_new and master is not None:
        _show_master(master)
    if found.nodes:
        rows = [
            (
                node.name,
                node.primary_ip,
                node.secondary_ip,
                node.ctotal,
                *map(wording.mebibytes, (node.mtotal, node.dtotal)),
            )
            for node in (cluster.nodes[uuid_] for uuid_, _ in found.nodes)
        ]
        output.table(("NEW NODE", "ADDRESS", "SECONDARY", "CPUS", "MEMORY", "DISK"), rows)
    if found.instances:
        output.line()
        output.table(
            ("NEW INSTANCE", "PRIMARY", "SECONDARY", "STATE", "DISKS", "MEMORY", "CPUS"),
            [_row(cluster, instance) for instance in found.instances],
        )
    host_variables.show(where, found.host_variables)
    _lines("Left out", found.left_out)
    _lines("To be done by hand", found.advice)
    if found.is_empty:
        output.line(f"Nothing is new: {found.known} are on record already.")


def _show_turned_off(turned_off: Mapping[str, Sequence[str]]) -> None:
    """Say of how many domains of each host (name) autostart is turned off."""
    for host, uuids in turned_off.items():
        told = "1 domain" if len(uuids) == 1 else f"{len(uuids)} domains"
        output.line(f"{told} on {host} {'is' if len(uuids) == 1 else 'are'} not started with its host any more.")


def _show_master(master: clusters.Node) -> None:
    told = f"The master, where the daemon runs, is {master.name} ({master.primary_ip or 'reached by its name'})"
    if not master.vm_capable:
        output.line(f"{told}: a node that takes no instances.")
        return
    output.line(
        f"{told}, one of the hosts: it can never be evacuated or powered off, with what runs there.", style="yellow"
    )
    output.line("A machine of its own is better: run this there, or name it with --controller NAME:ADDRESS.")


def _row(cluster: clusters.Cluster, instance: clusters.Instance) -> Sequence[object]:
    names = [disk.name for disk in instance.disks]
    disks = " ".join([instance.disk_template, *names])
    secondary = " ".join(map(cluster.node_name, instance.secondary_nodes))
    where = (instance.name, cluster.node_name(instance.primary_node), secondary, instance.admin_state)
    return (*where, disks, wording.mebibytes(instance.memory), instance.vcpus)


def _lines(title: str, lines: Sequence[str]) -> None:
    if lines:
        output.title(title)
        for line in lines:
            output.line(f"  {line}")
