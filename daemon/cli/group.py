"""`roundsman group`: the node groups."""

from __future__ import annotations

import json
from typing import Any

import typer

from . import client, output

app = typer.Typer(help="Node groups: instances keep their nodes within one.", no_args_is_help=True)


@app.command("list", epilog="Example: roundsman group list -o json")
def list_(ctx: typer.Context, *, form: output.Option = output.Format.TABLE) -> None:
    """List the node groups with their nodes and the number of their instances."""
    with client.of(ctx) as daemon:
        found = groups(daemon.get("1", "nodes"))
    if form is output.Format.JSON:
        output.as_json(json.dumps(found))
        return
    rows = [(one["name"], len(one["nodes"]), one["instances"], " ".join(one["nodes"])) for one in found]
    output.table(("GROUP", "NODES", "INSTANCES", "NODE NAMES"), rows, empty="There are no nodes.")


def groups(nodes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Gather the groups that have nodes, in the order of their first nodes."""
    found: dict[str, dict[str, Any]] = {}
    for one in nodes:
        entry = found.setdefault(one["group"], {"name": one["group"], "nodes": [], "instances": 0})
        entry["nodes"].append(one["name"])
        entry["instances"] += len(one["primaries"])
    return list(found.values())
