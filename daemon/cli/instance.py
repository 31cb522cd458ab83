"""`roundsman instance`: what runs on the nodes."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ...plugins.plugin_utils.cluster import cluster as clusters
from . import client, completion, output, wording

app = typer.Typer(help="Instances: what runs on the nodes.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(help="The instance's name.", autocompletion=completion.instances)]


@app.command("list", epilog="Example: roundsman instance list -o json")
def list_(ctx: typer.Context, *, form: output.Option = output.Format.TABLE) -> None:
    """List the instances with their nodes.

    ON RECORD is the state in which an instance should be; no node is asked whether it is.
    """
    with client.find_daemon(ctx) as daemon:
        if form is output.Format.JSON:
            output.as_json(daemon.text("1", "instances"))
            return
        found = daemon.get("1", "instances")
    headers = ("INSTANCE", "PRIMARY", "SECONDARIES", "ON RECORD", "DISKS", "MEMORY")
    rows = [
        (
            instance["name"],
            instance["primary"],
            " ".join(instance["secondaries"]),
            _state(instance),
            instance["disk_template"],
            wording.mebibytes(instance["memory"]),
        )
        for instance in found
    ]
    output.table(headers, rows, empty="There are no instances.")


@app.command(epilog="Example: roundsman instance info instance3")
def info(ctx: typer.Context, name: Name, *, form: output.Option = output.Format.TABLE) -> None:
    """Show one instance, as it is on record: no node is asked."""
    with client.find_daemon(ctx) as daemon:
        text = daemon.text("1", "instances")
    found = output.selected(text, name=name, kind="instance")
    if form is output.Format.JSON:
        output.as_json(found.text)
        return
    instance = found.value
    output.facts(
        [
            ("Instance", instance["name"]),
            ("UUID", instance["uuid"]),
            ("Primary", instance["primary"]),
            ("Secondaries", " ".join(instance["secondaries"])),
            ("On record", _state(instance)),
            *([("Replica", instance["parted"]["text"])] if instance["parted"] else []),
            *([("Migration", _moving(instance["moving"]))] if instance["moving"] else []),
            ("Hypervisor", instance["hypervisor"]),
            ("Disks", f"{instance['disk_template']}, {wording.mebibytes(instance['disk'])}"),
            *((f"Disk {index}", _disk(disk)) for index, disk in enumerate(instance["disks"])),
            *((f"Interface {index}", _nic(nic)) for index, nic in enumerate(instance["nics"])),
            ("Memory", wording.mebibytes(instance["memory"])),
            ("CPUs", instance["vcpus"]),
            ("Tags", " ".join(instance["tags"])),
        ]
    )


def _moving(told: dict[str, str]) -> str:
    return f"{told['text']}: unless a job is at work on it (`roundsman jobs list`), {told['step']}"


def _state(instance: dict[str, Any]) -> str:
    return "unfinished" if clusters.UNFINISHED in instance["tags"] else str(instance["admin_state"])


def _disk(disk: dict[str, Any]) -> str:
    minor = "" if disk["minor"] is None else f", /dev/drbd{disk['minor']}"
    return wording.mebibytes(disk["size"]) + minor + (f", {disk['name']}" if disk["name"] else "")


def _nic(nic: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in nic.items() if value)
