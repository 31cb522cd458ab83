"""The command `roundsman`."""

from __future__ import annotations

import sys
from pathlib import Path  # noqa: TC003 - Typer reads the annotations at run time
from typing import TYPE_CHECKING, Annotated

import typer

from ...plugins.module_utils.domain import errors
from . import cluster_status, group, incident, instance, jobs, lab, node, output, tags

if TYPE_CHECKING:
    from collections.abc import Sequence

app = typer.Typer(
    name="roundsman",
    epilog="Example: roundsman status",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
cluster = typer.Typer(help="The cluster itself.", no_args_is_help=True)


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
) -> None:
    """Keep a cluster of virtualization nodes healthy: see what is broken, what is done about it, and why."""


cluster_status.install(app)
for name, noun in (
    ("group", group.app),
    ("instance", instance.app),
    ("node", node.app),
    ("cluster", cluster),
):
    noun.add_typer(tags.sub_app(name), name="tags")
    app.add_typer(noun, name=name)
app.add_typer(incident.app, name="incident")
app.add_typer(jobs.app, name="jobs")
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


if __name__ == "__main__":
    main()
