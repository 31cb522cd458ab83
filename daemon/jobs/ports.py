"""What the job queue works with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..failures import Failures

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ...plugins.plugin_utils.opcodes import contract
    from ..configuration import Configuration
    from ..locks.desk import Desk
    from .process import Processes
    from .store import Store


@dataclass(frozen=True)
class Ports:
    """The parts of the daemon that jobs touch; `environment` is that of every run.

    `on_life` is told which nodes (UUIDs) a run has shown to be alive.
    """

    store: Store
    desk: Desk
    processes: Processes
    configuration: Configuration
    facts: contract.Facts
    environment: Mapping[str, str]
    clock: Callable[[], float]
    failures: Failures = field(default_factory=Failures)
    on_life: Callable[[Iterable[str]], None] = lambda _nodes: None
