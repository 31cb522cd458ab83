"""The page on what an opcode costs has the numbers of the trace: a landing that makes one dearer shows it."""

from __future__ import annotations

import re

from ansible_collections.roundsman.cluster.plugins.plugin_utils.opcodes import contract, registry

from . import opcode_cost

TEXT = """\
== PUT /2/instances/web/migrate
  [Ask both nodes]
  node2 instance_info hypervisor=kvm
      $ virsh list
  node3 instance_info hypervisor=kvm
  [Record it]
  localhost record change=x
  [Move it]
  node2 instance_migrate instance=web
migrate: success
record: /instance/primary_node: "node2" -> "node3"
== PUT /2/tags
tags_set: success
"""


def test_a_task_at_two_nodes_is_one_task_and_two_runs() -> None:
    assert list(opcode_cost.costs("drbd", TEXT)) == [opcode_cost.Cost("drbd", "migrate", tasks=2, runs=3, programs=1)]


def test_the_page_has_the_table_of_the_trace() -> None:
    found = opcode_cost.written(opcode_cost.PAGE.read_text())
    assert found == opcode_cost.table(), "write it again: python -m tests.golden.opcode_cost"


def test_each_play_is_counted_or_the_page_says_that_it_is_not() -> None:
    plays = {kind for kind, made in registry._KINDS.items() if made.execution is contract.Execution.PLAY}
    counted = set(re.findall(r"^\| `(\w+)` \|", opcode_cost.table(), flags=re.MULTILINE))
    _, _, said = opcode_cost.PAGE.read_text().partition("Not counted are ")
    not_counted = set(re.findall(r"`(\w+)`", said.partition(":")[0]))
    assert plays - counted == not_counted, "run it in `tests/golden/opcode_runs.py`, or name it on the page"
