"""`roundsman instance add`, `remove` and `modify`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import typer

from ...plugins.module_utils.domain.values import errors
from ...plugins.plugin_utils.settings import all_problems, instance_making
from . import client, completion, jobs, output, parameters, questions

SIZE_UNITS = {"": 1, "M": 1, "G": 1024, "T": 1024 * 1024}
"""The MiB that each unit of a size stands for."""
Name = Annotated[
    str, typer.Argument(metavar="INSTANCE", help="The instance's name.", autocompletion=completion.instances)
]
New = Annotated[str, typer.Argument(metavar="INSTANCE", help="The name of the new instance.")]
Group = Annotated[
    str, typer.Option("--group", "-g", help="Only nodes of this group.", autocompletion=completion.groups)
]
Template = Annotated[str, typer.Option("--disk-template", "-t", help=f"One of {', '.join(instance_making.TEMPLATES)}.")]
Sizes = Annotated[str, typer.Option("--sizes", "-s", metavar="SIZE[,…]", help="Of each disk: 10G, 512M, or MiB.")]
Memory = Annotated[str, typer.Option("--memory", "-m", metavar="SIZE", help="As 4G, 512M, or MiB.")]
Cpus = Annotated[int, typer.Option("--vcpus", "-c", min=1, help="Virtual CPUs.")]
Net = Annotated[
    list[str],
    typer.Option(
        "--net",
        metavar="BRIDGE[,mac=…][,network=…]",
        help="An interface on a bridge; may be given often. Without it the instance has none.",
    ),
]
Nodes = Annotated[
    str,
    typer.Option(
        "--nodes",
        "-n",
        metavar="NODE[:SECONDARY]",
        help="Where it goes; what is not named an allocator chooses.",
        autocompletion=completion.nodes,
    ),
]
Allocator = Annotated[
    str, typer.Option("--iallocator", "-I", help="An external allocator; without it the cluster's, else our own.")
]
Params = Annotated[
    list[str], typer.Option("--hvparam", "-H", metavar="NAME=VALUE", help="Of the hypervisor; may be given often.")
]
Playbook = Annotated[
    Path | None,
    typer.Option("--os-playbook", metavar="FILE", help="Installs the operating system before the first start."),
]


def install(app: typer.Typer) -> None:
    """Give the instances the commands that make, change and remove them."""
    app.command(
        epilog="Example: roundsman instance add web1 -g rack1 -t drbd -s 20G,100G -m 4G -c 2 --net br0 "
        "--os-playbook debian.yml"
    )(add)
    app.command(epilog="Example: roundsman instance modify web1 memory=8G vcpus=4 hvparams.vnc=127.0.0.1")(modify)
    app.command(epilog="Example: roundsman instance remove web1")(remove)


def add(
    ctx: typer.Context,
    name: New,
    *,
    template: Template,
    memory: Memory,
    vcpus: Cpus = 1,
    disks: Sizes = "",
    group: Group = "",
    net: Net = [],  # noqa: B006 - Typer's way to say that there may be none
    nodes: Nodes = "",
    iallocator: Allocator = "",
    hypervisor: Annotated[str, typer.Option(help="Without it what all others have, else kvm.")] = "",
    hvparam: Params = [],  # noqa: B006 - as above
    os: Annotated[str, typer.Option("--os", "-o", help="A playbook of /etc/roundsman/os, without its .yml.")] = "",
    os_playbook: Playbook = None,
    no_start: Annotated[bool, typer.Option("--no-start", help="Only make it.")] = False,
    submit: parameters.Submit = False,
    dry_run: parameters.DryRun = False,
) -> None:
    """Make an instance and start it; the planner chooses its nodes, unless they are named.

    What broke off half-way is `unfinished`: the same command again goes on with it, and `instance remove` removes it.
    """
    primary, _, secondary = nodes.partition(":")
    problems, read = all_problems.Problems(), dict[str, Any]()
    with problems.noting():
        read["disks"] = [{"size": parse_size(size)} for size in disks.split(",") if size]
    with problems.noting():
        read["nics"] = [_nic(nic) for nic in net]
    with problems.noting():
        read["beparams"] = {"memory": parse_size(memory), "vcpus": vcpus}
    with problems.noting():
        read["hvparams"] = _hvparams(hvparam)
    problems.refuse()
    wanted: dict[str, Any] = {"name": name, "disk_template": template, **read, "start": not no_start}
    named = {"pnode": primary, "snode": secondary, "group_name": group, "iallocator": iallocator, "os": os}
    named |= {"hypervisor": hypervisor, "os_playbook": str(os_playbook.resolve()) if os_playbook else ""}
    wanted |= {key: value for key, value in named.items() if value}
    with client.find_daemon(ctx) as daemon:
        job = daemon.send("POST", "2", "instances", body=wanted, **({"dry-run": 1} if dry_run else {}))
        jobs.submitted(daemon, job, submit=submit)


def modify(
    ctx: typer.Context,
    name: Name,
    given: Annotated[list[str], typer.Argument(metavar="NAME=VALUE…", help="Parameters, and hvparams.NAME=VALUE.")],
    *,
    submit: parameters.Submit = False,
    dry_run: parameters.DryRun = False,
    form: output.Option = output.Format.TABLE,
) -> None:
    """Set memory, vcpus, auto_balance, spindle_use and parameters of the hypervisor, which `default` gives back.

    Memory, vcpus and hvparams take effect when the instance starts the next time.
    """
    hvparams = _hvparams([pair for pair in given if _is_hvparam(pair)])
    backend = {key: _value(key, text) for key, text in _pairs(given).items() if not _is_hvparam(key)}
    body = {**({"beparams": backend} if backend else {}), **({"hvparams": hvparams} if hvparams else {})}
    with client.find_daemon(ctx) as daemon:
        job = daemon.put("2", "instances", name, "modify", body=body, **({"dry-run": 1} if dry_run else {}))
        jobs.submitted(daemon, job, submit=submit, form=form)


def remove(
    ctx: typer.Context,
    name: Name,
    *,
    ignore_failures: Annotated[
        bool,
        typer.Option("--ignore-failures", help="Even if its primary is not contacted: what is there is left there."),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    submit: parameters.Submit = False,
) -> None:
    """Stop an instance and remove it with its disks."""
    questions.confirm(f"Remove {name} with all that is on its disks?", yes=yes)
    with client.find_daemon(ctx) as daemon:
        query = {"ignore_failures": 1} if ignore_failures else {}
        jobs.submitted(daemon, daemon.delete("2", "instances", name, **query), submit=submit)


def parse_size(text: str) -> int:
    """The MiB that a size means: `10G`, `512M`, or a number of MiB.

    Raises:
        InvalidInput: it is no size, or not a whole number of MiB.
    """
    found = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)\s*([MGT]?)(?:iB|B)?", text.strip(), re.IGNORECASE)
    if found is None:
        raise errors.InvalidInput(f"{text!r} is no size: write it as 10G, 512M or a number of MiB")
    size = float(found[1]) * SIZE_UNITS[found[2].upper()]
    if size != int(size) or size < 1:
        raise errors.InvalidInput(f"{text!r} is not a whole number of MiB")
    return int(size)


def _is_hvparam(name: str) -> bool:
    return name.startswith("hvparams.")


def _hvparams(given: list[str]) -> dict[str, str]:
    """The parameters of the hypervisor, which may have `hvparams.` before their names."""
    return {name.removeprefix("hvparams."): text for name, text in _pairs(given).items()}


def _value(name: str, text: str) -> Any:
    return parse_size(text) if name == "memory" else parameters.value(text)


def _pairs(given: list[str]) -> dict[str, str]:
    found = {}
    for pair in given:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise errors.InvalidInput(f"{pair!r} is no parameter: write NAME=VALUE")
        found[name] = text
    return found


def _nic(text: str) -> dict[str, str]:
    link, *others = text.split(",")
    found = {"link": link} if "=" not in link else _pairs([link])
    return {**found, **_pairs(others)}
