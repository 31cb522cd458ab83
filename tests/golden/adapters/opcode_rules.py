"""What an opcode is to the queue, as lines of text: the one place where the trace `opcodes` calls the product.

It reads a configuration document (`config/document.py`), makes an opcode (`opcodes/registry.py`), calls its methods
(`opcodes/contract.py`), encodes its inventory (`config/hosts.py`), and asks the queue for its slot, and for the look
after a lost run (`daemon/jobs`).
"""

from __future__ import annotations

import dataclasses
import json
import sys
from typing import TYPE_CHECKING, Any

from ansible_collections.roundsman.cluster.daemon.jobs import rules, settling, values
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import document, hosts
from ansible_collections.roundsman.cluster.plugins.plugin_utils.opcodes import contract, registry
from ansible_collections.roundsman.cluster.plugins.plugin_utils.rounds import digests

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

VERSION = clusters.VERSION
UNFINISHED = clusters.UNFINISHED
DIGEST = "DIGEST"
"""Stands for the digest of the cluster."""
NOW = 100.0

AT_NODES = frozenset({"power", "health", "find_power", "second_copies", "repair_command"})
RECORDED = {
    **{("power", name): f"node_power_{name}" for name in ("expected", "delay", "batch", "check")},
    ("power", "command"): "node_power",
    ("diagnose", "command"): "diagnose_command",
    ("repair_disks", "discard"): "repair_discard",
}
"""Names that variables of plays had when the trace was recorded: each beside the others, and not in `step`."""


class Rules:
    """The opcodes on one cluster, beside which these facts are known."""

    def __init__(
        self,
        configuration: str,
        *,
        silent: Sequence[str] = (),
        reported: Sequence[str] = (),
    ) -> None:
        self._cluster = document.load(configuration.encode())
        self._facts = _Facts(silent, reported)

    def refusal(self, kind: str, params: Mapping[str, Any]) -> str:
        """Why these parameters are refused, or ''."""
        try:
            self._make(kind, params)
        except errors.RoundsmanError as error:
            return str(error)
        return ""

    def inventory(self) -> list[str]:
        """The inventory of a run at all nodes."""
        return _inventory(hosts.run_inventory(self._cluster, list(self._cluster.nodes), root="/ROOT"))

    def after_run(self, kind: str, params: Mapping[str, Any], value: Any) -> list[str]:
        """What is logged, and kept as the result, once a run has left this value."""
        made, lines = self._make(kind, params), []
        if made.execution is not contract.Execution.PLAY:
            return []
        if _says(made, "notices"):
            lines += [f"{'warning' if one.is_trouble else 'info'}: {one.text}" for one in made.notices(value)]
        if _says(made, "outcome"):
            lines.append(f"result: {_json(made.outcome(value))}")
        return lines

    def lines(self, kind: str, params: Mapping[str, Any], *, leaves: bool = False) -> list[str]:
        """All that the queue learns of an opcode; what is refused stands in place of the answer.

        A line has a variable of its play, or with `leaves` a leaf of one.
        """
        made, cluster = self._make(kind, params), self._cluster
        asked: dict[str, Callable[[], list[str]]] = {
            "lock": lambda: [f"{lock} {mode.value}" for lock, mode in made.wants(cluster).items()],
            "executed": lambda: [_execution(made, kind, params)],
            "moot": lambda: [made.moot(cluster)] if made.moot(cluster) else [],
        }
        if made.execution is contract.Execution.CHANGE:
            asked |= {"changes": lambda: self._changes(made)}
        elif made.execution is contract.Execution.SUBMIT:
            asked |= {"job": lambda: [_job(one) for one in made.jobs(cluster, self._facts)]}
        elif made.execution is contract.Execution.DELAY:
            asked |= {"seconds": lambda: [str(made.seconds())]}
        else:
            asked |= self._play(made, leaves=leaves)
        return [f"{name}: {text}" for name, ask in asked.items() for text in _answered(ask)]

    def _play(self, made: contract.PlayOpcode, *, leaves: bool) -> dict[str, Callable[[], list[str]]]:
        cluster = self._cluster
        return {
            "facts": lambda: self._start(made),
            "limit": lambda: [f"{made.time_limit(cluster)} s"],
            "hosts": lambda: [self._names(made.hosts(cluster)) or "none but the controller"],
            "variable": lambda: _variables(_as_recorded(made.kind, made.variables(cluster)), leaves=leaves),
            "file": lambda: [f"{name} = {text}" for name, text in made.files().items()],
            "whole report": lambda: [f"{name} = {text}" for name, text in _whole(made).items()],
            "becomes": lambda: self._becomes(made),
            "when lost": lambda: self._look(made)[: 1 if leaves else None],
        }

    def _start(self, made: contract.PlayOpcode) -> list[str]:
        if not _says(made, "check_facts"):
            return []
        start = made.check_facts(self._cluster, self._facts)
        return ["checked" if start is None else f"checked, starts on {_json(dataclasses.asdict(start))}"]

    def _look(self, made: contract.PlayOpcode) -> list[str]:
        look = settling.look_after(made, self._cluster)
        if look is None:
            return []
        given = {
            name: value
            for name, value in _as_recorded(look.kind, look.variables(self._cluster)).items()
            if name != "instance"
        }
        return [f"{look.kind} at {self._names(look.hosts(self._cluster)) or 'the controller'}", *_variables(given)]

    def _names(self, nodes: Sequence[str]) -> str:
        return " ".join(map(self._cluster.node_name, nodes))

    def _becomes(self, made: contract.PlayOpcode) -> list[str]:
        effects = getattr(made, "effects", None)
        return self._document_changes(effects(self._cluster)) if effects is not None else []

    def _changes(self, made: contract.ChangeOpcode) -> list[str]:
        found = made.changes(self._cluster, self._facts, since=NOW)
        lines = self._document_changes(found)
        if _says(made, "told"):
            lines += [f"shown {text}" for text in made.told(self._cluster, found)]
        if _says(made, "result"):
            lines.append(f"result {_json(made.result(self._cluster, found))}")
        if made.removes:
            lines.append(f"was removed before: {made.is_removed(self._cluster)}")
        if made.hears:
            lines.append("hears all reports first")
        return lines

    def _document_changes(self, stated: Sequence[changes.Change]) -> list[str]:
        """What differs in the configuration document once the changes are applied."""
        after = changes.apply_all(self._cluster, list(stated), now=NOW)
        before, now = (json.loads(document.dump(one)) for one in (self._cluster, after))
        return [f"{path}: {old} -> {new}" for path, old, new in differing("", before, now)]

    def _make(self, kind: str, params: Mapping[str, Any]) -> registry.Made:
        given = dict(params)
        if given.get("digest") == DIGEST:
            given["digest"] = digests.digest(self._cluster)
        return registry.make(kind, given)


class _Facts:
    """What the daemon knows of nodes beside the configuration."""

    def __init__(self, silent: Sequence[str], reported: Sequence[str]) -> None:
        self._silent, self._reported = silent, reported

    async def take_all(self) -> bool:
        return False

    def reported_ok_since(self, node: str, since: float) -> bool:
        del since
        return node in self._reported

    def is_silent(self, node: str) -> bool:
        return node in self._silent

    def last_said(self, node: str) -> float:
        del node
        return 90.0

    def off(self, node: str) -> tuple[float, float] | None:
        return (90.0, 10.0) if node in self._silent else None


def _says(made: registry.Made, method: str) -> bool:
    """Whether a kind of opcode has another answer than most."""
    bases = (contract.PlayOpcode, contract.ChangeOpcode)
    return getattr(type(made), method) not in [getattr(base, method, None) for base in bases]


def _execution(made: registry.Made, kind: str, params: Mapping[str, Any]) -> str:
    how = "as a play"
    if made.execution is contract.Execution.CHANGE:
        how = "as a change of the configuration"
    elif made.execution is contract.Execution.SUBMIT:
        how = "by submitting jobs"
    elif made.execution is contract.Execution.DELAY:
        how = "by waiting"
    one = values.Job(id=1, opcodes=(values.Opcode(kind=kind, params=params),), received=NOW, reason=())
    return f"{how}, {_SLOTS[rules.lane(one)]}"


_SLOTS = {
    rules.Lane.DAEMON: "without a slot",
    rules.Lane.SLOT: "in a slot",
    rules.Lane.URGENT: "in a reserved slot if need be",
}


def _variables(given: Mapping[str, Any], *, leaves: bool = False) -> list[str]:
    if leaves:
        return [f"{path[1:]} = {value}" for path, value in _leaves("", dict(sorted(given.items())))]
    return [f"{name} = {_json(value)}" for name, value in sorted(given.items())]


def _whole(made: contract.PlayOpcode) -> Mapping[str, str]:
    return made.whole_reports()


def _job(one: Any) -> str:
    opcodes = ", ".join(f"{opcode.kind} {_json(dict(opcode.params))}" for opcode in one.opcodes)
    return f"{one.key} after {list(one.after)} behind {list(one.behind)} reason {one.reason!r}: {opcodes}"


def _as_recorded(kind: str, variables: Mapping[str, Any]) -> dict[str, Any]:
    """What a play is given, by the names of before."""
    prefix = "cluster" if kind == "cluster_verify" else "node" if kind in AT_NODES else "instance"
    return {
        RECORDED.get((kind, name), name if name == prefix else f"{prefix}_{name}"): value
        for name, value in variables.items()
    }


def _answered(ask: Callable[[], list[str]]) -> list[str]:
    try:
        return ask()
    except errors.RoundsmanError as error:
        return [f"REFUSED {error}"]


def _inventory(encoded: bytes) -> list[str]:
    return [f"{path} = {value}" for path, value in _leaves("", json.loads(encoded)) if "interpreter" not in path]


_NOISE = frozenset({"serial_no", "mtime", "ctime"})


def differing(path: str, before: Any, now: Any) -> Iterator[tuple[str, str, str]]:
    """The paths of values that differ between two documents, with both as JSON; `-` for none."""
    if before == now:
        return
    if isinstance(before, dict) and isinstance(now, dict):
        for name in sorted({*before, *now} - _NOISE):
            yield from differing(f"{path}/{name}", before.get(name, _NONE), now.get(name, _NONE))
    elif isinstance(before, list) and isinstance(now, list):
        yield path, _json([one for one in before if one not in now]), _json([one for one in now if one not in before])
    else:
        old, new = ("-" if one is _NONE else _json(one) for one in (before, now))
        yield path, old, new


_NONE = object()


def _leaves(path: str, value: Any) -> Iterator[tuple[str, str]]:
    """The paths of a document with their values as JSON, one for each leaf."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    if not entries:
        yield path, _json(value)
    for name, inner in entries:
        yield from _leaves(f"{path}/{name}", inner)


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str, ensure_ascii=False).replace(sys.executable, "PYTHON")
