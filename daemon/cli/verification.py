"""`roundsman cluster verify`: what is wrong with the cluster, told and never mended (seed 001)."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from ...plugins.module_utils.domain import errors
from . import client, output, watching

Submit = Annotated[bool, typer.Option("--submit", help="Print the job's number and do not wait for its end.")]


def verify(ctx: typer.Context, *, submit: Submit = False, form: output.Option = output.Format.TABLE) -> None:
    """See that helper programs are there, and that the nodes' power and what runs on them are as on record.

    Nothing is changed; the exit status is 1 when something is wrong.
    """
    with client.find_daemon(ctx) as daemon:
        job = daemon.put("2", "verify")
        if submit:
            output.line(str(job["id"]))
            return
        found = watching.until_ended(daemon, job["id"], quiet=form is output.Format.JSON)
    if found["status"] != "success":
        raise errors.Failed(f"job {found['id']} ended as {found['status']}: {found['text']}")
    findings = found["results"][0] or []
    text = found["opcodes"][0]["text"]
    if form is output.Format.JSON:
        output.as_json(json.dumps(findings))
    elif findings:
        output.table(
            ("NODE", "CHECK", "FINDING"), [(finding["node"], finding["check"], finding["text"]) for finding in findings]
        )
    else:
        output.line(f"Nothing is wrong ({text}).")
    if findings:
        output.alarm(f"{len(findings)} of the checks say that something is wrong; nothing was changed")
        raise typer.Exit(1)
