"""`roundsman rapi`: the users of the remote API, in its own file; no daemon is asked."""

from __future__ import annotations

import getpass
import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from ...plugins.module_utils.domain.values import errors, tree
from ...plugins.plugin_utils.config import store
from ..remote import users
from ..remote.users import Access  # noqa: TC001 - Typer reads the annotations at run time
from . import by_hand_audit, client, output, places

app = typer.Typer(help="The remote API.", no_args_is_help=True)
user = typer.Typer(help="Users of the remote API, and what they may do.", no_args_is_help=True)
app.add_typer(user, name="user")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The user's name.")]


@user.command("add", epilog="Example: roundsman rapi user add monitoring --access read")
def add(
    ctx: typer.Context,
    name: Name,
    *,
    access: Annotated[Access, typer.Option(help="Read only, or everything.")] = users.Access.READ,
) -> None:
    """Make a user; the password is asked for twice, or is the first line of standard input."""
    where = _to_be_changed(ctx)
    users.add(where.rapi_users, name, password=_password(name), access=access)
    by_hand_audit.append(where, f"rapi user add {name} --access {access.value}")


@user.command("passwd", epilog="Example: roundsman rapi user passwd monitoring")
def passwd(
    ctx: typer.Context,
    name: Name,
    *,
    access: Annotated[Access | None, typer.Option(help="Change what the user may do, too.")] = None,
) -> None:
    """Give a user another password; it is read as by `add`."""
    where = _to_be_changed(ctx)
    users.change(where.rapi_users, name, password=_password(name), access=access)
    by_hand_audit.append(where, f"rapi user passwd {name}" + (f" --access {access.value}" if access else ""))


@user.command("remove", epilog="Example: roundsman rapi user remove monitoring")
def remove(ctx: typer.Context, name: Name) -> None:
    """Take a user away; what is being answered at this moment still is."""
    where = _to_be_changed(ctx)
    users.remove(where.rapi_users, name)
    by_hand_audit.append(where, f"rapi user remove {name}")


@user.command("list", epilog="Example: roundsman rapi user list -o json")
def list_(ctx: typer.Context, *, form: output.Option = output.Format.TABLE) -> None:
    """List the users and what they may do."""
    found = users.read(_where(ctx).rapi_users)
    if form is output.Format.JSON:
        output.as_json(json.dumps([{"name": name, "access": entry.access.value} for name, entry in found.items()]))
        return
    rows = [(name, entry.access.value) for name, entry in found.items()]
    output.table(("USER", "ACCESS"), rows, empty="There are no users: nobody is let in.")


def _where(ctx: typer.Context) -> tree.Tree:
    chosen: Path | None = ctx.find_root().params.get("root")
    return tree.Tree(Path("/") if chosen is None else places.root(chosen))


def _to_be_changed(ctx: typer.Context) -> tree.Tree:
    where = _where(ctx)
    client.notice(ctx, client.diversion(ctx, where.root)).tell(where.root, lambda: _cluster_name(where))
    return where


def _cluster_name(where: tree.Tree) -> str:
    try:
        return store.read(where.config).cluster.cluster_name
    except (errors.RoundsmanError, OSError):
        return client.UNNAMED


def _password(name: str) -> str:
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\r\n")
    first = getpass.getpass(f"Password of {name}: ")
    if getpass.getpass("The same again: ") != first:
        raise errors.InvalidInput("the two passwords differ; nothing was done")
    return first
