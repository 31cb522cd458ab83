"""Instance policies: which sizes of instances are allowed, and how far CPUs and spindles are overcommitted.

Names and shape are Ganeti's (`ipolicy`): `std` is the standard size, `minmax` a list of pairs of the smallest and the
largest, of which an instance needs to be within one; memory and disk (each one) are in MiB. What a policy does not say
a group has from its cluster, and a cluster from `BUILT_IN`.
"""

from __future__ import annotations

from typing import Any, Mapping, Optional

from ...module_utils.domain.values import errors
from ...module_utils.domain.values.value_rules import MOST

Policy = Mapping[str, Any]
DEFAULT = "default"
LEAST = {"memory-size": 1, "cpu-count": 1, "disk-size": 0, "disk-count": 0, "nic-count": 0, "spindle-use": 0}
"""What a size is made of, and the least of each."""
TEMPLATES = ("diskless", "file", "sharedfile", "plain", "blockdev", "drbd", "rbd", "ext", "gluster")
RATIOS = ("vcpu-ratio", "spindle-ratio")
_SMALLEST = {
    "memory-size": 128,
    "cpu-count": 1,
    "disk-size": 1024,
    "disk-count": 1,
    "nic-count": 1,
    "spindle-use": 1,
}
_LARGEST = {
    "memory-size": 32768,
    "cpu-count": 8,
    "disk-size": 1048576,
    "disk-count": 16,
    "nic-count": 8,
    "spindle-use": 12,
}
BUILT_IN: Policy = {
    "std": _SMALLEST,
    "minmax": [{"min": _SMALLEST, "max": _LARGEST}],
    "disk-templates": list(TEMPLATES),
    "vcpu-ratio": 4.0,
    "spindle-ratio": 32.0,
}


def filled(*policies: Policy) -> dict[str, Any]:
    """The policy in force: each over those before it, all over the built-in one; `std` key by key."""
    stands = dict(BUILT_IN)
    for policy in policies:
        stands = {**stands, **policy, "std": {**stands["std"], **policy.get("std", {})}}
    return stands


def given(name: str, value: Any) -> dict[str, Any]:
    """What is asked for of a policy, by name; None is to be inherited again (`default`). `std` may be a part of one.

    Raises:
        InvalidInput: a name or a value is not accepted.
    """
    found: dict[str, Any] = {}
    for key, part in _object(name, value, BUILT_IN).items():
        place = f"{name}.{key}"
        if part == DEFAULT:
            found[key] = None
        elif key == "std":
            found[key] = _sizes(place, part)
        elif key == "minmax":
            found[key] = _pairs(place, part)
        else:
            found[key] = ratio(place, part) if key in RATIOS else _templates(place, part)
    return found


def changed(own: Policy, asked: Policy) -> dict[str, Any]:
    """What a cluster or a group has of its own once that is set; a part of `std` leaves the rest as it was."""
    stands = {**own, **asked}
    if asked.get("std") is not None:
        stands["std"] = {**own.get("std", {}), **asked["std"]}
    return {key: value for key, value in stands.items() if value is not None}


def check(own: Policy, *, over: Optional[Policy] = None) -> None:
    """Refuse a standard size that is within none of the bounds; a group's own one only, given the cluster's policy.

    Raises:
        InvalidInput: the text says what is outside of what.
    """
    if over is not None and "std" not in own:
        return
    stands = filled(over or {}, own)
    std, bounds = stands["std"], stands["minmax"]
    outside = [[key for key in LEAST if not pair["min"][key] <= std[key] <= pair["max"][key]] for pair in bounds]
    if all(outside):
        key, pair = outside[0][0], bounds[0]
        others = "" if len(bounds) == 1 else ", and it is within no other pair of minmax"
        raise errors.InvalidInput(
            f"ipolicy.std: {key}={std[key]} is not within {pair['min'][key]} and {pair['max'][key]}{others}"
        )


def ratio(name: str, value: Any, *, most: float = MOST) -> float:
    """A number of more than 0.

    Raises:
        InvalidInput: it is none, or larger than the most.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= most:
        beyond = f" and at most {most:g}" if most < MOST else ""
        raise errors.InvalidInput(f"{name}: {value!r} is not a number of more than 0{beyond}")
    return float(value)


def _object(name: str, value: Any, known: Mapping[str, Any]) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise errors.InvalidInput(f"{name}: expected an object with {', '.join(known)}, got {value!r}")
    for key in value:
        if key not in known:
            raise errors.InvalidInput(f"{name}: there is no {key!r}: use {', '.join(known)}")
    return value


def _sizes(name: str, value: Any) -> dict[str, int]:
    for key, size in _object(name, value, LEAST).items():
        if isinstance(size, bool) or not isinstance(size, int) or not LEAST[key] <= size <= MOST:
            raise errors.InvalidInput(f"{name}: {key}={size!r} is not a whole number of {LEAST[key]} or more")
    return dict(value)


def _pairs(name: str, value: Any) -> list[dict[str, dict[str, int]]]:
    if not isinstance(value, (list, tuple)) or not value:
        raise errors.InvalidInput(f"{name}: {value!r} is no list of pairs of min and max")
    return [_pair(name, pair) for pair in value]


def _pair(name: str, value: Any) -> dict[str, dict[str, int]]:
    _object(name, value, {"min": 0, "max": 0})
    pair = {end: _sizes(f"{name}.{end}", value.get(end, {})) for end in ("min", "max")}
    for end, sizes in pair.items():
        missing = [key for key in LEAST if key not in sizes]
        if missing:
            raise errors.InvalidInput(f"{name}.{end}: there is no {', '.join(missing)}")
    for key in LEAST:
        if pair["min"][key] > pair["max"][key]:
            raise errors.InvalidInput(
                f"{name}: {key} is {pair['min'][key]} in min, more than {pair['max'][key]} in max"
            )
    return pair


def _templates(name: str, value: Any) -> list[str]:
    if not isinstance(value, (list, tuple)) or not value:
        raise errors.InvalidInput(f"{name}: {value!r} is no list of disk templates")
    for template in value:
        if template not in TEMPLATES:
            raise errors.InvalidInput(f"{name}: {template!r} is not one of {', '.join(TEMPLATES)}")
    return list(dict.fromkeys(value))
