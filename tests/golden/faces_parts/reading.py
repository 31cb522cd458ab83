"""What each state answers to everything that can be read, by noun, and through which doors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.golden.faces_parts import adapter
    from tests.golden.faces_parts.exchange import Exchange

STATIC = ("/", "/version", "/2", "/2/features", "/2/query/node/fields?fields=name,nonsense")
"""What is the same in every state."""
KINDS = ("node", "instance", "group", "job", "lock")
FILTERS: tuple[tuple[str, list[str], Any], ...] = (
    ("node", ["name", "role"], ["|", ["=", "role", "M"], ["=", "offline", True]]),
    ("node", ["name"], ["&", [">", "pinst_cnt", 1], ["!", ["?", "drained"]]]),
    ("node", ["name", "sinst_list"], ["=[]", "sinst_list", "instance1"]),
    ("node", ["name", "mfree"], ["<", "mfree", 100000]),
    ("instance", ["name", "pnode"], ["=~", "name", "^instance[1-3]$"]),
    ("instance", ["name", "status"], ["!=", "status", "running"]),
    ("instance", ["name", "be/memory"], [">=", "be/memory", 2048]),
    ("group", ["name", "node_cnt"], ["=", "name", "group2"]),
    ("job", ["id", "status", "summary"], ["=", "status", "success"]),
    ("job", ["id", "priority"], ["<=", "id", 5]),
    ("lock", ["name", "mode", "owner", "pending"], None),
)
REFUSED = (
    "/2/nothing",
    "/1/nothing",
    "/2/nodes?bulk=perhaps",
    "/2/nodes/nowhere",
    "/2/nodes/nowhere/role",
    "/2/nodes/nowhere/power",
    "/2/nodes/nowhere/tags",
    "/2/instances?bulk=perhaps",
    "/2/instances/nothing",
    "/2/instances/nothing/info",
    "/2/instances/nothing/console",
    "/2/instances/nothing/tags",
    "/2/groups/nothing",
    "/2/groups/nothing/tags",
    "/2/groups?bulk=perhaps",
    "/2/jobs/999",
    "/2/jobs/x",
    "/2/jobs/-1",
    "/2/jobs/99999999999999999999",
    "/2/jobs/999/wait",
    "/2/jobs/1/wait?timeout=-1",
    "/2/jobs/1/wait?timeout=nan",
    "/2/jobs/999/log",
    "/2/jobs/1/log?after=-1",
    "/2/jobs/1/log?seconds=x",
    "/2/jobs?archived=1&limit=0",
    "/2/jobs?archived=1&limit=1001",
    "/2/jobs?before=0",
    "/2/query/moon?fields=name",
    "/2/query/moon/fields",
    "/2/query/node",
    "/2/filters/nothing",
    "/2/filters?bulk=perhaps",
    "/2/incidents/nothing",
    "/2/incidents/bb",
    "/2/config?version=x",
    "/2/config?version=99999",
    "/1/explain/nowhere",
    "/1/rounds/99",
    "/1/rounds/x",
    "/1/incidents/nothing/original",
    "/1/news?after=x",
    "/1/news?seconds=nan",
)
DOORS = (("remote", "0"), ("public", "0"), ("socket", "4242424"))


async def record(exchange: Exchange, *, is_first: bool, is_whole: bool) -> None:
    """Record every answer of a state: of the first also what is the same in all; whole with each field of queries."""
    daemon = exchange.daemon
    for noun, paths in (await requests(daemon)).items():
        for path in paths if not is_first or noun != "config" else ():
            door = "public" if path.startswith("/1/") else "socket"
            await exchange.record(noun, "GET", path, door=door)
    await _query(exchange, is_whole=is_whole)
    if is_first:
        for path in (*STATIC, *(f"/2/query/{kind}/fields" for kind in KINDS)):
            await exchange.record("static", "GET", path)
        await exchange.record("static", "GET", "/", door="public")
        await exchange.record("page", "GET", "/ui", door="public")
        for path in REFUSED:
            await exchange.record("refused", "GET", path)
        for method in ("POST", "PUT", "DELETE", "PATCH"):
            await exchange.record("refused", method, "/1/status", door="public")
            await exchange.record("refused", method, "/2/locks")


async def requests(daemon: adapter.Daemon) -> dict[str, list[str]]:
    """The paths that a state answers, by noun."""
    nodes, instances, groups = [await _names(daemon, noun) for noun in ("nodes", "instances", "groups")]
    jobs = [job["id"] for job in await daemon.value("/2/jobs")]
    archived = [job["id"] for job in await daemon.value("/2/jobs?archived=1")]
    incidents = [incident["uuid"] for incident in await daemon.value("/2/incidents")]
    filters = [rule["uuid"] for rule in await daemon.value("/2/filters")]
    numbers = [*jobs, *archived]
    return {
        "cluster": ["/2/info", "/2/plan", "/2/tags", "/2/config/history"],
        "nodes": [
            *("/2/nodes", "/2/nodes?bulk=1"),
            *_each(nodes, "/2/nodes/{}", "/2/nodes/{}/role", "/2/nodes/{}/power", "/2/nodes/{}/tags"),
        ],
        "instances": [
            *("/2/instances", "/2/instances?bulk=1"),
            *_each(instances[:3], "/2/instances/{}"),
            *_each(instances, "/2/instances/{}/console", "/2/instances/{}/tags"),
        ],
        "groups": ["/2/groups", "/2/groups?bulk=1", *_each(groups, "/2/groups/{}", "/2/groups/{}/tags")],
        "jobs": [
            *("/2/jobs", "/2/jobs?bulk=1", "/2/jobs?archived=1", "/2/jobs?archived=1&bulk=1&limit=1&before=99"),
            *("/2/queue", "/1/jobs"),
            *_each(numbers, "/2/jobs/{}", "/2/jobs/{}/log?after=0"),
            *_each(numbers[:2], "/2/jobs/{}/wait?timeout=0", "/2/jobs/{}/log?after=99"),
        ],
        "locks": ["/2/locks"],
        "config": ["/2/config"],
        "filters": ["/2/filters", "/2/filters?bulk=1", *_each(filters, "/2/filters/{}")],
        "incidents": [
            *("/2/incidents", "/1/status"),
            *_each(incidents, "/2/incidents/{}", "/1/incidents/{}/original"),
        ],
        "maintenance": [
            "/1/health",
            "/1/plan",
            "/1/rounds",
            "/1/rounds/1",
            "/1/reports",
            "/1/news?seconds=0",
            "/1/page",
        ],
        "state": ["/1/nodes", "/1/instances"],
        "explain": _each([*nodes, *instances], "/1/explain/{}"),
    }


async def doors(daemon: adapter.Daemon) -> str:
    """How each answer differs at the other doors, and for an administrator who is not root, as a table."""
    patterns: dict[str, list[str]] = {}
    for path in sorted({path for paths in (await requests(daemon)).values() for path in paths} | set(STATIC)):
        root = await daemon.ask("GET", path)
        shown = [f"root {root.status}"]
        for door, uid in DOORS:
            found = await daemon.ask("GET", path, door=door, uid=uid)
            same = " same" if found == root else ""
            shown.append(f"{door if uid == '0' else 'administrator'} {found.status}{same}")
        patterns.setdefault(", ".join(shown), []).append(daemon.names(path))
    return "\n".join("\n  ".join([pattern, *sorted(paths)]) + "\n" for pattern, paths in sorted(patterns.items()))


async def _query(exchange: Exchange, *, is_whole: bool) -> None:
    if is_whole:
        known = (await exchange.daemon.value("/2/query/node/fields"))["fields"]
        names = ",".join(field["name"] for field in known)
        await exchange.record("query", "GET", f"/2/query/node?fields={names},nonsense")
    for kind, fields, wanted in FILTERS:
        await exchange.record("query", "PUT", f"/2/query/{kind}", {"fields": fields, "qfilter": wanted})


async def _names(daemon: adapter.Daemon, noun: str) -> list[str]:
    return [found["name"] for found in await daemon.value(f"/2/{noun}?bulk=1")]


def _each(names: Iterable[object], *paths: str) -> list[str]:
    return [path.format(name) for name in names for path in paths]
