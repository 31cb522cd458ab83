"""Requests and their answers as text, collected by noun, and which routes they reached."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from tests.golden.faces_parts import text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.golden.faces_parts import adapter

FAILED = 400
LONGEST = 1000
"""Characters of a body up to which it is written out."""
SHORTEST = 150
"""A value with fewer characters is written again rather than referred to."""
REFERENCE = "as in"
MASKED = {"/1/news": "a number", "/2/config/history": "serial_no, size and time of versions that are kept"}
"""What depends on how many changes shared one write, and is recorded in words."""


class Exchange:
    """What is asked of one state, and what it answers."""

    def __init__(self, daemon: adapter.Daemon) -> None:
        self.daemon = daemon
        self.texts: dict[str, list[str]] = {}
        self.asked: Counter[tuple[str, str]] = Counter()
        """How often each method and path, without its query, was answered; refusals have a `!` before the method."""
        self._known: dict[str, tuple[str, dict[str, Any]]] = {}
        self._whole: dict[str, str] = {}

    async def record(self, noun: str, method: str, path: str, body: Any = None, **options: Any) -> adapter.Answer:
        """Make a request and note it with its answer; returns that."""
        found = await self.ask(method, path, body, **options)
        self.add(noun, method, path, body, found, **options)
        return found

    async def ask(self, method: str, path: str, body: Any = None, **options: Any) -> adapter.Answer:
        """Make a request; its route is counted as answered or refused."""
        found = await self.daemon.ask(method, path, body, **options)
        mark = "!" if found.status >= FAILED else ""
        self.asked[mark + method, path.partition("?")[0]] += 1
        return found

    def add(self, noun: str, method: str, path: str, body: Any, answer: adapter.Answer | str, **options: Any) -> None:
        """Note a request with its answer, or with what is to be said of that."""
        sent = options.get("content", b"").decode(errors="replace") if body is None else json.dumps(body)
        sent = sent if len(sent) <= LONGEST else f"{sent[:20]}... ({len(sent)} characters)"
        who = "".join(f" [{options[name]}]" for name in ("door", "uid") if options.get(name, "socket") != "socket")
        heading = self.daemon.names(f"{method} {path} {sent}".rstrip() + who)
        shown = self.daemon.names(answer) if isinstance(answer, str) else self._answer(answer, method, path)
        self.texts.setdefault(noun, []).append(f"{heading}\n{shown}\n")

    def files(self, state: str) -> Iterator[tuple[str, str]]:
        """The recorded texts, one for each noun."""
        for noun, texts in self.texts.items():
            yield f"{state}.{noun}.txt", "\n".join(texts)

    def _answer(self, found: adapter.Answer, method: str, path: str) -> str:
        """An answer by lines; an error in its one form is its status and its sentence."""
        allow = f" allow {found.allow}" if found.allow else ""
        head = f"{found.status} {found.kind}{allow}"
        if not found.kind.endswith("json"):
            return f"{head}\nsha256 {hashlib.sha256(self.daemon.names(found.body).encode()).hexdigest()}"
        value = text.parse(self.daemon.names(found.body))
        if found.kind == "application/problem+json" and value == _problem(found.status, value.get("detail", "")):
            return f"{found.status}{allow} {value['detail']}"
        if (masked := MASKED.get(path.partition("?")[0])) is not None and found.status < FAILED:
            return f"{head}\n{masked}"
        if method != "GET":
            return f"{head}\n{text.dump(value)}"
        shown = f"{head}\n{text.dump(self._referring(value))}"
        self._learn(value, path)
        return shown

    def _learn(self, value: Any, path: str) -> None:
        """Let later answers refer to this one, and to each object of a list."""
        self._whole.setdefault(text.dump(value), path)
        for found in value if isinstance(value, list) else [value]:
            if isinstance(found, dict) and (name := _name(found)):
                self._known[name] = (path, found)

    def _referring(self, value: Any) -> Any:
        """A value that repeats no answer before it: it names that, and has what is more or different."""
        if isinstance(value, list | dict) and len(flat := text.dump(value)) >= SHORTEST and flat in self._whole:
            return f"{REFERENCE} {self._whole[flat]}"
        if isinstance(value, list):
            return [self._referring(part) for part in value]
        if not isinstance(value, dict):
            return value
        path, known = self._known.get(_name(value), ("", {}))
        same = {name for name in value if name in known and known[name] == value[name]}
        if len(text.dump({name: value[name] for name in same})) < SHORTEST:
            return {name: self._referring(part) for name, part in value.items()}
        lacking = sorted(known.keys() - value.keys())
        without = {"without": lacking} if lacking else {}
        rest = {name: self._referring(part) for name, part in value.items() if name not in same}
        return {REFERENCE: path, **without, **rest}


def _name(value: dict[str, Any]) -> str:
    """What an object is called in each answer about it."""
    return str(value.get("uuid") or value.get("name") or value.get("id") or "")


def _problem(status: int, detail: str) -> dict[str, Any]:
    """An error in the one form that all of them have."""
    title = HTTPStatus(status).phrase
    return {"title": title, "status": status, "detail": detail, "code": status, "message": title, "explain": detail}


def reached(routes: Iterable[tuple[str, str]], asked: Counter[tuple[str, str]]) -> dict[tuple[str, str], list[int]]:
    """How often each route was answered and refused.

    A path counts for the route with the fewest variables that it fits.
    """
    known = sorted(routes, key=lambda route: (route[1].count("{"), -len(route[1])))
    found = {route: [0, 0] for route in known}
    for (marked, path), count in asked.items():
        method, is_refused = marked.removeprefix("!"), marked.startswith("!")
        for route in known:
            if route[0] == method and re.fullmatch(re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(route[1])), path):
                found[route][is_refused] += count
                break
    return found
