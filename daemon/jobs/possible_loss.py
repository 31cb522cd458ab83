"""What a failover from a dead node may have lost: kept with its run, and told in the text and the result of its opcode.

The result of such an opcode is `{"possible_loss": {"seconds": S, "last_in_sync": T, "ignored": bool}}`: the writes of
the last S seconds before the source was known to be off may be lost, which are those since the unix time T, when the
pair was last known to be in sync. S and T are null where that is unknown. `ignored` says that the replica was not known
to be in sync, and a person wanted it all the same. A source that confirmed the stop has lost nothing: no result then.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...plugins.module_utils.domain import evidence
from ...plugins.plugin_utils.opcodes import contract, instance_moves

if TYPE_CHECKING:
    from pathlib import Path

    from ...plugins.module_utils.domain import cluster as clusters
    from .process import Spec

FILE = "evidence.json"
"""The evidence on which a run started, in its folder."""


@dataclass(frozen=True)
class Loss:
    """The possible loss in words, and as the opcode's result."""

    text: str
    result: dict[str, Any]


def noted(spec: Spec, start: contract.Start) -> Spec:
    """The run with its evidence; its play is told that the replica was judged."""
    content = json.dumps(dataclasses.asdict(start))
    variables = {**spec.variables, "instance_replica_judged": True}
    return dataclasses.replace(spec, files={**spec.files, FILE: content}, variables=variables)


def notices(
    cluster: clusters.Cluster, made: contract.PlayKind, start: contract.Start, *, now: float
) -> list[contract.Notice]:
    """What the audit log says of a failover that starts on a replica which could not be compared.

    Nothing where the source is asked: a healthy pair loses nothing.
    """
    if not isinstance(made, instance_moves.Failover) or start.is_asked:
        return []
    name, target = cluster.instance(made.instance).name, cluster.node_name(made.target)
    loss = evidence.loss_text(start.evidence, now=now)
    if start.is_overridden:
        why = f"{start.evidence.reason}; {loss}"
        return [contract.Notice(f"{name} fails over to {target} with ignore_consistency: {why}", is_trouble=True)]
    when = f"whose replica was last known to be in sync at {evidence.clock(start.evidence.last_in_sync)}"
    return [contract.Notice(f"{name} fails over to {target}, {when}; {loss}")]


def read(folder: Path, value: Any, *, now: float) -> Loss | None:
    """The possible loss of a run that succeeded and left a value.

    None where nothing was judged, or where the source confirmed the stop: both nodes were asked then. What the source
    answered in the run itself is newer than the evidence on which the run started.
    """
    told = value if isinstance(value, dict) else {}
    if told.get("source_stopped") is True:
        return None
    stated, judged = told.get("possible_loss") or {}, _judged(folder)
    if not stated and judged is None:
        return None
    is_ignored = bool(stated.get("ignored"))
    if judged is None or stated.get("last_in_sync"):
        found = evidence.Evidence(last_in_sync=stated["last_in_sync"], seen_off=stated["seen_off"])
    else:
        found, is_ignored = judged[0], is_ignored or judged[1]
    seconds = evidence.loss(found, now=now)
    rounded = None if seconds is None else round(seconds, 3)
    result = {"seconds": rounded, "last_in_sync": found.last_in_sync or None, "ignored": is_ignored}
    text = evidence.loss_text(found, now=now)
    return Loss(f"{text} (consistency was ignored)" if is_ignored else text, {"possible_loss": result})


def _judged(folder: Path) -> tuple[evidence.Evidence, bool] | None:
    """The evidence on which a run started, and whether a person overrode it."""
    try:
        told = json.loads((folder / FILE).read_bytes())
        return evidence.Evidence(**told["evidence"]), bool(told["is_overridden"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None
