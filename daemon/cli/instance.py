"""`roundsman instance`: what runs on the nodes."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ...plugins.module_utils.domain import cluster as clusters
from . import client, completion, output, wording

app = typer.Typer(help="Instances: what runs on the nodes.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(help="The instance's name.", autocompletion=completion.instances)]


@app.command("list", epilog="Example: roundsman instance list -o json")
def list_(ctx: typer.Context, *, form: output.Option = output.Format.TABLE) -> None:
    """List the instances with their nodes.

    ON RECORD is the state in which an instance should be; no node is asked whether it is.
    """
    with client.of(ctx) as daemon:
        if form is output.Format.JSON:
            output.as_json(daemon.text("1", "instances"))
            return
        found = daemon.get("1", "instances")
    headers = ("INSTANCE", "PRIMARY", "SECONDARIES", "ON RECORD", "DISKS", "MEMORY")
    rows = [
        (
            one["name"],
            one["primary"],
            " ".join(one["secondaries"]),
            _state(one),
            one["disk_template"],
            wording.mebibytes(one["memory"]),
        )
        for one in found
    ]
    output.table(headers, rows, empty="There are no instances.")


@app.command(epilog="Example: roundsman instance info instance3")
def info(ctx: typer.Context, name: Name, *, form: output.Option = output.Format.TABLE) -> None:
    """Show one instance, as it is on record: no node is asked."""
    with client.of(ctx) as daemon:
        text = daemon.text("1", "instances")
    found = output.selected(text, name=name, kind="instance")
    if form is output.Format.JSON:
        output.as_json(found.text)
        return
    one = found.value
    output.facts(
        [
            ("Instance", one["name"]),
            ("UUID", one["uuid"]),
            ("Primary", one["primary"]),
            ("Secondaries", " ".join(one["secondaries"])),
            ("On record", _state(one)),
            *([("Replica", one["parted"]["text"])] if one["parted"] else []),
            ("Hypervisor", one["hypervisor"]),
            ("Disks", f"{one['disk_template']}, {wording.mebibytes(one['disk'])}"),
            *((f"Disk {index}", _disk(disk)) for index, disk in enumerate(one["disks"])),
            *((f"Interface {index}", _nic(nic)) for index, nic in enumerate(one["nics"])),
            ("Memory", wording.mebibytes(one["memory"])),
            ("CPUs", one["vcpus"]),
            ("Tags", " ".join(one["tags"])),
        ]
    )


def _state(one: dict[str, Any]) -> str:
    return "unfinished" if clusters.UNFINISHED in one["tags"] else str(one["admin_state"])


def _disk(one: dict[str, Any]) -> str:
    minor = "" if one["minor"] is None else f", /dev/drbd{one['minor']}"
    return wording.mebibytes(one["size"]) + minor + (f", {one['name']}" if one["name"] else "")


def _nic(one: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in one.items() if value)
