"""Calling a module about BMCs in this process, at simulated BMCs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from ansible.module_utils.testing import patch_module_args

from tests.unit.daemon.lab import simulated

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType


class Module:
    """Runs a module with arguments and gives what it printed, which is kept in `printed`."""

    def __init__(self, module: ModuleType, capsys: pytest.CaptureFixture[str], rack: simulated.Rack) -> None:
        self._module, self._capsys, self._rack = module, capsys, rack
        self.printed = ""

    def target(self, address: str, **changes: Any) -> dict[str, Any]:
        """How to reach the BMC at this address, which is its node's name too."""
        login = {"username": simulated.USERNAME, "password": simulated.PASSWORD}
        return {"name": address, "address": address, "port": self._rack.port, **login, **changes}

    def credentials(self, path: Path, *addresses: str, mode: int = 0o600) -> str:
        """Write a credentials file for the nodes of these addresses."""
        entries = {address: self.target(address) for address in addresses}
        for entry in entries.values():
            del entry["name"]
        path.write_text(json.dumps(entries))
        path.chmod(mode)
        return str(path)

    def __call__(self, *addresses: str, **arguments: Any) -> dict[str, Any]:
        if addresses:
            arguments["targets"] = [self.target(address) for address in addresses]
        arguments = {"deadline": 60.0, **arguments}
        with patch_module_args(arguments), pytest.raises(SystemExit):
            self._module.main()
        self.printed = self._capsys.readouterr().out
        result: dict[str, Any] = json.loads(self.printed)
        return result
