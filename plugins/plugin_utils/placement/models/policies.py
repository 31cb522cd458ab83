"""Instance policies in Ganeti's shape (`ipolicy`) as the planner's values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import model

if TYPE_CHECKING:
    from collections.abc import Mapping

KEYS: Mapping[str, str] = {
    "memory": "memory-size",
    "vcpus": "cpu-count",
    "disk": "disk-size",
    "disks": "disk-count",
    "nics": "nic-count",
    "spindle_use": "spindle-use",
}


def parse(policy: Mapping[str, Any]) -> model.Policy:
    """The value of a policy that is whole and was checked."""
    return model.Policy(
        std=_spec(policy["std"]),
        bounds=tuple((_spec(pair["min"]), _spec(pair["max"])) for pair in policy["minmax"]),
        templates=tuple(model.Template(name) for name in policy["disk-templates"]),
        vcpu_ratio=float(policy["vcpu-ratio"]),
        spindle_ratio=float(policy["spindle-ratio"]),
    )


def written(policy: model.Policy) -> dict[str, Any]:
    """The object of a policy."""
    return {
        "std": _written(policy.std),
        "minmax": [{"min": _written(least), "max": _written(most)} for least, most in policy.bounds],
        "disk-templates": [template.value for template in policy.templates],
        "vcpu-ratio": policy.vcpu_ratio,
        "spindle-ratio": policy.spindle_ratio,
    }


def _spec(sizes: Mapping[str, int]) -> model.Spec:
    return model.Spec(**{name: sizes[key] for name, key in KEYS.items()})


def _written(spec: model.Spec) -> dict[str, int]:
    return {key: getattr(spec, name) for name, key in KEYS.items()}
