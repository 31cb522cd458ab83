"""`roundsman cluster`: making a cluster, its parameters, and what is wrong with it."""

from __future__ import annotations

import json
from typing import Any

import typer

from ...plugins.module_utils.domain.values import errors
from . import adoption, client, cluster_init, emergency, master_failover, output, watching, wording
from . import parameters as given_parameters

OF_AGENTS = ("diagnose_command", "diagnose_interval", "agent_port")
"""The settings that the role node_agent writes to the nodes."""
app = typer.Typer(help="The cluster itself.", no_args_is_help=True)
app.command(
    epilog="Example: roundsman cluster init example --node node1:192.0.2.1 --node node2:192.0.2.2; with IPv6: "
    "roundsman cluster init example --primary-ip-version 6 --node node1:2001:db8::1,10.0.0.1"
)(cluster_init.init)
app.command(epilog="Example: roundsman cluster adopt -i hosts.ini --name example --dry-run")(adoption.adopt)
app.command("master-failover", epilog="Example: roundsman cluster master-failover node2 --dry-run")(
    master_failover.master_failover
)


@app.command(epilog="Example: roundsman cluster info -o json")
def info(ctx: typer.Context, *, form: output.Option = output.Format.TABLE) -> None:
    """Show the cluster and its parameters."""
    with client.find_daemon(ctx) as daemon:
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
    changed = [name for name in OF_AGENTS if any(parameter.partition("=")[0] == name for parameter in given)]
    if changed and not dry_run and form is output.Format.TABLE:
        names = wording.enumerated(changed)
        output.line(f"Node agents follow {names} only after the role node_agent has been applied to the nodes again.")


@app.command(epilog="Example: roundsman cluster verify -o json")
def verify(
    ctx: typer.Context, *, submit: given_parameters.Submit = False, form: output.Option = output.Format.TABLE
) -> None:
    """See that helper programs are there, and that the nodes' power and what runs on them are as on record.

    A node that keeps a copy of the configuration, and lacks what it needs to lead, is named. Nothing is changed; the
    exit status is 1 when something is wrong.
    """
    with client.find_daemon(ctx) as daemon:
        job = daemon.put("2", "verify")
        if submit:
            output.line(str(job["id"]))
            return
        found = watching.until_ended(daemon, job["id"], quiet=form is output.Format.JSON)
        copies = daemon.get("1", "health")["copies"]
    if found["status"] != "success":
        raise errors.Failed(f"job {found['id']} ended as {found['status']}: {found['text']}")
    seen = {"findings": [], "looked_at": [], "not_looked_at": {}, **(found["results"][0] or {})}
    seen["findings"] = findings = [*seen["findings"], *_of_copies(copies)]
    text = found["opcodes"][0]["text"]
    if form is output.Format.JSON:
        output.as_json(json.dumps(seen))
    elif findings:
        output.table(
            ("NODE", "CHECK", "FINDING"), [(finding["node"], finding["check"], finding["text"]) for finding in findings]
        )
    else:
        output.line(f"Nothing is wrong{_looked(seen)} ({text}).")
    if form is output.Format.TABLE:
        for node, why in seen["not_looked_at"].items():
            output.line(f"Not looked at: {node}, because {why}.")
    if findings:
        output.alarm(f"{len(findings)} of the checks say that something is wrong; nothing was changed")
        raise typer.Exit(1)


def _of_copies(copies: list[dict[str, Any]]) -> list[dict[str, str]]:
    """What nodes lack that keep a copy of the configuration, to become the master with it."""
    return [
        {"node": copy["node"], "check": "configuration_copies", "text": f"{path} is not there: it could not lead"}
        for copy in copies
        for path in (f"/{name}" for name in copy["lacks"])
    ]


def _looked(seen: dict[str, Any]) -> str:
    """On how many of the nodes nothing is wrong, where not all were looked at."""
    looked, left = len(seen["looked_at"]), len(seen["not_looked_at"])
    return f" on {looked} of {looked + left} nodes" if left else ""


app.command("epo", epilog="Example: roundsman cluster epo --groups rack2")(emergency.epo)
