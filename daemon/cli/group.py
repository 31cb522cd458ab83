"""`roundsman group`: the node groups."""

from __future__ import annotations

import json
from collections import Counter
from typing import Annotated, Any

import typer

from . import client, completion, jobs, output, parameters, wording

app = typer.Typer(help="Node groups: instances keep their nodes within one.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(metavar="GROUP", help="The group's name.", autocompletion=completion.groups)]


@app.command("list", epilog="Example: roundsman group list -o json")
def list_(ctx: typer.Context, *, form: output.Option = output.Format.TABLE) -> None:
    """List the node groups with their nodes and the number of their instances."""
    with client.find_daemon(ctx) as daemon:
        found = groups(daemon.get("2", "groups", bulk=True), daemon.get("1", "nodes"))
    if form is output.Format.JSON:
        output.as_json(json.dumps(found))
        return
    rows = [
        (group["name"], group["alloc_policy"], len(group["nodes"]), group["instances"], " ".join(group["nodes"]))
        for group in found
    ]
    output.table(("GROUP", "ALLOCATION", "NODES", "INSTANCES", "NODE NAMES"), rows, empty="There are no groups.")


@app.command(epilog="Example: roundsman group info group1")
def info(ctx: typer.Context, name: Name, *, form: output.Option = output.Format.TABLE) -> None:
    """Show a node group and its parameters."""
    with client.find_daemon(ctx) as daemon:
        text = daemon.text("2", "groups", name)
    if form is output.Format.JSON:
        output.as_json(text)
        return
    output.facts(wording.described(json.loads(text)))


@app.command(epilog="Example: roundsman group add rack2 alloc_policy=last_resort")
def add(
    ctx: typer.Context,
    name: str,
    given: parameters.Given = [],  # noqa: B006 - Typer's way to say that there may be none
    *,
    submit: parameters.Submit = False,
    dry_run: parameters.DryRun = False,
) -> None:
    """Make a node group."""
    fields = [f"name={name}", *given]
    parameters.modify(ctx, "groups", given=fields, method="POST", submit=submit, dry_run=dry_run)


@app.command(
    epilog="Example: roundsman group modify rack2 alloc_policy=unallocable ipolicy.vcpu-ratio=2 networks=prod,backup"
)
def modify(
    ctx: typer.Context,
    name: Name,
    given: parameters.Given,
    *,
    submit: parameters.Submit = False,
    dry_run: parameters.DryRun = False,
    form: output.Option = output.Format.TABLE,
) -> None:
    """Set name, alloc_policy, networks, limits, instance policy or the parameters of nodes of a node group.

    The instance policy is given as to `roundsman cluster modify`; `default` inherits from the cluster again.
    """
    parameters.modify(ctx, "groups", name, "modify", given=given, submit=submit, dry_run=dry_run, form=form)


@app.command(epilog="Example: roundsman group remove rack2")
def remove(ctx: typer.Context, name: Name, *, submit: parameters.Submit = False) -> None:
    """Remove an empty node group."""
    with client.find_daemon(ctx) as daemon:
        jobs.submitted(daemon, daemon.delete("2", "groups", name), submit=submit)


def groups(known: list[dict[str, Any]], nodes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Count what is in each group; one without nodes is a group too."""
    instances = Counter[str]()
    for node in nodes:
        instances[node["group"]] += len(node["primaries"])
    return [
        {
            "name": group["name"],
            "alloc_policy": group["alloc_policy"],
            "nodes": group["node_list"],
            "instances": instances[group["name"]],
        }
        for group in known
    ]
