"""Filters: rules that let jobs start, hold them, cancel them or limit how many are at work (Ganeti's job filters).

The rules are looked at by priority (the smallest number first), then watermark, then UUID; all predicates of a rule
must match, and the first match that does not say CONTINUE decides. A job that has begun is not stopped by a rule.

A predicate is `[name, query]`, and a query is written in Ganeti's query language:

    jobid    the field `id`; the value `watermark` is the highest job number when the rule was made
    opcode   the field `OP_ID` and the names of parameters; one opcode that matches is enough
    reason   the fields `source`, `reason`, `timestamp` (ns); one entry that matches is enough
"""

from __future__ import annotations

import fnmatch
import re
from dataclasses import dataclass
from enum import Enum
from typing import Any, Callable, Iterable, Iterator, Mapping, Optional, Sequence

from ...module_utils.domain.values import errors
from ..values import patterns

WATERMARK = "watermark"
RATE_LIMIT = re.compile(r"rate-limit:([0-9]{1,9}):(.*)", re.DOTALL)
DEEPEST = 20
MOST_OPERATORS = 200
MOST_PATTERNS = 10
"""How many operators a query may have, and how many of them `=~` or `=*`: it is asked of each object in turn."""


class Action(Enum):
    """What a filter does with the jobs that it matches."""

    ACCEPT = "ACCEPT"
    PAUSE = "PAUSE"
    REJECT = "REJECT"
    CONTINUE = "CONTINUE"
    RATE_LIMIT = "RATE_LIMIT"


@dataclass(frozen=True)
class Filter:
    """One rule; `limit` counts with RATE_LIMIT only, and `reason` holds entries of source, text and time (ns)."""

    uuid: str
    watermark: int
    priority: int
    predicates: tuple[tuple[str, Any], ...]
    action: Action
    limit: int = 0
    reason: tuple[tuple[str, str, int], ...] = ()

    @property
    def problem(self) -> Optional[str]:
        """Why the rule matches no job: an earlier version accepted a pattern that may take too long."""
        parts = (part for _, query in self.predicates for part in _parts(query))
        told = (patterns.problem(part[2]) for part in parts if part[0] == "=~")
        return next((text for text in told if text is not None), None)


@dataclass(frozen=True)
class Subject:
    """What filters see of a job: each of its opcodes and of the entries of its reason trail as a mapping of fields."""

    id: int
    opcodes: Sequence[Mapping[str, Any]]
    reason: Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Bucket:
    """At most `limit` jobs of one bucket are at work."""

    name: str
    limit: int


@dataclass(frozen=True)
class Verdict:
    """What the rules say of a job; the rule that decided, and the buckets that it needs a place in."""

    action: Action
    decided: Optional[Filter] = None
    buckets: tuple[Bucket, ...] = ()


def judge(filters: Mapping[str, Filter], subject: Subject) -> Verdict:
    """What the rules, and the `rate-limit:n:name` entries of its own reason trail, say of a job."""
    buckets = _own_buckets(subject)
    for rule in ordered(filters):
        if rule.action is Action.CONTINUE or not matches(rule, subject):
            continue
        if rule.action is Action.RATE_LIMIT:
            return Verdict(Action.ACCEPT, rule, (*buckets, Bucket(f"filter {rule.uuid}", rule.limit)))
        return Verdict(rule.action, rule, buckets)
    return Verdict(Action.ACCEPT, None, buckets)


def ordered(filters: Mapping[str, Filter]) -> list[Filter]:
    """The rules in the order in which they are looked at."""
    return sorted(filters.values(), key=lambda rule: (rule.priority, rule.watermark, rule.uuid))


def _own_buckets(subject: Subject) -> tuple[Bucket, ...]:
    found = (RATE_LIMIT.match(str(entry["reason"])) for entry in subject.reason)
    # "3:x" and "4:x" are different buckets, and a job counts once in each.
    named = dict.fromkeys((int(match[1]), match[2]) for match in found if match is not None and int(match[1]) >= 1)
    return tuple(Bucket(f"{limit}:{name}", limit) for limit, name in named)


def matches(rule: Filter, subject: Subject) -> bool:
    """Whether all predicates of a rule match a job; never those of a rule with a problem."""
    return rule.problem is None and all(_matches(rule, name, query, subject) for name, query in rule.predicates)


def _parts(query: Any) -> Iterator[Sequence[Any]]:
    """A query and those within it."""
    yield query
    if query[0] in JUNCTIONS or query[0] == "!":
        for operand in query[1:]:
            yield from _parts(operand)


def _matches(rule: Filter, name: str, query: Any, subject: Subject) -> bool:
    if name == "jobid":
        return holds(query, {"id": subject.id, WATERMARK: rule.watermark})
    return any(holds(query, entry) for entry in (subject.opcodes if name == "opcode" else subject.reason))


def make(
    value: Mapping[str, Any],
    *,
    uuid: str,
    watermark: int,
    reason: Sequence[tuple[str, str, int]],
) -> Filter:
    """The rule that the members `priority`, `predicates` and `action` state; the reason is in the form of a trail.

    Raises:
        InvalidInput: a member is missing, unknown or cannot be represented; the text names it.
    """
    if unknown := sorted(set(value) - {"priority", "predicates", "action", "reason"}):
        raise errors.InvalidInput(f"filter: there is no member {unknown[0]!r}")
    priority = value.get("priority", 0)
    if not _is_number(priority) or not 0 <= priority < 2**31:
        raise errors.InvalidInput(f"filter: priority: {priority!r} is not a number from 0")
    action, limit = parse_action(value.get("action", Action.CONTINUE.value))
    predicates = value.get("predicates", [])
    if not isinstance(predicates, (list, tuple)):
        raise errors.InvalidInput(f"filter: predicates: {predicates!r} is not a list")
    checked = tuple(_predicate(predicate, f"filter: predicates/{index}") for index, predicate in enumerate(predicates))
    return Filter(uuid, watermark, priority, checked, action, limit, tuple(reason))


def parse_action(value: Any) -> tuple[Action, int]:
    """An action and its limit, from `"PAUSE"` or `["RATE_LIMIT", n]`.

    Raises:
        InvalidInput: it is neither.
    """
    if isinstance(value, (list, tuple)):
        if len(value) == 2 and value[0] == Action.RATE_LIMIT.value and _is_number(value[1]) and value[1] >= 1:  # noqa: PLR2004 - a name and a number
            return Action.RATE_LIMIT, value[1]
    elif isinstance(value, str) and value in {action.value for action in Action if action is not Action.RATE_LIMIT}:
        return Action(value), 0
    raise errors.InvalidInput(
        f'filter: action: {value!r} is not one of ACCEPT, PAUSE, REJECT, CONTINUE, ["RATE_LIMIT", n] with n from 1'
    )


def tell_action(rule: Filter) -> Any:
    """The action in the form that `parse_action` reads."""
    return [rule.action.value, rule.limit] if rule.action is Action.RATE_LIMIT else rule.action.value


FIELDS: Mapping[str, Optional[frozenset[str]]] = {
    "jobid": frozenset({"id"}),
    "opcode": None,
    "reason": frozenset({"source", "reason", "timestamp"}),
}


def _predicate(value: Any, where: str) -> tuple[str, Any]:
    if not isinstance(value, (list, tuple)) or len(value) != 2 or value[0] not in FIELDS:  # noqa: PLR2004 - name, query
        raise errors.InvalidInput(f"{where}: {value!r} is not [NAME, QUERY] with a name of {', '.join(FIELDS)}")
    check(value[1], f"{where}/1", fields=FIELDS[value[0]])
    return value[0], value[1]


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _contains(value: Any, wanted: Any) -> bool:
    return isinstance(value, (list, tuple, dict)) and wanted in value


def _matches_pattern(value: Any, pattern: Any) -> bool:
    return isinstance(value, str) and patterns.problem(pattern) is None and patterns.matches(pattern, value)


def _matches_glob(value: Any, pattern: Any) -> bool:
    return isinstance(value, str) and fnmatch.fnmatchcase(value, str(pattern))


def _same(value: Any, wanted: Any) -> bool:
    # JSON's true is not its 1.
    return isinstance(value, bool) is isinstance(wanted, bool) and bool(value == wanted)


def _in_order(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def compared(value: Any, other: Any) -> bool:
        comparable = (_is_number(value) and _is_number(other)) or (isinstance(value, str) and isinstance(other, str))
        return comparable and compare(value, other)

    return compared


COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": _same,
    "==": _same,
    "!=": lambda value, other: not _same(value, other),
    "<": _in_order(lambda value, other: bool(value < other)),
    "<=": _in_order(lambda value, other: bool(value <= other)),
    ">": _in_order(lambda value, other: bool(value > other)),
    ">=": _in_order(lambda value, other: bool(value >= other)),
    "=~": _matches_pattern,
    "=[]": _contains,
    "=*": _matches_glob,
}
JUNCTIONS: Mapping[str, Callable[[Iterable[bool]], bool]] = {"&": all, "|": any}
OPERATORS = ", ".join(["&", "|", "!", "?", *COMPARISONS])


def holds(query: Any, fields: Mapping[str, Any]) -> bool:
    """Whether a query that was checked is true of these fields; a comparison with a field that is not there is not."""
    operator: str = query[0]
    if operator in JUNCTIONS:
        return JUNCTIONS[operator](holds(operand, fields) for operand in query[1:])
    if operator == "!":
        return not holds(query[1], fields)
    if operator == "?":
        return bool(fields.get(query[1]))
    if query[1] not in fields:
        return operator == "!="
    wanted = fields[WATERMARK] if query[2] == WATERMARK and WATERMARK in fields else query[2]
    return COMPARISONS[operator](fields[query[1]], wanted)


def check(query: Any, where: str, *, fields: Optional[frozenset[str]] = None) -> None:
    """A query is written in Ganeti's query language and names these fields only.

    Raises:
        InvalidInput: it is not; the text says where.
    """
    _check(query, where, fields, depth=0)
    operators = [part[0] for part in _parts(query)]
    if len(operators) > MOST_OPERATORS:
        raise errors.InvalidInput(f"{where}: use at most {MOST_OPERATORS} operators in a query (got {len(operators)})")
    if (count := sum(operator in {"=~", "=*"} for operator in operators)) > MOST_PATTERNS:
        raise errors.InvalidInput(f"{where}: use at most {MOST_PATTERNS} of =~ and =* in a query (got {count})")


def _check(query: Any, where: str, fields: Optional[frozenset[str]], *, depth: int) -> None:
    if not isinstance(query, (list, tuple)) or not query or not isinstance(query[0], str):
        raise errors.InvalidInput(f"{where}: {query!r} is not a list that begins with an operator")
    operator, operands = query[0], query[1:]
    if depth > DEEPEST:
        raise errors.InvalidInput(f"{where}: more than {DEEPEST} queries stand within each other")
    if operator in JUNCTIONS or operator == "!":
        if operator == "!" and len(operands) != 1:
            raise errors.InvalidInput(f"{where}: ! takes one query")
        for index, operand in enumerate(operands):
            _check(operand, f"{where}/{index + 1}", fields, depth=depth + 1)
        return
    if operator != "?" and operator not in COMPARISONS:
        raise errors.InvalidInput(f"{where}: there is no operator {operator!r}: use one of {OPERATORS}")
    _check_comparison(operator, operands, where, fields)


def _check_comparison(operator: str, operands: Sequence[Any], where: str, fields: Optional[frozenset[str]]) -> None:
    wanted = 1 if operator == "?" else 2
    if len(operands) != wanted or not isinstance(operands[0], str):
        raise errors.InvalidInput(f"{where}: {operator} takes a field{' and a value' if wanted > 1 else ''}")
    if fields is not None and operands[0] not in fields:
        raise errors.InvalidInput(f"{where}: there is no field {operands[0]!r}: use {' or '.join(sorted(fields))}")
    if operator == "=~":
        if (problem := patterns.problem(operands[1])) is not None:
            raise errors.InvalidInput(f"{where}: {problem}")
    elif operator == "=*" and len(str(operands[1])) > patterns.LIMITS[0].pattern:
        raise errors.InvalidInput(f"{where}: a pattern is a string of at most {patterns.LIMITS[0].pattern} characters")
    elif wanted > 1 and not isinstance(operands[1], (str, int, float, bool, type(None))):
        raise errors.InvalidInput(f"{where}: {operands[1]!r} is not a value to compare with")
