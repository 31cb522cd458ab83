"""`roundsman cluster`: making a cluster, and its parameters."""

from __future__ import annotations

import dataclasses
import secrets
import time
import uuid
from pathlib import Path
from typing import Annotated

import typer

from ...plugins.module_utils.domain import changes, errors, joining, parameters, tree
from ...plugins.module_utils.domain import cluster as clusters
from ...plugins.plugin_utils.config import store
from . import client, emergency, output, verification, wording
from . import parameters as given_parameters

app = typer.Typer(help="The cluster itself.", no_args_is_help=True)
Node = Annotated[
    list[str],
    typer.Option("--node", metavar="NAME[:ADDRESS]", help="A node; the first is the master. May be given often."),
]
GROUP = "default"
KEY_BYTES = 20


@app.command(epilog="Example: roundsman cluster init example --node node1:192.0.2.1 --node node2:192.0.2.2")
def init(ctx: typer.Context, name: str, *, node: Node) -> None:
    """Make a cluster where there is none: its configuration and its key, below the root of this machine or --dir."""
    chosen: Path | None = ctx.find_root().params.get("root")
    where = tree.Tree(chosen.resolve() if chosen else Path("/"))
    cluster = made(name, node, now=time.time())
    with store.locked(where, "roundsman cluster init"):
        if where.config.exists():
            raise errors.Refused(f"there is a cluster here already: {where.config}")
        for folder in (where.queue, where.rounds, where.reports, where.spool):
            folder.mkdir(mode=0o750, parents=True, exist_ok=True)
        make_key(where.hmac_key)
        store.write(where.config, cluster)
    count = f"{len(node)} {'node' if len(node) == 1 else 'nodes'}"
    output.line(f"Cluster {name} has {count}; start its daemon with `roundsmand --root {where.root}`.")


@app.command(epilog="Example: roundsman cluster info -o json")
def info(ctx: typer.Context, *, form: output.Option = output.Format.TABLE) -> None:
    """Show the cluster and its parameters."""
    with client.of(ctx) as daemon:
        if form is output.Format.JSON:
            output.as_json(daemon.text("2", "info"))
            return
        output.facts(wording.described(daemon.get("2", "info")))


@app.command(
    epilog="Example: roundsman cluster modify round_interval=120 ipolicy.vcpu-ratio=4 max_inst_spec=32768,1048576,8"
)
def modify(
    ctx: typer.Context,
    given: given_parameters.Given,
    *,
    submit: given_parameters.Submit = False,
    dry_run: given_parameters.DryRun = False,
    form: output.Option = output.Format.TABLE,
) -> None:
    """Set parameters of the cluster and of its maintenance: intervals in seconds, oob_program, limits, the pool.

    Instance policy: `ipolicy.std=memory-size=1024,cpu-count=1`, `ipolicy.minmax=min:SIZES/max:SIZES` (several with
    `//`), `ipolicy.disk-templates=drbd,plain`, `ipolicy.vcpu-ratio`, `ipolicy.spindle-ratio`. `default` inherits again.
    """
    given_parameters.modify(ctx, "modify", given=given, submit=submit, dry_run=dry_run, form=form)


app.command("verify", epilog="Example: roundsman cluster verify -o json")(verification.verify)
app.command("epo", epilog="Example: roundsman cluster epo --groups rack2")(emergency.epo)


def made(name: str, nodes: list[str], *, now: float) -> clusters.Cluster:
    """A cluster of these nodes, each as `NAME` or `NAME:ADDRESS`, the first of them the master.

    Raises:
        InvalidInput: a name or an address is not accepted, or a name is there twice.
    """
    if not nodes:
        raise errors.InvalidInput("a cluster needs a node: give --node NAME:ADDRESS")
    group = clusters.Group(str(uuid.uuid4()), GROUP, ctime=now, mtime=now)
    own = clusters.Parameters(name, str(uuid.uuid4()), "", ctime=now, mtime=now)
    cluster = clusters.Cluster(own, nodegroups={group.uuid: group}, ctime=now, mtime=now)
    stated = parameters.cluster_modify(cluster, {"cluster_name": name})
    for one in nodes:
        named, _, address = one.partition(":")
        added = joining.add(cluster, str(uuid.uuid4()), {"name": named, "primary_ip": address})
        cluster = changes.apply_all(cluster, [*stated, *added], now=now)
        stated = []
    master = next(one for one in cluster.nodes.values() if one.name == nodes[0].partition(":")[0])
    return dataclasses.replace(cluster, cluster=dataclasses.replace(cluster.cluster, master_node=master.uuid))


def make_key(path: Path) -> None:
    """Make the cluster's key, once: forty hexadecimal digits and the end of the line, all of which are the key."""
    if path.exists():
        return
    path.touch(mode=0o400)
    path.chmod(0o600)
    path.write_text(secrets.token_hex(KEY_BYTES) + "\n")
    path.chmod(0o400)
