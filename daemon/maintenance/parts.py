"""What parts of the daemon have in common that look again whenever something has happened."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

from ...plugins.module_utils.domain.values import errors

if TYPE_CHECKING:
    from ..failures import Failures


class Part(ABC):
    """One step at each event: `wake` says that something has happened; what fails is reported under `name`."""

    name: ClassVar[str]
    retried: ClassVar[str]
    """When a step that failed is retried, for a person."""

    def __init__(self, failures: Failures) -> None:
        self._failures = failures
        self._awake = asyncio.Event()

    def wake(self) -> None:
        """Something has happened: look again."""
        self._awake.set()

    async def run(self) -> None:
        """Work for ever; a step that fails is reported, and retried at the next event."""
        while True:
            self._awake.clear()
            try:
                await self.step()
                self._failures.recovered(self.name)
            except (errors.RoundsmanError, OSError) as error:
                self._failures.failed(self.name, error, remedy=f"fix the cause; it is retried {self.retried}")
            await self._awake.wait()

    @abstractmethod
    async def step(self) -> None:
        """Look at what there is, and do what is to be done now."""


def pause(first: float, *, times: int, most: float) -> float:
    """The seconds between tries after so many in a row that were of no use: doubled with each, up to `most`."""
    return float(min(most, first * 2 ** min(times - 1, 30)))
