"""Who stands in whose way: whoever holds what another wants, and whoever waits for it before."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ...plugins.plugin_utils.cluster.locks import Mode
    from .holders import Holders, Owner
    from .waiting import Request, Waiting


class Blocking:
    """Answers for one table; an owner never waits behind a request that waits for this owner."""

    def __init__(self, holders: Holders, waiting: Waiting) -> None:
        self._holders = holders
        self._waiting = waiting

    def blockers(self, request: Request) -> Iterator[Owner]:
        """Those for whom a request waits, some of them more than once; nobody when it can be served."""
        yield from self._holders.clashing(request.owner, request.wants)
        for earlier in self._waiting.ahead(request):
            if not self._waits_for(earlier, request.owner, self._directly_before):
                yield earlier.owner

    def circle(self, owner: Owner, wants: Mapping[str, Mode]) -> Owner | None:
        """One who holds what an owner is about to want, and waits for what this owner holds: neither could go on."""
        for other in self._holders.clashing(owner, wants):
            theirs = self._waiting.request_of(other)
            if theirs and self._waits_for(theirs, owner, self._directly_holding):
                return other
        return None

    def _waits_for(self, request: Request, owner: Owner, before: Callable[[Request], Iterator[Owner]]) -> bool:
        """Whether a request cannot be served before an owner lets go of something; `before` is one step of the way."""
        if owner not in self._holders:
            return False
        seen = {request.owner}
        ways = [request]
        while ways:
            for other in before(ways.pop()):
                if other == owner:
                    return True
                if other not in seen:
                    seen.add(other)
                    ways.extend(filter(None, [self._waiting.request_of(other)]))
        return False

    def _directly_before(self, request: Request) -> Iterator[Owner]:
        yield from self._directly_holding(request)
        yield from (earlier.owner for earlier in self._waiting.ahead(request))

    def _directly_holding(self, request: Request) -> Iterator[Owner]:
        return self._holders.clashing(request.owner, request.wants)
