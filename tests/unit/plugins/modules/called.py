"""Calling a module in this process, on a node that is a folder."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.roundsman.cluster.daemon.lab.simulator import fake, simulated, simulated_world

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Sequence
    from types import ModuleType


class Node:
    """A simulated node, and the modules that run there."""

    def __init__(self, root: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.root = root
        self._monkeypatch = monkeypatch
        self._capsys = capsys
        for folder in (fake.RUNNING, simulated.DISKS, "lab"):
            (root / folder).mkdir(parents=True)

    def call(self, module: ModuleType, *, check: bool = False, **options: Any) -> dict[str, Any]:
        """What a module answers; `failed` is there in any case. An option that is None is not given."""
        self._monkeypatch.setenv("ROUNDSMAN_ROOT", str(self.root))
        given = {"hypervisor": "fake", "_ansible_check_mode": check, **options}
        arguments = {name: value for name, value in given.items() if value is not None}
        with patch_module_args(arguments), pytest.raises(SystemExit):
            module.main()
        return {"failed": False, **json.loads(self._capsys.readouterr().out)}

    def running(self) -> list[str]:
        return fake.Driver(self.root, opcode="").running()

    def start(self, name: str, *, devices: Sequence[str] = ()) -> None:
        fake.Driver(self.root, opcode="test").start(name, {"devices": list(devices)})

    def replicas(self) -> list[str]:
        return simulated_world.instances(self.root)

    def events(self) -> list[tuple[str, str, str]]:
        """What happened to instances here, without how each replica was from then on."""
        path = self.root / fake.JOURNAL
        lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        return [(one["instance"], one["event"], one["opcode"]) for one in lines if one["event"] != "replica"]
