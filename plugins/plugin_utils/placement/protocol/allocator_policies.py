"""Instance policies as Ganeti's JSON has them (`ipolicy`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..models import model
from ..models.policies import KEYS

if TYPE_CHECKING:
    from .json_fields import Field


def read(policy: Field) -> model.Policy:
    """The policy of an object.

    Raises:
        InvalidInput: a key is missing, or a value is of the wrong type; with its place.
    """
    return model.Policy(
        std=_spec(policy.get("std")),
        bounds=tuple((_spec(pair.get("min")), _spec(pair.get("max"))) for pair in policy.get("minmax").each()),
        templates=tuple(name.one_of(model.Template) for name in policy.get("disk-templates").each()),
        vcpu_ratio=policy.get("vcpu-ratio").real(),
        spindle_ratio=policy.get("spindle-ratio").real(),
    )


def _spec(spec: Field) -> model.Spec:
    return model.Spec(**{name: spec.get(key).whole() for name, key in KEYS.items()})
