"""The OpenAPI documents as text: each resource with its parameters, its body and its answers.

What is made of the names of functions and classes is left out (titles of objects, summaries, ids of operations, names
of schemas, which stand where they are used), and so is nothing else.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from tests.golden.faces_parts import text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.golden.faces_parts import adapter

COMMON = 4
"""A parameter that so many resources have alike is described once."""
GENERATED = ("operationId", "summary")
PROBLEM = "application/problem+json"


async def record(daemon: adapter.Daemon) -> Iterator[tuple[str, str]]:
    """The document of the local socket by noun, and in which resources that of the remote API differs."""
    local, remote = [json.loads((await daemon.ask("GET", "/openapi.json", door=door)).body) for door in DOORS]
    return _files(local, remote)


DOORS = ("socket", "remote")


def _files(local: dict[str, Any], remote: dict[str, Any]) -> Iterator[tuple[str, str]]:
    nouns: dict[str, list[str]] = {}
    common = _common(local)
    for path, operations in sorted(local["paths"].items()):
        for method, operation in sorted(operations.items()):
            noun = path.partition("/2/")[2].partition("/")[0] or "top"
            is_same = remote["paths"].get(path, {}).get(method) == operation
            mark = "" if is_same else " [not of the remote API]"
            shown = _operation(local, operation, common)
            nouns.setdefault(noun.partition("-")[0], []).append(f"{method.upper()} {path}{mark}\n{shown}\n")
    few = sorted(noun for noun in nouns if len(nouns[noun]) < FEW)
    rest = [part for noun in few for part in nouns.pop(noun)]
    top = {name: value for name, value in local.items() if name not in {"paths", "components"}}
    problem = _resolved(local, local["components"]["schemas"]["ProblemDetails"])
    assert not set(remote["paths"]) - set(local["paths"]), "the remote API has resources of its own"
    head = f"the document\n{text.dump(top)}\n\nan error\n{text.dump(problem)}\n"
    head += "".join(f"\nthe parameter {name}\n{shown}\n" for shown, name in sorted(common.items()))
    yield "openapi.rest.txt", "\n".join([head, *rest])
    for noun, parts in nouns.items():
        yield f"openapi.{noun}.txt", "\n".join(parts)


FEW = 3
"""Nouns with fewer resources share a file."""


def _common(document: dict[str, Any]) -> dict[str, str]:
    """The names of the parameters that many resources have, by their descriptions."""
    operations = [operation for methods in document["paths"].values() for operation in methods.values()]
    given = [parameter for operation in operations for parameter in operation.get("parameters", ())]
    found = [(_flat(document, parameter), str(parameter["name"])) for parameter in given]
    return {shown: name for (shown, name), count in Counter(found).items() if count >= COMMON}


def _flat(document: dict[str, Any], parameter: dict[str, Any]) -> str:
    return text.dump(_resolved(document, parameter))


def _operation(document: dict[str, Any], operation: dict[str, Any], common: Mapping[str, str]) -> str:
    value = {name: part for name, part in operation.items() if name not in GENERATED}
    if given := value.pop("parameters", None):
        value["parameters"] = [common.get(_flat(document, parameter), parameter) for parameter in given]
    answers = value.pop("responses")
    errors = [code for code, answer in answers.items() if PROBLEM in answer.get("content", {})]
    value["errors"] = " ".join(errors)
    value["answers"] = {code: answer for code, answer in answers.items() if code not in errors}
    return text.dump(_resolved(document, value))


def _resolved(document: dict[str, Any], value: Any) -> Any:
    """A value with schemas where they are used, without titles that are names of classes or functions."""
    if isinstance(value, list):
        return [_resolved(document, part) for part in value]
    if not isinstance(value, dict):
        return value
    if "$ref" in value:
        return _resolved(document, document["components"]["schemas"][value["$ref"].rpartition("/")[2]])
    is_schema = isinstance(value.get("title"), str)
    return {name: _resolved(document, part) for name, part in value.items() if not (is_schema and name == "title")}
