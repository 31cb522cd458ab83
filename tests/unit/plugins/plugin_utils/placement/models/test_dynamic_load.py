from __future__ import annotations

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.models import dynamic_load, model

from ...rounds import small_models

CLUSTER = small_models.make("node1 9\na 1 node1\nb 1 node1")


def test_measured_loads_replace_the_default_and_unknown_names_are_ignored() -> None:
    loads = dynamic_load.read("a 1.5 2 0 1e1\nother 1 1 1 1\n")
    found = dynamic_load.loaded(CLUSTER, loads)
    assert [one.load for one in found.instances] == [model.Load(1.5, 2, 0, 10), model.Load()]


def test_without_load_nothing_counts() -> None:
    assert {one.load for one in dynamic_load.unloaded(CLUSTER).instances} == {model.Load(0, 0, 0, 0)}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a 1 2 3 4\na 1 2 3", "line 2: 'a 1 2 3' has not the 5 fields instance cpu memory disk net"),
        ("\n", "line 1: '' has not the 5 fields"),
        ("a 1 x 3 4", "line 1, field memory: 'x' is not a number that is 0 or more"),
        ("a 1 2 nan 4", "line 1, field disk: 'nan' is not a number"),
        ("a 1 2 3 -4", "line 1, field net: '-4' is not a number"),
    ],
)
def test_an_error_names_line_and_field(text: str, said: str) -> None:
    with pytest.raises(errors.InvalidInput) as raised:
        dynamic_load.read(text)
    assert str(raised.value).startswith(said)
