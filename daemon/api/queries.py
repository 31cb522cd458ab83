"""Queries in Ganeti's language: chosen fields of nodes, instances, groups, jobs and locks, filtered.

A query names each field once and at most `MOST_FIELDS`, and has a bounded number of operators (`job_filters.check`).
One is answered after the other, in slices between which the daemon does other work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import pydantic
from fastapi import Query
from fastapi.responses import Response  # noqa: TC002 - FastAPI reads the annotations

from ...plugins.module_utils.domain.values import errors
from ...plugins.plugin_utils.cluster import job_filters
from ..locks import listing
from . import bodies
from .answers import Json, Listed, encoded, in_slices
from .fields import definition, groups, instances, jobs, locks, nodes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from fastapi import APIRouter

    from ..service import Service
    from .snapshots import Snapshot, Snapshots

MOST_FIELDS = 60


class Wanted(bodies.Body):
    """The fields to tell, and of which objects; `filter` is the older name of `qfilter`."""

    fields: list[str] = pydantic.Field(max_length=MOST_FIELDS)
    qfilter: list[Any] | None = None
    filter: list[Any] | None = None


@dataclass(frozen=True)
class _Table:
    fields: Mapping[str, definition.Field[Any]]
    rows: Callable[[Snapshot, Service], Iterable[Any]]


TABLES = {
    "node": _Table(nodes.FIELDS, lambda seen, _: seen.cluster.nodes.values()),
    "instance": _Table(instances.FIELDS, lambda seen, _: seen.cluster.instances.values()),
    "group": _Table(groups.FIELDS, lambda seen, _: seen.cluster.nodegroups.values()),
    "job": _Table(jobs.FIELDS, lambda _, service: service.queue.jobs.values()),
    "lock": _Table(locks.FIELDS, lambda _, service: listing.rows(service.desk.table, name_of=str)),
}
Fields = Annotated[str, Query(description="Names of fields, with commas between them.")]


class _Row(Mapping[str, Any]):
    """An object as a filter sees it: a field without a value is not there, and only what is asked for is read."""

    def __init__(self, table: _Table, seen: Snapshot, row: Any) -> None:
        self._table, self._seen, self._row = table, seen, row

    def __getitem__(self, name: str) -> Any:
        value = self._table.fields[name].read(self._seen, self._row)
        if isinstance(value, definition.Missing):
            raise KeyError(name)
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self._table.fields)

    def __len__(self) -> int:
        return len(self._table.fields)


def add(routes: APIRouter, service: Service, snapshots: Snapshots) -> None:
    """Query a kind of object, or ask which fields it has."""
    turn = asyncio.Lock()

    async def answer(what: str, names: list[str], qfilter: list[Any] | None) -> Response:
        table = _table(what)
        _check_names(names)
        if qfilter is not None:
            job_filters.check(qfilter, "qfilter", fields=frozenset(table.fields))
        async with turn:
            return Listed(await _answer(table, names, qfilter, seen=snapshots.newest(), service=service))

    @routes.get("/query/{what}", response_model=dict[str, Any])
    async def chosen(what: str, fields: Fields) -> Response:
        return await answer(what, fields.split(","), None)

    @routes.put("/query/{what}", response_model=dict[str, Any])
    async def filtered(what: str, body: Wanted) -> Response:
        return await answer(what, body.fields, body.qfilter if body.qfilter is not None else body.filter)

    @routes.get("/query/{what}/fields", response_model=dict[str, Any])
    async def known(what: str, fields: Fields = "") -> Response:
        table = _table(what)
        names = fields.split(",") if fields else list(table.fields)
        _check_names(names)
        return Json({"fields": [definition.definition(name, table.fields.get(name)) for name in names]})


def _check_names(names: list[str]) -> None:
    if len(names) > MOST_FIELDS:
        raise errors.InvalidInput(f"fields: name at most {MOST_FIELDS} fields (got {len(names)})")
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise errors.InvalidInput(f"fields: {twice[:100]!r} is there twice: name each field once")


def _table(what: str) -> _Table:
    if what not in TABLES:
        raise errors.NotFound(f"there is no query of {what[:100]!r}: use one of {', '.join(TABLES)}")
    return TABLES[what]


async def _answer(
    table: _Table, names: list[str], qfilter: list[Any] | None, *, seen: Snapshot, service: Service
) -> bytes:
    columns = [table.fields.get(name) for name in names]

    def told(row: Any) -> bytes | None:
        if qfilter is not None and not job_filters.holds(qfilter, _Row(table, seen, row)):
            return None
        return encoded([_cell(field, seen, row) for field in columns])

    # A copy, because jobs come and go between the slices.
    data = await in_slices(list(table.rows(seen, service)), told)
    told_fields = encoded([definition.definition(name, field) for name, field in zip(names, columns, strict=True)])
    return b'{"fields":' + told_fields + b',"data":' + data + b"}"


def _cell(field: definition.Field[Any] | None, seen: Snapshot, row: Any) -> list[Any]:
    value = definition.Missing.UNKNOWN if field is None else field.read(seen, row)
    return [value.value, None] if isinstance(value, definition.Missing) else [definition.NORMAL, value]
