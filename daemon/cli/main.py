"""The command `roundsman`."""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path  # noqa: TC003 - Typer reads the annotations at run time
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
import typer.main
from typer.core import TyperGroup, TyperOption

from ...plugins.module_utils.domain.values import errors
from ...plugins.plugin_utils import installed_version
from . import output

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, MutableMapping, Sequence

    from typer.core import TyperCommand

DISTRIBUTION = "roundsman-cluster"


def _about_cluster(to: typer.Typer) -> None:
    from . import cluster_status

    cluster_status.install(to)


def _plan(to: typer.Typer) -> None:
    from . import cluster_status, plans

    plans.app.callback()(cluster_status.plan)
    to.add_typer(plans.app, name="plan", epilog="Example: roundsman plan -o json")


def _balance(to: typer.Typer) -> None:
    from . import balance

    to.command(epilog="Example: roundsman balance --text cluster.data -o commands")(balance.balance)


def _evacuate(to: typer.Typer) -> None:
    from . import evacuation

    to.command(epilog="Example: roundsman evacuate node3 node4 --plan")(evacuation.evacuate)


def _capacity(to: typer.Typer) -> None:
    from . import capacity

    to.command(epilog="Example: roundsman capacity --max-inst-spec 32768,1048576,8")(capacity.capacity)


def _rolling(to: typer.Typer) -> None:
    from . import rolling

    to.command(epilog="Example: roundsman rolling --text cluster.data")(rolling.rolling)


def _n1(to: typer.Typer) -> None:
    from . import survival

    to.command(epilog="Example: roundsman n1 --fail node3")(survival.n1)


def _group(to: typer.Typer) -> None:
    from . import group, regrouping, tags

    group.app.command(epilog="Example: roundsman group drain rack1 --to rack2,rack3 --plan")(regrouping.drain)
    group.app.add_typer(tags.sub_app("group"), name="tags")
    to.add_typer(group.app, name="group")


def _instance(to: typer.Typer) -> None:
    from . import instance, instance_disks, instance_making, instance_moves, instance_runs, regrouping, tags

    instance_making.install(instance.app)
    instance_runs.install(instance.app)
    instance_moves.install(instance.app)
    instance_disks.install(instance.app)
    example = "Example: roundsman instance change-group instance3 --to rack2"
    instance.app.command(epilog=example)(regrouping.change_group)
    instance.app.add_typer(tags.sub_app("instance"), name="tags")
    to.add_typer(instance.app, name="instance")


def _node(to: typer.Typer) -> None:
    from . import node, tags

    node.app.add_typer(tags.sub_app("node"), name="tags")
    to.add_typer(node.app, name="node")


def _cluster(to: typer.Typer) -> None:
    from . import cluster, tags

    cluster.app.add_typer(tags.sub_app("cluster"), name="tags")
    to.add_typer(cluster.app, name="cluster")


def _config(to: typer.Typer) -> None:
    from . import config

    to.add_typer(config.app, name="config")


def _incident(to: typer.Typer) -> None:
    from . import incident

    to.add_typer(incident.app, name="incident")


def _round(to: typer.Typer) -> None:
    from . import round as rounds

    to.add_typer(rounds.app, name="round")


def _jobs(to: typer.Typer) -> None:
    from . import jobs

    to.add_typer(jobs.app, name="jobs")


def _queue(to: typer.Typer) -> None:
    from . import queue

    to.add_typer(queue.app, name="queue")


def _filter(to: typer.Typer) -> None:
    from . import filter as filters

    to.add_typer(filters.app, name="filter")


def _locks(to: typer.Typer) -> None:
    from . import locks

    to.add_typer(locks.app, name="locks")


def _rapi(to: typer.Typer) -> None:
    from . import rapi

    to.add_typer(rapi.app, name="rapi")


def _lab(to: typer.Typer) -> None:
    from . import lab, lab_faults

    lab_faults.install(lab.app)
    to.add_typer(lab.app, name="lab")


PANELS: dict[str, dict[str, Callable[[typer.Typer], None]]] = {
    "See": {
        **dict.fromkeys(("status", "explain"), _about_cluster),
        "incident": _incident,
        "round": _round,
        "jobs": _jobs,
        "locks": _locks,
    },
    "Plan": {"plan": _plan, "balance": _balance, "capacity": _capacity, "n1": _n1, "rolling": _rolling},
    "Act": {
        **dict.fromkeys(("pause", "resume"), _about_cluster),
        "evacuate": _evacuate,
        "instance": _instance,
        "node": _node,
        "group": _group,
        "queue": _queue,
        "filter": _filter,
    },
    "Set up": {"cluster": _cluster, "config": _config, "rapi": _rapi, "lab": _lab},
}
"""What gives the application a command, by its panel and its name, in the order of `--help`.

A command imports what it needs and nothing else: planner, simulated nodes and Ansible take two seconds.
"""


@functools.cache
def _commands(install: Callable[[typer.Typer], None]) -> Mapping[str, TyperCommand | TyperGroup]:
    part = typer.Typer()
    install(part)
    made = cast("Mapping[str, TyperCommand | TyperGroup]", typer.main.get_group(part).commands)
    for command in made.values():
        _name_no_type_of_flags(command)
    return made


def _name_no_type_of_flags(command: TyperCommand | TyperGroup) -> None:
    _without_type(command.get_params(typer.Context(command)))
    for part in command.commands.values() if isinstance(command, TyperGroup) else ():
        _name_no_type_of_flags(cast("TyperCommand | TyperGroup", part))


def _without_type(parameters: Sequence[Any]) -> None:
    """Have `--help` say nothing of the value of options that take none; Typer says `<bool>`."""
    for parameter in parameters:
        if isinstance(parameter, TyperOption) and parameter.is_bool_flag and parameter.metavar is None:
            parameter.metavar = ""


class _Commands(Mapping[str, "TyperCommand | TyperGroup"]):
    """The commands, each of which is imported when it is asked for."""

    def __getitem__(self, name: str) -> TyperCommand | TyperGroup:
        for panel, installed in PANELS.items():
            if name in installed:
                found = _commands(installed[name])[name]
                found.rich_help_panel = panel
                return found
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return (name for installed in PANELS.values() for name in installed)

    def __len__(self) -> int:
        return sum(map(len, PANELS.values()))


class _Group(TyperGroup):
    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = cast("MutableMapping[str, Any]", _Commands())

    def get_params(self, ctx: Any) -> list[Any]:
        """All parameters, those that Typer adds to the application too."""
        found = list(super().get_params(ctx))
        _without_type(found)
        return found


app = typer.Typer(
    name="roundsman",
    cls=_Group,
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


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command; whatever Roundsman foresees ends as one line on standard error and exit status 1."""
    installed_version.hold()
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
