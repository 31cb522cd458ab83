from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.allocation import allocator, relocation
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.protocol import own_allocator

from ...rounds import requests, small_models

if TYPE_CHECKING:
    from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.models import model

CLUSTER = small_models.make(requests.CLUSTER)


def _told(_: model.Model, request: allocator.Evacuate) -> allocator.Result:
    return allocator.Result(info=f"{' '.join(request.instances)} {request.scope.value}")


@pytest.fixture(autouse=True)
def _evacuated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relocation, "evacuate", _told)


def _relocate(instance: str, node: str) -> str:
    return own_allocator.relocate(CLUSTER, allocator.Relocate(instance, (node,))).info


def test_a_pair_is_relocated_from_its_secondary_and_a_shared_instance_from_its_primary() -> None:
    assert _relocate("web1", "node2") == "web1 secondary-only"
    assert _relocate("rbd1", "node3") == "rbd1 primary-only"


@pytest.mark.parametrize(
    ("instance", "node", "text"),
    [
        ("web1", "node1", "web1 can only be relocated from node2, not from node1"),
        ("rbd1", "node4", "rbd1 can only be relocated from node3, not from node4"),
        ("lone1", "node1", "lone1: its disks are plain, no other node has them"),
        ("web9", "node1", "there is no instance 'web9'"),
    ],
)
def test_what_cannot_be_relocated_is_refused(instance: str, node: str, text: str) -> None:
    with pytest.raises(errors.Refused, match=f"^{text}$"):
        _relocate(instance, node)
