"""The page on what an opcode costs has the numbers of the trace: a landing that makes one dearer shows it."""

from __future__ import annotations

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
