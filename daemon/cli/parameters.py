"""Setting parameters from the command line: `NAME=VALUE`, the same for the cluster, its groups and its nodes."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from ...plugins.module_utils.domain.values import errors
from . import client, durations, jobs, output, policy_texts

Given = Annotated[
    list[str], typer.Argument(metavar="NAME=VALUE…", help="Parameters; `roundsman … info` shows their names.")
]
Submit = Annotated[bool, typer.Option("--submit", help="Print the job's number and do not wait for its end.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only print what would be different.")]
IgnoreConsistency = Annotated[
    bool,
    typer.Option(
        "--ignore-consistency",
        help="Fail over although the target's replica is not known to be in sync. What was written since the replica "
        "was last in sync is LOST. If the source is confirmed off, even an outdated replica is promoted by force. Asks "
        "for confirmation.",
    ),
]
LISTS = {"networks": policy_texts.names, "max_inst_spec": policy_texts.numbers}
DURATIONS = frozenset({"failover_max_loss"})
WORDS = {"true": True, "yes": True, "false": False, "no": False}


def read(given: list[str]) -> dict[str, Any]:
    """The parameters that were given, numbers and flags as such; `hostvars.NAME=VALUE` is one host variable.

    `hostvars.NAME=` and `hostvars.NAME=default` remove one.

    `ipolicy.NAME=VALUE` is one part of the instance policy.

    Raises:
        InvalidInput: one has no name, or is not in its form.
    """
    found: dict[str, Any] = {}
    for parameter in given:
        name, equals, text = parameter.partition("=")
        if not equals or not name:
            raise errors.InvalidInput(f"{parameter!r} is no parameter: write NAME=VALUE")
        if name.startswith("hostvars."):
            found.setdefault("hostvars", {})[name.removeprefix("hostvars.")] = text
        elif name.startswith("ipolicy."):
            part = policy_texts.policy(name, text)
            found.setdefault("ipolicy", {})[name.removeprefix("ipolicy.")] = value(text) if part is None else part
        else:
            found[name] = LISTS[name](name, text) if name in LISTS else _value(name, text)
    return found


def _value(name: str, text: str) -> Any:
    """A duration in seconds where the parameter is one, and is given a number."""
    return durations.seconds(text, what=name) if name in DURATIONS and text[:1].isdigit() else value(text)


def value(text: str) -> Any:
    """The value that a text means: a flag, a number, or itself."""
    if text.lower() in WORDS:
        return WORDS[text.lower()]
    try:
        number = json.loads(text)
    except ValueError:
        return text
    return number if type(number) in {int, float} else text


def modify(
    ctx: typer.Context,
    *path: str,
    given: list[str],
    method: str = "PUT",
    submit: bool,
    dry_run: bool,
    form: output.Format = output.Format.TABLE,
) -> None:
    """Ask the daemon for a change of parameters, and wait for its job, which prints what is different now."""
    with client.find_daemon(ctx) as daemon:
        query = {"dry-run": 1} if dry_run else {}
        job = daemon.send(method, "2", *path, body=read(given), **query)
        jobs.submitted(daemon, job, submit=submit, form=form)
