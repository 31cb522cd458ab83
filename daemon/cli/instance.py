"""`roundsman instance`: what runs on the nodes."""

from __future__ import annotations

from typing import Annotated

import typer

from . import client, completion, output, wording

app = typer.Typer(help="Instances: what runs on the nodes.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(help="The instance's name.", autocompletion=completion.instances)]


@app.command("list", epilog="Example: roundsman instance list -o json")
def list_(ctx: typer.Context, *, form: output.Option = output.Format.TABLE) -> None:
    """List the instances with their nodes."""
    with client.of(ctx) as daemon:
        if form is output.Format.JSON:
            output.as_json(daemon.text("1", "instances"))
            return
        found = daemon.get("1", "instances")
    headers = ("INSTANCE", "PRIMARY", "SECONDARIES", "STATE", "DISKS", "MEMORY")
    rows = [
        (
            one["name"],
            one["primary"],
            " ".join(one["secondaries"]),
            one["admin_state"],
            one["disk_template"],
            wording.mebibytes(one["memory"]),
        )
        for one in found
    ]
    output.table(headers, rows, empty="There are no instances.")


@app.command(epilog="Example: roundsman instance info instance3")
def info(ctx: typer.Context, name: Name, *, form: output.Option = output.Format.TABLE) -> None:
    """Show one instance."""
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
            ("State", one["admin_state"]),
            ("Hypervisor", one["hypervisor"]),
            ("Disks", f"{one['disk_template']}, {wording.mebibytes(one['disk'])}"),
            ("Memory", wording.mebibytes(one["memory"])),
            ("CPUs", one["vcpus"]),
            ("Tags", " ".join(one["tags"])),
        ]
    )
