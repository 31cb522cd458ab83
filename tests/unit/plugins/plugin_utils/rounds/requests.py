"""Requests of Ganeti's allocator protocol for tests: the document as a dict, to be changed before it is read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.protocol import allocator_requests

from . import small_models

if TYPE_CHECKING:
    from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.allocation import allocator

CLUSTER = """
node1 8192 tag=old
node2 8192
node3 8192 group=b
node4 8192 group=b offline
web1 1024 node1 node2
lone1 2048 node1
rbd1 512 node3 rbd down
"""


def document(request: allocator.Request, *, cluster: str = CLUSTER) -> Any:
    return json.loads(allocator_requests.write(small_models.make(cluster), request))
