from __future__ import annotations

from ansible_collections.roundsman.cluster.plugins.plugin_utils.opcodes import registry

from tests.golden import opcodes, traces


def test_opcodes_are_to_the_queue_what_they_were() -> None:
    assert traces.differences("opcodes") == []


def test_each_kind_of_opcode_is_in_the_trace() -> None:
    kinds = {kind for kind, _ in [*opcodes.instance_opcodes(), *opcodes.node_opcodes()]}
    assert set(registry._KINDS) - kinds == set(), "add it to `tests/golden/opcodes.py`"
