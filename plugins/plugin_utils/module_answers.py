"""What may come back from a module of ours that ran on a node: its documented keys, in their types, up to a size.

A node may be compromised, and Ansible takes more out of a result than its values: facts become variables of the play's
host, statistics become results of the job, and warnings are printed as they are.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure, AnsibleError
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ..module_utils import leader_record
from ..module_utils.domain.agent import votes
from ..module_utils.domain.values import errors, secret_values, tree
from . import controller_epoch, libraries, reaching, run_group

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

FIELDS: Mapping[str, Mapping[str, str]] = {
    "diagnose": {"envelope": "str", "command": "str", "status": "str", "problem": "dict"},
    "drbd_info": {"version": "int", "sides": "list[dict]", "unread": "dict"},
    "drbd_repair": {"steps": "list[str]", "snapshots": "list[str]"},
    "helper_program_info": {"problems": "dict"},
    "host_inventory_info": {"hostname": "str", "libvirt": "dict", "storage": "dict"},
    "instance_disks": {
        "present": "bool",
        "devices": "list[str]",
        "disks": "list[dict]",
        "synced": "bool",
        "progress": "float",
        "uptime": "float",
        "node_id": "int",
        "steps": "list[str]",
    },
    "instance_info": {
        "running": "list[str]",
        "replicas": "list[str]",
        "states": "dict",
        "facts": "dict",
        "migrations": "dict",
        "recovered": "str",
    },
    "instance_migrate": {"migrated": "bool", "target_lacks": "str", "progress": "dict"},
    "instance_state": {"running": "bool", "state": "str"},
    "instances_state": {"results": "list[dict]", "missed": "list[str]"},
    "leader": {"node": "str", "boot": "str", "follows": "dict", "refusal": "str", "steps": "dict"},
    "oob_health": {"results": "list[dict]", "trouble": "list[list]", "unknown": "list[str]"},
    "oob_info": {"results": "list[dict]"},
    "oob_power": {"results": "list[dict]", "unconfirmed": "list[str]"},
    "repair_command": {"rc": "int", "stdout": "str", "stderr": "str", "reason": "str"},
}
"""The keys of each module's RETURN documentation with their types; a test compares the two."""
FLAGS = ("changed", "failed", "skipped")
SHOWN = ("msg", "module_stdout", "module_stderr")
"""Texts that Ansible prints as they are."""
EXPECTED = frozenset(
    {"invocation", "exception", "warnings", "deprecations", "rc", "stdout_lines", "stderr_lines", "_ansible_parsed"}
)
"""Keys that every module may add, of which none leaves this place and nobody is warned."""
TYPES: Mapping[str, tuple[type, ...]] = {
    "bool": (bool,),
    "int": (int,),
    "float": (int, float),
    "str": (str,),
    "dict": (dict,),
    "list": (list,),
}
NODE_BYTES = 4 * 1024 * 1024
BYTES = {"host_inventory_info": 16 * 1024 * 1024, "leader": votes.LIMIT}
CONTROLLER_BYTES = 64 * 1024 * 1024
"""How long the output of a module may be: on a node, of these modules, and on the controller itself."""
ROOT = "roundsman_root"
NODE = "roundsman_node_uuid"
TEXT_LIMIT = 4000
DEPTH = 40
LOOK_SECONDS = 0.05
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_PLAIN_PATH = re.compile(r"/[A-Za-z0-9_+./-]{1,200}\Z")
_DISCOVERED = "discovered_interpreter_python"


class AnswerTooLarge(AnsibleActionFail):  # type: ignore[misc]  # Ansible ships no types
    """A command on a node wrote more than it may."""


class UnexpectedAnswer(Exception):
    """An answer is not what the module's documentation says."""


class Action(ActionBase):  # type: ignore[misc]  # Ansible ships no types
    """The parent of all our actions: what a module answers is bounded, and only its documented keys are taken."""

    _module = ""
    _needs_libraries = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        if self._needs_libraries:
            _require_libraries()
        result: dict[str, Any] = super().run(tmp, task_vars)
        if task_vars is not None and ROOT in task_vars:
            # Actions are given variables as they were written.
            task_vars[ROOT] = self._templar.template(task_vars[ROOT])
        return result

    def _execute_module(self, module_name: str | None = None, *args: Any, **options: Any) -> dict[str, Any]:
        self._module = (module_name or self._task.action).rpartition(".")[2]
        is_node = self._connection.transport != "local"
        limit = BYTES.get(self._module, NODE_BYTES) if is_node else CONTROLLER_BYTES
        try:
            with bounded(self._connection, limit=limit):
                if is_node:
                    known = options.get("task_vars")
                    reaching.require_answer(
                        self, interpreter=self._interpreter(known), seconds=self._reach_seconds(known)
                    )
                with self._ordered(options.get("task_vars"), is_node=is_node):
                    answer = super()._execute_module(module_name, *args, **options)
        except AnswerTooLarge as error:
            return _failure(f"{self._module}: {error}")
        known = (*FLAGS, *SHOWN, "diff", *FIELDS.get(self._module, ()))
        return {**{key: answer[key] for key in known if key in answer}, **self._discovered()}

    @contextlib.contextmanager
    def _ordered(self, variables: Mapping[str, Any] | None, *, is_node: bool) -> Iterator[None]:
        """Have a module know by which epoch of this controller it is ordered, and for which boot of its node.

        The node that carries the controller may be reached by a local connection. What else runs here, perhaps by a
        user who may not read the epoch, needs none.
        """
        order = None
        try:
            node = str(self._of_host(variables, NODE) or "")
            order = controller_epoch.load(tree.Tree(Path(str((variables or {}).get(ROOT, "/")))), node)
        except errors.StoreFailed as error:
            if is_node:
                raise AnsibleActionFail(str(error)) from error
        before = self._task.environment
        if order is not None:
            self._task.environment = [*(before or []), {leader_record.VARIABLE: str(order)}]
        try:
            yield
        finally:
            self._task.environment = before

    def _parse_returned_data(self, res: dict[str, Any], profile: str) -> dict[str, Any]:
        try:
            answer = super()._parse_returned_data(res, profile)
            kept, dropped = documented(self._module, answer)
        except UnexpectedAnswer as error:
            return _failure(f"{self._module}: {error}")
        except (RecursionError, MemoryError, AnsibleError, AttributeError, KeyError, TypeError, ValueError) as error:
            return _failure(f"{self._module}: the answer of the module cannot be read: {shown(str(error))}")
        if dropped:
            Display().warning(f"keys that {self._module} does not document were dropped from its answer: {dropped}")
        return kept

    def _interpreter(self, variables: Mapping[str, Any] | None) -> str:
        """The interpreter that the inventory gives the node where the module runs."""
        return str(self._of_host(variables, "ansible_python_interpreter") or "")

    def _reach_seconds(self, variables: Mapping[str, Any] | None) -> float:
        """How long the node where the module runs may take to answer."""
        return reaching.limit(self._of_host(variables, reaching.VARIABLE))

    def _of_host(self, variables: Mapping[str, Any] | None, name: str) -> Any:
        """A variable of the node where the module runs; None where it has none."""
        known: Mapping[str, Any] = variables or {}
        if self._task.delegate_to:
            known = known.get("ansible_delegated_vars", {}).get(self._task.delegate_to, {})
        return self._templar.template(known[name]) if name in known else None

    def _discovered(self) -> dict[str, Any]:
        """The interpreter that Ansible found on the node, so that it is not looked for again: a plain path."""
        found = str(self._discovered_interpreter or "")
        if self._discovered_interpreter_key != _DISCOVERED or not _PLAIN_PATH.match(found):
            return {}
        return {"ansible_facts": {_DISCOVERED: found}}


class ModuleAction(Action):
    """The action of a module that needs nothing of the controller."""

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        return {**result, **self._execute_module(task_vars=task_vars)}


def _require_libraries() -> None:
    try:
        libraries.require()
    except errors.Refused as error:
        raise AnsibleActionFail(str(error)) from None


def _failure(text: str) -> dict[str, Any]:
    return {"failed": True, "changed": False, "msg": text}


def documented(name: str, answer: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """What may leave the answer of a module, and the names of what was unexpected and is dropped.

    Raises:
        UnexpectedAnswer: a documented key has another type, or the answer is nested too deeply.
    """
    fields = FIELDS.get(name, {})
    kept: dict[str, Any] = {key: bool(answer[key]) for key in FLAGS if key in answer}
    for key, kind in fields.items():
        if key in answer:
            value = _plain(answer[key], depth=0)
            if not _is_of(value, kind):
                raise UnexpectedAnswer(f"the answer of the module is not as documented: {key} must be {kind}")
            kept[key] = value
    kept |= {key: shown(str(answer[key])) for key in SHOWN if key in answer and key not in fields}
    if isinstance(answer.get("diff"), (dict, list)):
        kept["diff"] = _shown_within(_plain(answer["diff"], depth=0))
    unexpected = sorted(str(key) for key in set(answer) - set(kept) - EXPECTED - {"diff"})
    return kept, ascii(", ".join(unexpected))[1:-1][:200]


def shown(text: str) -> str:
    """A text that may be printed: without secrets, control characters escaped, and what is too long is cut."""
    whole = str(secret_values.masked(_SURROGATE.sub("\ufffd", text)))
    cut = whole if len(whole) <= TEXT_LIMIT else f"{whole[:TEXT_LIMIT]} ... ({len(whole)} characters)"
    return _CONTROL.sub(lambda found: ascii(found.group())[1:-1], cut)


@contextlib.contextmanager
def bounded(connection: Any, *, limit: int) -> Iterator[None]:
    """Bound what each command on a connection may write, in bytes; one that writes more is killed.

    The connections of Ansible read until the end, so a look at the memory of this process ends the reading.
    """
    inner = connection.exec_command

    def exec_command(*args: Any, **options: Any) -> Any:
        with _Watch(limit) as watch:
            try:
                told = inner(*args, **options)
            except AnsibleConnectionFailure as error:
                if watch.is_over:
                    raise AnswerTooLarge(_too_large(limit)) from error
                if len(str(error)) <= TEXT_LIMIT:
                    raise
                raise AnsibleConnectionFailure(shown(str(error))) from None
        if watch.is_over or sum(len(part) for part in told[1:] if isinstance(part, (bytes, str))) > limit:
            raise AnswerTooLarge(_too_large(limit))
        return told

    connection.exec_command = exec_command
    try:
        yield
    finally:
        connection.exec_command = inner


def _too_large(limit: int) -> str:
    return f"the node wrote more than {limit} bytes, and was not listened to any longer"


class _Watch:
    """Kills the children of this process, a worker of ansible-playbook, when it has grown too much."""

    def __init__(self, limit: int) -> None:
        self.is_over = False
        self._most = _memory() + 32 * 1024 * 1024 + 8 * limit
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, name="size of the answer", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._ended.wait(LOOK_SECONDS):
            if not self.is_over and _memory() <= self._most:
                continue
            self.is_over = True
            for pid in run_group.descendants(os.getpid()):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)


def _memory() -> int:
    """The bytes of memory that are this process's own."""
    try:
        _, resident, shared = Path("/proc/self/statm").read_text().split()[:3]
    except OSError:
        return 0
    return (int(resident) - int(shared)) * os.sysconf("SC_PAGE_SIZE")


def _plain(value: Any, *, depth: int) -> Any:
    """A JSON value of nothing but JSON, whose texts can be encoded."""
    if depth > DEPTH:
        raise UnexpectedAnswer(f"the answer of the module is nested more than {DEPTH} times")
    if isinstance(value, dict):
        return {_text(key): _plain(inner, depth=depth + 1) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner, depth=depth + 1) for inner in value]
    if isinstance(value, str):
        return _text(value)
    if value is None or type(value) in {bool, int, float}:
        return value
    raise UnexpectedAnswer("the answer of the module has values that are no JSON")


def _text(value: object) -> str:
    # Another string than the one that was decoded: what Ansible noted about that one stays with it.
    return _SURROGATE.sub("\ufffd", "".join(str(value)))


def _is_of(value: Any, kind: str) -> bool:
    outer, _, inner = kind.rstrip("]").partition("[")
    if value is None:
        # No module of ours has no list, and who reads one goes through it.
        return outer != "list"
    if isinstance(value, bool) and outer != "bool":
        return False
    elements = value if inner and isinstance(value, list) else ()
    return isinstance(value, TYPES[outer]) and all(
        element is not None and _is_of(element, inner) for element in elements
    )


def _shown_within(value: Any) -> Any:
    if isinstance(value, dict):
        return {shown(key): _shown_within(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_shown_within(inner) for inner in value]
    return shown(value) if isinstance(value, str) else value
