from __future__ import annotations

import json
import os
import stat
import subprocess
import time
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors, tree
from ansible_collections.roundsman.cluster.plugins.plugin_utils import placing
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.allocation import allocator
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.protocol import allocator_json, own_allocator
from ansible_collections.roundsman.cluster.plugins.plugin_utils.settings import instance_making

from tests.unit import small_cluster

from .rounds import requests, small_models

if TYPE_CHECKING:
    from pathlib import Path

CLUSTER = small_cluster.make()
LARGE = 10**6
MODEL = small_models.make(requests.CLUSTER)
RELOCATE = allocator.Relocate("web1", ("node2",))
YES = json.dumps({"success": True, "info": "", "result": ["node3"]})


def cluster_with_room() -> clusters.Cluster:
    nodes = {uuid: small_cluster.node(uuid, one.name, dtotal=LARGE) for uuid, one in CLUSTER.nodes.items()}
    return clusters.Cluster(CLUSTER.cluster, CLUSTER.nodegroups, nodes)


ROOMY = cluster_with_room()


def draft(cluster: clusters.Cluster = ROOMY, **fields: Any) -> clusters.Instance:
    wanted = {"name": "web", "disk_template": "drbd", "disks": [2048], "memory": 512, **fields}
    return instance_making.draft(cluster, "new", wanted)


def placed(*nodes: str, group: str = "", cluster: clusters.Cluster = ROOMY, **fields: Any) -> list[str]:
    by = own_allocator.make()
    return placing.place(cluster, draft(cluster, **fields), placing.Wish(group, nodes), by=by)


def test_a_pair_goes_to_two_nodes_and_what_is_asked_for_is_kept() -> None:
    assert len(set(placed())) == 2
    assert placed("n3")[0] == "n3"
    assert placed("n3", "n10") == ["n3", "n10"]
    assert placed("n3", disk_template="plain") == ["n3"]
    assert len(placed(disk_template="diskless", disks=[])) == 1


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"memory": 32000}, "web has no place: "),
        ({"group": "other"}, "web has no place: "),
        ({"memory": 64}, "web has no place: "),
    ],
)
def test_why_there_is_no_place_is_told(fields: dict[str, Any], told: str) -> None:
    with pytest.raises(errors.Refused) as refused:
        placed(**fields)
    assert str(refused.value).startswith(told)
    assert len(str(refused.value)) > len(told)


def test_more_nodes_than_it_has_copies_are_refused() -> None:
    with pytest.raises(errors.InvalidInput, match="nodes: an instance with the disk template plain has 1"):
        placed("n1", "n2", disk_template="plain")


def test_what_is_being_made_keeps_its_memory_for_those_that_come_after_it() -> None:
    cluster, by = ROOMY, own_allocator.make()
    for number in range(5):
        wanted = {"name": f"w{number}", "disk_template": "diskless", "memory": 2048}
        one = instance_making.draft(cluster, f"u{number}", wanted)
        if number == len(ROOMY.nodes):
            with pytest.raises(errors.Refused, match="no node has 2048 MiB free"):
                placing.place(cluster, one, placing.Wish(), by=by)
            return
        nodes = placing.place(cluster, one, placing.Wish(), by=by)
        cluster = changes.apply_all(cluster, instance_making.reserve(cluster, one, nodes), now=1.0)


def test_the_allocator_is_the_one_named_else_the_cluster_s_else_ours(tmp_path: Path) -> None:
    where = tree.Tree(tmp_path)
    where.allocators.mkdir(parents=True, mode=0o755)
    program = where.allocators / "hail"
    program.write_text("#!/bin/sh\n")
    program.chmod(stat.S_IRWXU)
    assert isinstance(placing.chosen(ROOMY, "", where=where), allocator.Own)
    assert placing.chosen(ROOMY, "hail", where=where) == placing.Program(program)
    own = clusters.Parameters("c", "c1", "n1", default_iallocator="hail")
    named = clusters.Cluster(own, ROOMY.nodegroups, ROOMY.nodes)
    assert placing.chosen(named, "", where=where) == placing.Program(program)
    for name in ("other", "../hail", "a/b"):
        with pytest.raises(errors.InvalidInput, match="iallocator: there is no program"):
            placing.chosen(ROOMY, name, where=where)


def test_an_allocator_that_names_too_few_nodes_is_not_believed() -> None:
    class Odd:
        def decide(self, *_: object) -> allocator.Result:
            return allocator.Result((allocator.Placement("web", ("node1",)),))

    with pytest.raises(errors.InvalidInput, match="the allocator gives web the nodes node1, and it has 2"):
        placing.place(ROOMY, draft(), placing.Wish(), by=Odd())


def _program(folder: Path, script: str, *, seconds: float = 30) -> placing.Program:
    path = folder / "allocator"
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)
    return placing.Program(path, seconds=seconds)


def test_a_program_reads_the_request_and_its_answer_is_the_result(tmp_path: Path) -> None:
    program = _program(tmp_path, f"cp $1 {tmp_path}/seen; ls -l $1 > {tmp_path}/mode; echo '{YES}'")
    assert program.decide(MODEL, RELOCATE).placements == (allocator.Placement("web1", ("node3",)),)
    assert allocator_json.read((tmp_path / "seen").read_text(encoding="utf-8"))[1] == RELOCATE
    name = (tmp_path / "mode").read_text(encoding="utf-8").split()
    assert name[0].startswith("-rw-------")
    assert not os.path.exists(name[-1])  # noqa: PTH110 -- a name that ls printed


def test_soft_errors_are_ignored_by_an_argument_as_ganeti_does_it(tmp_path: Path) -> None:
    program = _program(tmp_path, f"echo $2 > {tmp_path}/seen; exit 1")
    for ignores, seen in [(False, "\n"), (True, "--ignore-soft-errors\n")]:
        with pytest.raises(errors.CommandFailed):
            program.decide(MODEL, allocator.Evacuate(("web1",), allocator.Scope.ALL, ignores_soft_errors=ignores))
        assert (tmp_path / "seen").read_text(encoding="utf-8") == seen


@pytest.mark.parametrize(
    ("script", "reason", "text"),
    [
        ("echo no such '\n' luck >&2; exit 3", "failed", "failed: no such luck"),
        ("exit 3", "failed", "failed: exit status 3"),
        ("kill -9 $$", "failed", "failed: exit status -9"),
    ],
)
def test_a_program_that_fails_says_why(tmp_path: Path, script: str, reason: str, text: str) -> None:
    with pytest.raises(errors.CommandFailed, match=f"{text}$") as caught:
        _program(tmp_path, script).decide(MODEL, RELOCATE)
    assert caught.value.reason == reason


def test_a_program_that_is_not_there_cannot_be_started(tmp_path: Path) -> None:
    with pytest.raises(errors.CommandFailed, match="No such file") as caught:
        placing.Program(tmp_path / "allocator").decide(MODEL, RELOCATE)
    assert caught.value.reason == "start"


def test_a_program_that_others_could_have_written_is_not_run(tmp_path: Path) -> None:
    program = _program(tmp_path, f"touch {tmp_path}/ran; echo '{YES}'")
    program.path.chmod(0o777)
    with pytest.raises(errors.CommandFailed, match="allocator has the mode 0777, so others than its owner") as caught:
        program.decide(MODEL, RELOCATE)
    assert caught.value.reason == "start"
    assert not (tmp_path / "ran").exists()


def test_the_program_that_was_checked_is_run_under_its_own_name_though_it_is_replaced_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, start = _program(tmp_path, f"echo '{YES}'"), subprocess.Popen

    def swapped(command: list[str], **options: Any) -> Any:
        _program(tmp_path / "other", "exit 1").path.rename(program.path)
        assert command[0] == str(program.path)
        return start(command, **options)

    (tmp_path / "other").mkdir()
    monkeypatch.setattr(subprocess, "Popen", swapped)
    assert program.decide(MODEL, RELOCATE).placements == (allocator.Placement("web1", ("node3",)),)


def test_an_answer_that_is_no_json_is_refused(tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidInput, match=r"^the allocator's answer is no JSON"):
        _program(tmp_path, "echo hello").decide(MODEL, RELOCATE)


@pytest.mark.parametrize("end", ["wait", "exit 0"])
def test_a_program_that_takes_too_long_is_ended_with_all_it_started(tmp_path: Path, end: str) -> None:
    """Also when the program itself has ended, and a child of it keeps its output open."""
    program = _program(tmp_path, f"sleep 600 & echo $! > {tmp_path}/child; {end}", seconds=2)
    with pytest.raises(errors.CommandFailed, match="did not end within 2 seconds") as caught:
        program.decide(MODEL, RELOCATE)
    assert caught.value.reason == "timeout"
    child = int((tmp_path / "child").read_text(encoding="utf-8"))
    assert _ended(child)


def _ended(pid: int) -> bool:
    """Whether it is gone, or dead and not yet collected; a killed process needs a moment."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8") as file:  # noqa: PTH123 -- of another process
                if file.read().rpartition(")")[2].split()[0] == "Z":
                    return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        os.sched_yield()
    return False
