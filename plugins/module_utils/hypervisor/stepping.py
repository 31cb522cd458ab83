"""One instance made to run, or not to run, on its node: what it was, what it is, and whether that is as promised."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Mapping, Optional

from ..domain.values import errors, hvparams
from . import drivers

FACTS = ("uuid", "memory", "vcpus", "devices", "nics", "hvparams")
GONE = "not here"


@dataclass(frozen=True)
class Made:
    """How an instance was and is, in plain words; in check mode, how it would be."""

    changed: bool
    running: bool
    before: str
    after: str


def make(
    hypervisor: drivers.Hypervisor,
    name: str,
    given: Mapping[str, Any],
    *,
    starts: bool,
    only_looks: bool,
    limit: Optional[float] = None,
) -> Made:
    """Start or stop an instance, unless this only looks; `limit` is the time of a soft stop in seconds.

    Raises:
        InvalidInput, Failed: as the driver does. Unconfirmed: it is not as the driver says.
    """
    before = hypervisor.states().get(name, GONE)
    if only_looks:
        if starts and before not in {GONE, drivers.RUNNING}:
            raise errors.Failed(f"{name} is here already, {before}: fix that, or stop it first")
        after = drivers.RUNNING if starts else GONE
        return Made(before != after, starts, before, after)
    texts = {key: str(value) for key, value in given["hvparams"].items()}
    if starts:
        facts = {**{key: given[key] for key in FACTS}, "hvparams": texts}
        changed = hypervisor.start(name, facts, runs_nowhere=given.get("runs_nowhere", False))
    else:
        allowed = hvparams.kvm(texts).shutdown_timeout if limit is None else limit
        changed = hypervisor.stop(name, time_limit=allowed, only_here=given.get("only_here", False))
    after = hypervisor.states().get(name, GONE)
    if after != (drivers.RUNNING if starts else GONE):
        raise errors.Unconfirmed(f"{name} was to be {'started' if starts else 'stopped'}, and is {after}")
    return Made(changed, starts, before, after)
