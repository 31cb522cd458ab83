"""The tags of the cluster, a group, a node or an instance: the same three commands for each."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from . import client, completion, jobs, output

if TYPE_CHECKING:
    from collections.abc import Callable

FINDERS: dict[str, Callable[[typer.Context, str], list[str]]] = {
    "group": completion.groups,
    "node": completion.nodes,
    "instance": completion.instances,
}
Tag = Annotated[str, typer.Argument(help="The tag.")]


def sub_app(kind: str) -> typer.Typer:
    """Make the commands `list`, `add` and `remove` for the tags of one kind of object."""
    app = typer.Typer(help=f"The tags of {_article(kind)}.", no_args_is_help=True)
    if kind == "cluster":
        _of_cluster(app)
    else:
        _of_named(app, kind)
    return app


def _of_cluster(app: typer.Typer) -> None:
    @app.command("list", epilog="Example: roundsman cluster tags list")
    def list_(ctx: typer.Context, *, form: output.Option = output.Format.TABLE) -> None:
        """List the tags of the cluster."""
        _list(ctx, "cluster", "cluster", form=form)

    @app.command(epilog="Example: roundsman cluster tags add rack:a")
    def add(ctx: typer.Context, tag: Tag) -> None:
        """Give the cluster a tag."""
        _add(ctx, "cluster", "cluster", tag=tag)

    @app.command(epilog="Example: roundsman cluster tags remove rack:a")
    def remove(ctx: typer.Context, tag: Tag) -> None:
        """Take a tag from the cluster."""
        _remove(ctx, "cluster", "cluster", tag=tag)


def _of_named(app: typer.Typer, kind: str) -> None:
    name_of = Annotated[str, typer.Argument(help=f"The name of the {kind}.", autocompletion=FINDERS[kind])]
    example = f"Example: roundsman {kind} tags {{}} {'default' if kind == 'group' else kind + '3'}"

    def list_(ctx: typer.Context, name: str, *, form: output.Option = output.Format.TABLE) -> None:
        _list(ctx, kind, name, form=form)

    def add(ctx: typer.Context, name: str, tag: Tag) -> None:
        _add(ctx, kind, name, tag=tag)

    def remove(ctx: typer.Context, name: str, tag: Tag) -> None:
        _remove(ctx, kind, name, tag=tag)

    for command, told, ending in (
        (list_, f"List the tags of {_article(kind)}.", ""),
        (add, f"Give {_article(kind)} a tag.", " rack:a"),
        (remove, f"Take a tag from {_article(kind)}.", " rack:a"),
    ):
        verb = command.__name__.rstrip("_")
        command.__annotations__["name"] = name_of
        app.command(verb, help=told, epilog=example.format(verb) + ending)(command)


def _list(ctx: typer.Context, kind: str, name: str, *, form: output.Format) -> None:
    with client.find_daemon(ctx) as daemon:
        _show(daemon.get(*_path(kind, name)), form=form)


def _add(ctx: typer.Context, kind: str, name: str, *, tag: str) -> None:
    with client.find_daemon(ctx) as daemon:
        jobs.submitted(daemon, daemon.put(*_path(kind, name), tag=tag), submit=False)


def _remove(ctx: typer.Context, kind: str, name: str, *, tag: str) -> None:
    with client.find_daemon(ctx) as daemon:
        jobs.submitted(daemon, daemon.delete(*_path(kind, name), tag=tag), submit=False)


def _path(kind: str, name: str) -> tuple[str, ...]:
    return ("2", "tags") if kind == "cluster" else ("2", f"{kind}s", name, "tags")


def _show(tags: list[str], *, form: output.Format) -> None:
    if form is output.Format.JSON:
        output.as_json(json.dumps(tags))
        return
    for tag in tags:
        output.line(tag)


def _article(kind: str) -> str:
    return "the cluster" if kind == "cluster" else f"an {kind}" if kind == "instance" else f"a {kind}"
