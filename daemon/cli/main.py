"""The command `roundsman`."""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path  # noqa: TC003 - Typer reads the annotations at run time
from typing import TYPE_CHECKING, Annotated

import typer

from ...plugins.module_utils.domain import errors
from . import (
    balance,
    capacity,
    cluster,
    cluster_status,
    config,
    evacuation,
    group,
    incident,
    instance,
    instance_disks,
    instance_making,
    instance_moves,
    instance_runs,
    jobs,
    lab,
    lab_faults,
    locks,
    node,
    output,
    queue,
    rapi,
    regrouping,
    rolling,
    survival,
    tags,
)
from . import filter as filters

if TYPE_CHECKING:
    from collections.abc import Sequence

DISTRIBUTION = "roundsman-cluster"
app = typer.Typer(
    name="roundsman",
    epilog="Example: roundsman status",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _shown(wanted: bool) -> None:  # noqa: FBT001 - Typer calls it so
    if wanted:
        output.line(f"roundsman {metadata.version(DISTRIBUTION)}")
        raise typer.Exit


@app.callback()
def options(
    *,
    root: Annotated[
        Path | None,
        typer.Option(
            "--dir",
            envvar="ROUNDSMAN_ROOT",
            help="The daemon's root folder, or a lab's folder. "
            "Default: this machine's daemon, else the only live lab below ./.lab.",
        ),
    ] = None,
    _version: Annotated[
        bool, typer.Option("--version", callback=_shown, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    """Keep a cluster of virtualization nodes healthy: see what is broken, what is done about it, and why."""


cluster_status.install(app)
app.command(epilog="Example: roundsman balance --text cluster.data -o commands")(balance.balance)
app.command(epilog="Example: roundsman evacuate node3 node4 --plan")(evacuation.evacuate)
app.command(epilog="Example: roundsman capacity --max-inst-spec 32768,1048576,8")(capacity.capacity)
app.command(epilog="Example: roundsman rolling --text cluster.data")(rolling.rolling)
app.command(epilog="Example: roundsman n1 --fail node3")(survival.n1)
group.app.command(epilog="Example: roundsman group drain rack1 --to rack2,rack3 --plan")(regrouping.drain)
instance_making.install(instance.app)
instance_runs.install(instance.app)
instance_moves.install(instance.app)
instance_disks.install(instance.app)
lab_faults.install(lab.app)
instance.app.command(epilog="Example: roundsman instance change-group instance3 --to rack2")(regrouping.change_group)
for name, noun in (
    ("group", group.app),
    ("instance", instance.app),
    ("node", node.app),
    ("cluster", cluster.app),
):
    noun.add_typer(tags.sub_app(name), name="tags")
    app.add_typer(noun, name=name)
app.add_typer(config.app, name="config")
app.add_typer(incident.app, name="incident")
app.add_typer(jobs.app, name="jobs")
app.add_typer(queue.app, name="queue")
app.add_typer(filters.app, name="filter")
app.add_typer(locks.app, name="locks")
app.add_typer(rapi.app, name="rapi")
app.add_typer(lab.app, name="lab")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command; whatever Roundsman foresees ends as one line on standard error and exit status 1."""
    try:
        app(arguments, prog_name="roundsman")
    except errors.RoundsmanError as error:
        output.warning(f"roundsman: {error}")
        sys.exit(1)
    except BrokenPipeError:
        # Whoever read the output has gone: nothing is left to say, at exit neither.
        sys.stdout = None
        sys.exit(1)
    except OSError as error:
        named = "" if error.filename is None else f"{error.filename}: "
        output.warning(f"roundsman: {named}{error.strerror or error}")
        sys.exit(1)


if __name__ == "__main__":
    main()
