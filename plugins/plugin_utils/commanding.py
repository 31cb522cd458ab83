"""One power command at the BMCs of many nodes, by one call of the module, and its record, from inside an action."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Protocol

from ..module_utils.domain.power import power, power_record
from ..module_utils.domain.values import errors
from ..module_utils.oob import request
from . import holding, power_looks
from .cluster import changes
from .cluster import cluster as clusters

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ..module_utils.domain.values import tree


class Execute(Protocol):
    """How an action has a module run."""

    def __call__(
        self, module_name: str, module_args: dict[str, Any], *, task_vars: dict[str, Any]
    ) -> dict[str, Any]: ...


def commanded(
    execute: Execute,
    command: power.Command,
    targets: Sequence[Mapping[str, Any]],
    *,
    credentials_file: str,
    deadline: float | None = None,
    variables: dict[str, Any],
) -> list[power.Outcome]:
    """What became of each target (`name`, `driver`); a module that gives no results is the trouble of all of them.

    `deadline` are the seconds of each BMC; None are the usual ones, with a minute for each call of a helper program.
    """
    if not targets:
        return []
    args: dict[str, Any] = {
        "command": command.value,
        "credentials_file": credentials_file,
        "nodes": [target["name"] for target in targets],
        "drivers": {target["name"]: target["driver"] for target in targets},
    }
    if deadline is not None:
        args["deadline"] = deadline
    told = execute("roundsman.cluster.oob_power", args, task_vars=variables)
    if "results" in told:
        return [power.parse_outcome(result) for result in told["results"]]
    text = str(told.get("msg", "the module gave no results"))
    return [power_looks.refused(command, target["name"], text) for target in targets]


def unpowered(where: tree.Tree, cluster: clusters.Cluster, nodes: Iterable[str], *, on: bool) -> list[str]:
    """Those nodes (UUIDs) whose helper program this user would not run, a line each with the reason; none is run."""
    drivers = {
        node.name: driver
        for node in (cluster.nodes[uuid] for uuid in nodes)
        if (driver := clusters.parameter(cluster, node, "oob_program") or "").startswith("/")
    }
    wanted = request.of_file(str(where.bmc_credentials), nodes=list(drivers), chosen=drivers)
    power = "on" if on else "off"
    failures = {request.name: request.failure for request in wanted if request.failure is not None}
    return [f"{name} would not be powered {power}: {failure.text}" for name, failure in failures.items()]


def recorded(
    targets: Sequence[Mapping[str, Any]],
    outcomes: Sequence[power.Outcome],
    *,
    given: float,
    rule: Callable[[power.Outcome], bool | None] = power_record.recorded,
    variables: Mapping[str, Any],
) -> list[str]:
    """Record the power of targets (`name`, `uuid`) that became true by this rule, and which of them were alive before.

    `given` is when the command was given (unix seconds): one that it powered off is known to have lived until then, and
    not until the last of the others has confirmed. Returns what stands against it.
    """
    uuids = {target["name"]: target["uuid"] for target in targets}
    stated: list[changes.NodeLived | changes.NodePowered] = [
        changes.NodeLived(uuids[outcome.name], at=given if power_record.was_cut(outcome) else 0.0)
        for outcome in outcomes
        if power_record.lived(outcome)
    ]
    stated += [
        changes.NodePowered(
            uuids[outcome.name], powered=value, confirms=power_record.confirms(outcome), commanded=outcome.taken
        )
        for outcome in outcomes
        if (value := rule(outcome)) is not None
    ]
    if not stated:
        return []
    try:
        holding.record(holding.current(variables), *stated, now=time.time())
    except errors.RoundsmanError as error:
        concerned = {change.node for change in stated}
        names = ", ".join(name for name, uuid in uuids.items() if uuid in concerned)
        return [f"the power of {names} could not be recorded: {error}"]
    return []
