"""An opcode that waits: for trying out the queue, locks and filters (as Ganeti's OP_TEST_DELAY)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from ...module_utils.domain.values import errors
from ..cluster import locks
from ..cluster.locks import Mode  # noqa: TC001 - pydantic reads the annotations at run time
from . import contract

if TYPE_CHECKING:
    from ..cluster import cluster as clusters

LONGEST = 86400.0


@dataclass(frozen=True)
class TestDelay(contract.DelayOpcode):
    """Wait `duration` seconds inside the daemon, under these locks, or do nothing."""

    __test__: ClassVar[bool] = False
    kind: ClassVar[str] = "test_delay"
    duration: float = 0.0
    locks: dict[str, Mode] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 0 <= self.duration <= LONGEST:
            raise errors.InvalidInput(f"opcode test_delay: duration: {self.duration:g} is not from 0 to {LONGEST:g}")
        for lock in self.locks:
            locks.level(lock)

    def wants(self, _cluster: clusters.Cluster) -> dict[str, Mode]:
        return dict(self.locks)

    def seconds(self) -> float:
        return self.duration
