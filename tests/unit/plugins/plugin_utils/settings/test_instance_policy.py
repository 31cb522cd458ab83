from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.models import model, policies
from ansible_collections.roundsman.cluster.plugins.plugin_utils.settings import instance_policy

SIZE = dict(instance_policy.BUILT_IN["std"])
LARGE = {**SIZE, "memory-size": 4096, "cpu-count": 4}


def test_the_built_in_policy_is_the_planners() -> None:
    assert policies.parse(instance_policy.BUILT_IN) == model.Policy()
    assert tuple(one.value for one in model.Template) == instance_policy.TEMPLATES


def test_a_group_has_what_it_does_not_say_from_its_cluster_and_that_from_the_built_in_one() -> None:
    cluster = {"vcpu-ratio": 2.0, "std": {"memory-size": 1024, "cpu-count": 2}}
    group = {"spindle-ratio": 8.0, "std": {"cpu-count": 4}}
    found = instance_policy.filled(cluster, group)
    assert (found["vcpu-ratio"], found["spindle-ratio"]) == (2.0, 8.0)
    assert found["std"] == {**SIZE, "memory-size": 1024, "cpu-count": 4}
    assert found["minmax"] == instance_policy.BUILT_IN["minmax"]


def test_a_part_of_the_standard_size_leaves_the_rest_and_default_is_inherited_again() -> None:
    own = instance_policy.changed({}, instance_policy.given("ipolicy", {"std": {"memory-size": 1024}}))
    own = instance_policy.changed(own, instance_policy.given("ipolicy", {"std": {"cpu-count": 2}, "vcpu-ratio": 3}))
    assert own == {"std": {"memory-size": 1024, "cpu-count": 2}, "vcpu-ratio": 3.0}
    given = instance_policy.given("ipolicy", {"std": "default", "vcpu-ratio": "default"})
    assert instance_policy.changed(own, given) == {}


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (7, "ipolicy: expected an object with std, minmax, disk-templates, vcpu-ratio, spindle-ratio, got 7"),
        ({"cpu": 1}, "ipolicy: there is no 'cpu': use std, minmax, disk-templates, vcpu-ratio, spindle-ratio"),
        ({"vcpu-ratio": 0}, "ipolicy.vcpu-ratio: 0 is not a number of more than 0"),
        ({"spindle-ratio": True}, "ipolicy.spindle-ratio: True is not a number of more than 0"),
        ({"std": {"memory": 1}}, "ipolicy.std: there is no 'memory': use memory-size, cpu-count, disk-size, "),
        ({"std": {"memory-size": 0}}, "ipolicy.std: memory-size=0 is not a whole number of 1 or more"),
        ({"std": {"disk-size": 1.5}}, "ipolicy.std: disk-size=1.5 is not a whole number of 0 or more"),
        ({"minmax": []}, r"ipolicy.minmax: \[\] is no list of pairs of min and max"),
        ({"minmax": [{"min": SIZE}]}, "ipolicy.minmax.max: there is no memory-size, cpu-count, disk-size, "),
        ({"minmax": [{"min": LARGE, "max": SIZE}]}, "ipolicy.minmax: memory-size is 4096 in min, more than 128 in max"),
        ({"disk-templates": []}, r"ipolicy.disk-templates: \[\] is no list of disk templates"),
        ({"disk-templates": ["drbd8"]}, "ipolicy.disk-templates: 'drbd8' is not one of diskless, file, "),
    ],
)
def test_what_is_not_accepted_says_what_is(given: Any, text: str) -> None:
    with pytest.raises(errors.InvalidInput, match=text):
        instance_policy.given("ipolicy", given)


def test_the_standard_size_is_within_one_of_the_bounds() -> None:
    small, large = {"min": SIZE, "max": SIZE}, {"min": LARGE, "max": LARGE}
    instance_policy.check({"minmax": [small, large], "std": LARGE})
    with pytest.raises(errors.InvalidInput, match=r"std: memory-size=4096 is not within 128 and 128$"):
        instance_policy.check({"minmax": [small], "std": LARGE})
    with pytest.raises(errors.InvalidInput, match="128, and it is within no other pair of minmax"):
        instance_policy.check({"minmax": [small, large], "std": {**LARGE, "cpu-count": 3}})


def test_a_group_is_asked_for_a_standard_size_of_its_own_only() -> None:
    only = {"minmax": [{"min": LARGE, "max": LARGE}]}
    instance_policy.check(only, over={})
    with pytest.raises(errors.InvalidInput, match="memory-size=128 is not within 4096 and 4096"):
        instance_policy.check({"std": {"disk-size": 2048}}, over=only)
