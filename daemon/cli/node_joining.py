"""`roundsman node add`: a node joins, or joins again."""

from __future__ import annotations

from typing import Annotated

import typer

from . import client, completion, jobs, name_resolution, parameters

Group = Annotated[
    str, typer.Option("--group", "-g", help="Its node group; the same as group=…", autocompletion=completion.groups)
]
Secondary = Annotated[
    str,
    typer.Option(
        "--secondary-ip",
        metavar="IP",
        help="Its IPv4 address for migrations and copies of disks; all nodes have one, or none has.",
    ),
]
Readd = Annotated[
    bool,
    typer.Option(
        "--readd",
        help="A node that was repaired or reinstalled: it keeps its instances, and is in service again.",
    ),
]
Given = Annotated[list[str], typer.Argument(metavar="[NAME=VALUE]…", help="Parameters of the node.")]


def add(
    ctx: typer.Context,
    name: str,
    given: Given = [],  # noqa: B006 - Typer's way to say that there may be none
    *,
    group: Group = "",
    secondary_ip: Secondary = "",
    readd: Readd = False,
    submit: parameters.Submit = False,
    dry_run: parameters.DryRun = False,
) -> None:
    """Add a node; sizes in MiB, `hostvars.NAME=VALUE` are host variables of Ansible with which it is reached.

    They are ansible_host, ansible_port, ansible_user, ansible_become, ansible_become_user and ansible_become_method.
    Others stand in a file of root's, etc/roundsman/host_vars/NODE.yml.

    Without a primary_ip its name is resolved, in the version of IP that the cluster's primary addresses have.
    """
    fields = {"name": name, **parameters.read(given)}
    fields |= {key: value for key, value in (("group", group), ("secondary_ip", secondary_ip)) if value}
    fields |= {"readd": True} if readd else {}
    with client.find_daemon(ctx) as daemon:
        if "primary_ip" not in fields:
            version = daemon.get("2", "info").get("primary_ip_version", 4)
            found = name_resolution.address_of(name, version=version)
            fields |= {"primary_ip": found} if found else {}
        query = {"dry-run": 1} if dry_run else {}
        job = daemon.send("POST", "2", "nodes", body=fields, **query)
        jobs.submitted(daemon, job, submit=submit)
