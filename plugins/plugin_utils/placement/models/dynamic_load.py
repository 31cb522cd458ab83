"""What instances use beyond what is allotted to them: htools' file of measured loads, and none at all."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from ....module_utils.domain.values import errors
from . import model

if TYPE_CHECKING:
    from collections.abc import Mapping

FIELDS = ("instance", "cpu", "memory", "disk", "net")
NONE = model.Load(0.0, 0.0, 0.0, 0.0)


def read(text: str) -> dict[str, model.Load]:
    """By instance its load, from lines `instance cpu memory disk net`; of two lines the later one counts.

    Raises:
        InvalidInput: a line has other fields, with line and field.
    """
    found: dict[str, model.Load] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        name, *values = line.split() or [""]
        if len(values) != len(FIELDS) - 1:
            raise errors.InvalidInput(f"line {number}: '{line}' has not the {len(FIELDS)} fields {' '.join(FIELDS)}")
        found[name] = model.Load(
            *(_number(value, number, field) for field, value in zip(FIELDS[1:], values, strict=True))
        )
    return found


def loaded(cluster: model.Model, loads: Mapping[str, model.Load]) -> model.Model:
    """The cluster with these loads; an instance without one keeps what it has, names of no instance are ignored."""
    instances = (replace(instance, load=loads.get(instance.name, instance.load)) for instance in cluster.instances)
    return replace(cluster, instances=tuple(instances))


def unloaded(cluster: model.Model) -> model.Model:
    """The cluster as if no instance had any load: only what is allotted counts."""
    return replace(cluster, instances=tuple(replace(instance, load=NONE) for instance in cluster.instances))


def _number(value: str, number: int, field: str) -> float:
    try:
        found = float(value)
    except ValueError:
        found = math.nan
    if not math.isfinite(found) or found < 0:
        raise errors.InvalidInput(f"line {number}, field {field}: '{value}' is not a number that is 0 or more")
    return found
