"""Actions as plays run them: the real plugin, its task, and a controller in a temporary folder."""

from __future__ import annotations

import importlib
import json
from typing import TYPE_CHECKING, Any

from ansible.parsing.dataloader import DataLoader
from ansible.playbook.play_context import PlayContext
from ansible.playbook.task import Task
from ansible.plugins.action import ActionBase
from ansible.plugins.connection.local import Connection
from ansible.template import Templar
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.power import power, power_record
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors, tree
from ansible_collections.roundsman.cluster.plugins.plugin_utils import run_group, run_records
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import store

from tests.unit import small_cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    import pytest
    from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes
    from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters

PACKAGE = "ansible_collections.roundsman.cluster.plugins.action"
LEVELS = ("cluster", "instance", "node", "node-res")
ALL = {f"{level}/[lockset]": "exclusive" for level in LEVELS} | {"cluster/BGL": "exclusive"}
"""Locks with which a run may hold whatever it wants."""


class Controller:
    """A controller with the small cluster, and the folder of a run of the daemon that all locks were granted to."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.where = tree.Tree(root)
        self.where.lib.mkdir(parents=True)
        self.where.run.mkdir(parents=True)
        self._run = root / "run-1"
        self._run.mkdir()
        monkeypatch.setenv(run_group.RUN_VARIABLE, str(self._run))
        self.configure(small_cluster.make())
        self.grant(ALL)

    def configure(self, cluster: clusters.Cluster) -> None:
        store.write(self.where.config, cluster)

    def grant(self, locks: Mapping[str, str]) -> None:
        (self._run / "granted.json").write_text(json.dumps(locks))

    @property
    def held(self) -> dict[str, str]:
        """The locks that the run holds by now, with their modes."""
        state = self._run / "held"
        found: dict[str, str] = json.loads(state.read_bytes())["locks"] if state.exists() else {}
        return found

    @property
    def recorded(self) -> list[changes.Change]:
        found = run_records.recorded(self._run, expected=None)
        assert found.unreadable == []
        return found.changes

    def run(
        self, action_name: str, *, is_check: bool = False, variables: Mapping[str, Any] | None = None, **options: Any
    ) -> dict[str, Any]:
        """The result of the action with these options."""
        task = Task()
        task.action, task.args, task.check_mode = f"roundsman.cluster.{action_name}", options, is_check
        loader, context = DataLoader(), PlayContext()
        plugin = importlib.import_module(f"{PACKAGE}.{action_name}").ActionModule
        action = plugin(task, Connection(context), context, loader, Templar(loader), None)
        hosts = {"roundsman_root": str(self.where.root), "hostvars": {name: {} for name in self._nodes()}}
        result: dict[str, Any] = action.run(task_vars={**hosts, **(variables or {})})
        return result

    def _nodes(self) -> list[str]:
        """The nodes (names) that the inventory of a play begins with."""
        try:
            return [node.name for node in store.read(self.where.config).nodes.values()]
        except errors.RoundsmanError:
            return []

    def refusal(self, action_name: str, **options: Any) -> str:
        """What the action says when it fails, which has to be one line."""
        result = self.run(action_name, **options)
        assert result["failed"], result
        assert result["msg"].isprintable()
        return str(result["msg"])


class Modules:
    """What modules print on a node, instead of running there; `calls` are their arguments."""

    is_check = False

    def __init__(self, monkeypatch: pytest.MonkeyPatch, answer: Callable[[dict[str, Any]], object]) -> None:
        self.calls: list[dict[str, Any]] = []

        def execute(
            action: Any, module_name: str | None = None, module_args: dict[str, Any] | None = None, **_: Any
        ) -> Any:
            given = action._task.args if module_args is None else module_args
            self.calls.append({"module": module_name or action._task.action, **given})
            self.is_check = bool(action._task.check_mode)
            return action._parse_returned_data({"stdout": json.dumps(answer(given)), "stderr": "", "rc": 0}, "legacy")

        monkeypatch.setattr(ActionBase, "_execute_module", execute)


class Bmcs(Modules):
    """Nodes with BMCs that do what they are told; those in `stuck` accept everything and do nothing."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, states: Mapping[str, power.State], *stuck: str) -> None:
        super().__init__(monkeypatch, self._answer)
        self.states = dict(states)
        self._stuck = stuck

    @property
    def sent(self) -> list[tuple[str, list[str]]]:
        """The commands, with the names of the nodes of each."""
        return [(call["command"], call["nodes"]) for call in self.calls]

    def _answer(self, given: dict[str, Any]) -> object:
        command = power.Command(given["command"])
        return {"results": [self._done(command, name).as_dict() for name in given["nodes"]]}

    def _done(self, command: power.Command, name: str) -> power.Outcome:
        before = self.states[name]
        if self.is_check:
            status = power.judge(power.Command.STATUS, name=name, before=before, seconds=1.0)
            return power_record.foresee(status, command=command)
        seen: list[power.State] = []
        if power.needs_sending(command, before=before):
            if name not in self._stuck:
                self.states[name] = power.wanted(command) or before
            seen = [self.states[name]] * power.FENCE_READS
        attempts = [power.Attempt(power.Answer.ACCEPTED)] * bool(seen)
        return power.judge(command, name=name, before=before, seen=seen, attempts=attempts, seconds=1.0)
