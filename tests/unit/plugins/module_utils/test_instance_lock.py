from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils import instance_lock, leader_record
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent.epochs import Epoch, Kept
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.module_utils.storage import node_boot

if TYPE_CHECKING:
    from pathlib import Path

MASTER = "5f0c5d2e-6a0e-4d86-8f0e-0f9d1e3f7a11"
HOLDER = """
import fcntl, sys
file = open(sys.argv[1], "r+")
fcntl.flock(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


def test_a_second_step_is_told_who_is_at_work(tmp_path: Path) -> None:
    with instance_lock.held("a", tmp_path, opcode="4/0"):
        with (
            pytest.raises(errors.LockRefused, match=f"^a is being worked on by process {os.getpid()}, opcode 4/0:"),
            instance_lock.held("a", tmp_path, opcode="5/0", time_limit=0),
        ):
            pass
        with instance_lock.held("b", tmp_path, opcode="5/0", time_limit=0):
            pass
    with instance_lock.held("a", tmp_path, opcode="by hand", time_limit=0):
        pass


def test_a_second_step_waits_until_the_first_has_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    waits = threading.Event()
    monkeypatch.setattr("time.sleep", lambda _: waits.set())

    def second() -> None:
        with instance_lock.held("a", tmp_path, opcode="5/0"):
            order.append("second")

    with instance_lock.held("a", tmp_path, opcode="4/0"):
        waiting = threading.Thread(target=second)
        waiting.start()
        assert waits.wait(30)
        order.append("first")
    waiting.join()
    assert order == ["first", "second"]


def test_a_step_that_waited_is_refused_where_another_controller_leads_by_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(leader_record.VARIABLE, f"4:four:{MASTER}:1")
    waits, refusals = threading.Event(), []
    monkeypatch.setattr("time.sleep", lambda _: waits.set())

    def second() -> None:
        try:
            with instance_lock.held("a", tmp_path, opcode="5/0"):
                refusals.append("it was done")
        except errors.NotFollowed as error:
            refusals.append(str(error))

    with instance_lock.held("a", tmp_path, opcode="4/0"):
        waiting = threading.Thread(target=second)
        waiting.start()
        assert waits.wait(30)
        leader_record.keep(tmp_path, Kept(Epoch(5, "five"), MASTER, 1))
    waiting.join()

    (refusal,) = refusals
    assert refusal.startswith("this node follows epoch 5 (five) and refuses epoch 4 (four): another controller has led")
    assert "5/0" not in (tmp_path / instance_lock.FOLDER / "a.lock").read_text()


def test_a_step_for_the_boot_before_does_nothing_though_it_has_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(leader_record.VARIABLE, f"4:four:{MASTER}:1:0c1d2e3f-0000-4000-8000-000000000001")
    path = tmp_path / node_boot.BOOT_ID
    path.parent.mkdir(parents=True)
    path.write_text("0c1d2e3f-0000-4000-8000-000000000002\n")

    with pytest.raises(errors.NotFollowed, match="booted since"), instance_lock.held("a", tmp_path, opcode="5/0"):
        pytest.fail("it was done")

    assert not (tmp_path / instance_lock.FOLDER / "a.lock").read_text()
    with instance_lock.held("a", tmp_path, opcode="6/0", only_stops=True):
        assert "6/0" in (tmp_path / instance_lock.FOLDER / "a.lock").read_text()
    leader_record.keep(tmp_path, Kept(Epoch(5, "five"), MASTER, 1))
    with pytest.raises(errors.NotFollowed), instance_lock.held("a", tmp_path, opcode="7/0", only_stops=True):
        pytest.fail("it was done")


def test_a_step_that_is_killed_holds_nothing_any_more(tmp_path: Path) -> None:
    with instance_lock.held("a", tmp_path, opcode="4/0"):
        pass
    path = tmp_path / instance_lock.FOLDER / "a.lock"
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(errors.LockRefused), instance_lock.held("a", tmp_path, opcode="5/0", time_limit=0):
            pass
        other.kill()
    with instance_lock.held("a", tmp_path, opcode="5/0", time_limit=0):
        pass


@pytest.mark.parametrize("name", ["../a", "a/b", "", ".", "a\n", "a" * 251])
def test_a_name_that_is_no_file_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(errors.InvalidInput, match=re.escape(repr(name))), instance_lock.held(name, tmp_path, opcode=""):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "run").touch()
    with (
        pytest.raises(errors.StoreFailed, match=r"run/roundsman/instances/a\.lock: "),
        instance_lock.held("a", tmp_path, opcode=""),
    ):
        pass
