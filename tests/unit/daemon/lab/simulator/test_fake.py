from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.daemon.lab.simulator import fake, node_journal, simulated_node
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors

if TYPE_CHECKING:
    from collections.abc import Callable


def driver(root: Path) -> fake.Driver:
    (root / fake.RUNNING).mkdir(parents=True, exist_ok=True)
    return fake.Driver(root, opcode="4/0")


def test_the_journal_has_every_event_in_order_with_its_opcode(tmp_path: Path) -> None:
    one = driver(tmp_path)
    assert (
        one.start("a", {"memory": 5}),
        one.start("a", {}),
        one.stop("a", time_limit=0),
        one.stop("a", time_limit=0),
    ) == (
        True,
        False,
        True,
        False,
    )
    entries = [json.loads(line) for line in (tmp_path / fake.JOURNAL).read_text().splitlines()]
    assert [(one["event"], one["opcode"]) for one in entries] == [("started", "4/0"), ("stopped", "4/0")]
    assert entries[0]["ns"] < entries[1]["ns"]


def test_a_migration_moves_the_instance_with_its_facts(tmp_path: Path) -> None:
    here, there = driver(tmp_path / "a"), driver(tmp_path / "b")
    here.start("x", {"memory": 5})
    assert here.migrate("x", str(tmp_path / "b"), hvparams={"migration_seconds": "0"}, target_lacks=str)
    assert (here.running(), there.running()) == ([], ["x"])
    assert json.loads((tmp_path / "b" / fake.RUNNING / "x.json").read_text()) == {"memory": 5}
    assert not here.migrate("x", str(tmp_path / "b"), hvparams={}, target_lacks=str)


def test_a_migration_that_breaks_off_leaves_the_instance_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = driver(tmp_path / "a")
    driver(tmp_path / "b")
    here.start("x", {})
    # The other node dies while memory is copied.
    monkeypatch.setattr("time.sleep", lambda _: (tmp_path / "b" / fake.RUNNING).rmdir())
    with pytest.raises(errors.Failed, match="still runs here"):
        here.migrate("x", str(tmp_path / "b"), hvparams={}, target_lacks=str)
    assert here.running() == ["x"]


def test_a_node_without_the_hypervisor_runs_nothing_and_starts_nothing(tmp_path: Path) -> None:
    one = fake.Driver(tmp_path, opcode="")
    assert one.running() == []
    with pytest.raises(errors.Failed, match="no fake hypervisor"):
        one.start("a", {})


class Killed(BaseException):
    """What ends a step for good."""


def events(root: Path) -> list[str]:
    path = root / fake.JOURNAL
    return [json.loads(line)["event"] for line in path.read_text().splitlines()] if path.exists() else []


@pytest.mark.parametrize(
    ("survived", "where", "journals"),
    [
        (0, "a", (["started"], [])),
        (1, "b", (["started", "handed over"], ["received"])),
        (2, "b", (["started", "handed over"], ["received"])),
        (3, "b", (["started", "handed over"], ["received"])),
    ],
)
def test_a_migration_that_was_killed_is_in_the_journals_after_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, survived: int, where: str, journals: tuple[list[str], list[str]]
) -> None:
    here, there = driver(tmp_path / "a"), driver(tmp_path / "b")
    here.start("x", {})
    acts = iter(range(4))
    originals: dict[str, Any] = {"rename": Path.rename, "append": node_journal.append}

    def act(name: str, *given: Any) -> Any:
        if next(acts) == survived:
            raise Killed
        return originals[name](*given)

    with monkeypatch.context() as killing, pytest.raises(Killed) if survived < 3 else contextlib.nullcontext():
        killing.setattr(Path, "rename", lambda *given: act("rename", *given))
        killing.setattr(node_journal, "append", lambda *given: act("append", *given))
        here.migrate("x", str(tmp_path / "b"), hvparams={}, target_lacks=str)
    for one in (here, there, here):
        one.recover("x")
    assert (here.running(), there.running()) == (["x"] if where == "a" else [], ["x"] if where == "b" else [])
    assert (events(tmp_path / "a"), events(tmp_path / "b")) == journals


def test_a_start_and_a_stop_that_were_killed_are_in_the_journal_after_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = driver(tmp_path)

    def killed(*_: Any) -> None:
        raise Killed

    monkeypatch.setattr(node_journal, "append", killed)
    with pytest.raises(Killed):
        one.start("x", {})
    monkeypatch.undo()
    one.recover("x")
    one.recover("x")
    monkeypatch.setattr(node_journal, "append", killed)
    with pytest.raises(Killed):
        one.stop("x", time_limit=0)
    monkeypatch.undo()
    one.recover("x")
    assert events(tmp_path) == ["started", "stopped"]


def test_a_note_of_a_migration_that_was_cut_off_means_that_nothing_was_done(tmp_path: Path) -> None:
    one = driver(tmp_path)
    one.start("x", {})
    (tmp_path / fake.MIGRATING).mkdir()
    (tmp_path / fake.MIGRATING / "x.json").write_text('{"target": "/no')
    one.recover("x")
    assert (one.running(), events(tmp_path), list((tmp_path / fake.MIGRATING).iterdir())) == (["x"], ["started"], [])


def node(root: Path) -> fake.Driver:
    """The driver of a node of a lab, which has power and a link."""
    (root / simulated_node.LAB).mkdir(parents=True)
    simulated_node.new_boot(root)
    simulated_node.rewire(root)
    return driver(root)


def journal(root: Path) -> list[dict[str, Any]]:
    """What happened on a node, but for how it answers."""
    entries = [json.loads(line) for line in (root / fake.JOURNAL).read_text().splitlines()]
    return [entry for entry in entries if entry["event"] != simulated_node.ANSWERS]


def stopped(root: Path) -> str:
    last = journal(root)[-1]
    assert last["event"] == "stopped"
    return str(last["why"])


def test_a_soft_stop_takes_the_time_of_the_guest(tmp_path: Path) -> None:
    hypervisor = driver(tmp_path)
    hypervisor.start("x", {"hvparams": {"shutdown_seconds": "0.3"}})
    began = time.monotonic()
    assert hypervisor.stop("x", time_limit=60)
    assert time.monotonic() - began >= 0.3
    assert stopped(tmp_path) == "stop"


@pytest.mark.parametrize(("seconds", "limit"), [("3600", 0.2), ("0", 0), ("3600", 0)])
def test_a_guest_that_takes_longer_than_its_limit_is_stopped_hard(tmp_path: Path, seconds: str, limit: float) -> None:
    hypervisor = driver(tmp_path)
    hypervisor.start("x", {"hvparams": {"shutdown_seconds": seconds}})
    assert hypervisor.stop("x", time_limit=limit)
    assert (stopped(tmp_path), hypervisor.running()) == ("destroy", [])


@pytest.mark.parametrize(("fault", "why"), [(simulated_node.NEVER, "destroy"), ("0.2", "stop"), ("", "stop")])
def test_what_is_wrong_with_a_guest_goes_with_it_to_other_nodes(tmp_path: Path, fault: str, why: str) -> None:
    here, there = node(tmp_path / "a"), node(tmp_path / "b")
    simulated_node.set_fault(tmp_path / "a", f"{simulated_node.GUESTS}/x", fault)
    here.start("x", {})
    here.migrate("x", str(tmp_path / "b/wire"), hvparams={}, target_lacks=str)
    assert there.stop("x", time_limit=0.4)
    assert stopped(tmp_path / "b") == why


def test_an_instance_that_crashes_during_its_soft_stop_was_not_stopped_hard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hypervisor = driver(tmp_path)
    hypervisor.start("x", {"hvparams": {"shutdown_seconds": "3600"}})
    monkeypatch.setattr("time.sleep", lambda _: fake.Driver(tmp_path, opcode="").end("x", why="crash"))
    assert hypervisor.stop("x", time_limit=60)
    assert stopped(tmp_path) == "crash"
    assert events(tmp_path) == ["started", "stopped"]


@pytest.mark.parametrize(
    ("phase", "places", "journals", "said"),
    [
        ("before", (["x"], []), (["started"], []), "the target node does not answer"),
        ("during", (["x"], []), (["started"], []), "still runs here"),
        ("after", ([], ["x"]), (["started", "handed over"], ["received"]), "before its end was confirmed"),
        ("paused", ([], []), (["started", "handed over"], ["received", "stopped", "rebooted"]), "it is paused here"),
        ("lost", ([], []), (["started", "handed over"], ["received", "stopped"]), "runs on neither node"),
    ],
)
def test_a_migration_fails_in_the_phase_it_is_told_to(
    tmp_path: Path, phase: str, places: tuple[list[str], list[str]], journals: tuple[list[str], list[str]], said: str
) -> None:
    here, there = node(tmp_path / "a"), node(tmp_path / "b")
    here.start("x", {})
    boot = simulated_node.boot_id(tmp_path / "b")
    simulated_node.set_fault(tmp_path / "a", simulated_node.MIGRATION, phase)
    with pytest.raises(errors.Failed, match=said):
        here.migrate("x", str(tmp_path / "b/wire"), hvparams={}, target_lacks=str)
    assert (here.running(), there.running()) == places
    assert (events(tmp_path / "a"), events(tmp_path / "b")) == journals
    assert (simulated_node.boot_id(tmp_path / "b") != boot) is (phase == "paused")
    assert here.recover("x") == "" or phase == "paused"
    assert (events(tmp_path / "a"), events(tmp_path / "b")) == journals


def paused(tmp_path: Path) -> fake.Driver:
    """Of an instance that was migrated from a to b, and is paused on a after b has rebooted."""
    here, _ = node(tmp_path / "a"), node(tmp_path / "b")
    here.start("x", {})
    simulated_node.set_fault(tmp_path / "a", simulated_node.MIGRATION, "paused")
    with pytest.raises(errors.Failed):
        here.migrate("x", str(tmp_path / "b/wire"), hvparams={}, target_lacks=str)
    return here


def test_a_paused_instance_is_neither_resumed_nor_started_nor_migrated_and_ended_if_its_start_looks_on_both_nodes(
    tmp_path: Path,
) -> None:
    here = paused(tmp_path)
    assert here.states() == {"x": "paused in migration"}
    assert "may have run on the target, which has booted since" in here.recover("x")
    with pytest.raises(errors.Failed, match="paused in migration"):
        here.start("x", {})
    with pytest.raises(errors.Failed, match="paused in migration"):
        here.migrate("x", str(tmp_path / "b/wire"), hvparams={}, target_lacks=str)
    with pytest.raises(errors.Failed, match=r"x was not stopped: it is paused in migration .* run `rm "):
        here.stop("x", time_limit=60)
    assert here.stop("x", time_limit=60, only_here=True)
    assert (here.states(), list(here.migrations())) == ({}, ["x"])
    assert here.start("x", {})
    assert here.migrations() == {}


@pytest.mark.parametrize("there", ["runs", "is down", "booted"])
def test_what_an_interrupted_migration_took_away_is_neither_started_nor_taken_for_stopped_where_it_may_run(
    tmp_path: Path, there: str
) -> None:
    here, _ = node(tmp_path / "a"), node(tmp_path / "b")
    here.start("x", {})
    simulated_node.set_fault(tmp_path / "a", simulated_node.MIGRATION, "after")
    with pytest.raises(errors.Failed, match="before its end was confirmed"):
        here.migrate("x", str(tmp_path / "b/wire"), hvparams={}, target_lacks=str)
    if there == "is down":
        fake.lose_power(tmp_path / "b", by="a test")
    elif there == "booted":
        fake.reboot(tmp_path / "b", by="a test")
    if there == "booted":
        assert here.start("x", {})
        return
    with pytest.raises(errors.Failed, match="x was not started: it is ") as raised:
        here.start("x", {})
    assert ("if the target is off and will stay off, run `rm " in str(raised.value)) is (there == "is down")
    with pytest.raises(errors.Failed, match="x was not stopped: it is "):
        here.stop("x", time_limit=0)
    assert not here.stop("x", time_limit=0, only_here=True)
    if there == "runs":
        with pytest.raises(errors.Failed, match="x was not started: it is running on the target"):
            here.start("x", {}, runs_nowhere=True)
        assert (here.recover("x"), here.migrations()) == ("", {}), "whoever records where it runs was told"
    else:
        assert here.recover("x") == "x: it is not here, and the target does not answer: it may run there"
        assert here.start("x", {}, runs_nowhere=True)
    assert here.migrations() == {}


def test_a_node_that_boots_knows_nothing_of_a_migration_any_more(tmp_path: Path) -> None:
    here, there = node(tmp_path / "a"), node(tmp_path / "b")
    here.start("x", {})
    simulated_node.set_fault(tmp_path / "a", simulated_node.MIGRATION, "after")
    with pytest.raises(errors.Failed):
        here.migrate("x", str(tmp_path / "b/wire"), hvparams={}, target_lacks=str)
    fake.lose_power(tmp_path / "b", by="a test")
    fake.reboot(tmp_path / "a", by="a test")
    assert fake.Driver(tmp_path / "a", opcode="").migrations() == {}
    assert there.running() == []


def test_a_paused_instance_goes_on_where_its_target_never_booted_and_has_not_got_it(tmp_path: Path) -> None:
    here = paused(tmp_path)
    note = tmp_path / "a" / fake.MIGRATING / "x.json"
    begun = json.loads(note.read_text())
    note.write_text(json.dumps({**begun, "boot": simulated_node.boot_id(tmp_path / "b")}))
    assert here.recover("x") == ""
    assert (here.running(), events(tmp_path / "a")[-1]) == (["x"], "resumed")


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses that were made: time goes on with them, and with nothing else."""
    pauses: list[float] = []
    monkeypatch.setattr("time.sleep", pauses.append)
    monkeypatch.setattr("time.monotonic", lambda: sum(pauses))
    return pauses


def test_a_migration_ends_at_its_limit(tmp_path: Path, slept: list[float]) -> None:
    here, _ = node(tmp_path / "a"), node(tmp_path / "b")
    here.start("x", {})
    with pytest.raises(errors.Failed, match="it did not end within 5 s; it still runs here"):
        here.migrate(
            "x",
            str(tmp_path / "b/wire"),
            hvparams={"migration_seconds": "60", "migration_limit": "5"},
            target_lacks=str,
        )
    assert (sum(slept), here.running(), here.migrations()) == (5, ["x"], {})


def test_a_migration_ends_whose_target_lacks_writes(tmp_path: Path, slept: list[float]) -> None:
    here, _ = node(tmp_path / "a"), node(tmp_path / "b")
    here.start("x", {})
    with pytest.raises(
        errors.Failed, match=r"the target would lack its last writes: x-disk0 is Connecting; it still runs here"
    ):
        here.migrate(
            "x",
            str(tmp_path / "b/wire"),
            hvparams={"migration_seconds": "60"},
            target_lacks=lambda: "x-disk0 is Connecting" if sum(slept) > 3 else "",
        )
    assert 3 < sum(slept) < 3.5
    assert (here.running(), here.migrations()) == (["x"], {})


@pytest.mark.parametrize("end", ["power", "reboot"])
@pytest.mark.parametrize("act", ["start", "stop", "migrate"])
def test_a_process_that_outlived_the_boot_of_its_node_changes_nothing(tmp_path: Path, end: str, act: str) -> None:
    here, there = node(tmp_path / "a"), node(tmp_path / "b")
    here.start("x", {})
    if end == "power":
        fake.lose_power(tmp_path / "a", by="a test")
        fake.power_on(tmp_path / "a")
    else:
        fake.reboot(tmp_path / "a", by="a test")
    ended, *boots = journal(tmp_path / "a")[1:]
    assert (ended["event"], ended["why"]) == ("stopped", end)
    assert [entry["event"] for entry in boots] == (["powered off", "powered on"] if end == "power" else ["rebooted"])
    assert boots[0]["ran"] == ["x"]
    fake.Driver(tmp_path / "a", opcode="").start("y", {})
    acts: dict[str, Callable[[], bool]] = {
        "start": lambda: here.start("z", {}),
        "stop": lambda: here.stop("y", time_limit=0),
        "migrate": lambda: here.migrate("y", str(tmp_path / "b/wire"), hvparams={}, target_lacks=str),
    }
    with pytest.raises(errors.Failed, match="lost power or rebooted"):
        acts[act]()
    assert (here.running(), there.running()) == (["y"], [])


@pytest.mark.parametrize("dies", ["a", "b"])
def test_a_migration_ends_when_one_of_its_nodes_dies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dies: str
) -> None:
    here, there = node(tmp_path / "a"), node(tmp_path / "b")
    here.start("x", {})
    monkeypatch.setattr("time.sleep", lambda _: fake.reboot(tmp_path / dies, by="a test"))
    with pytest.raises(errors.Failed, match=r"still runs here|lost power or rebooted"):
        here.migrate("x", str(tmp_path / "b/wire"), hvparams={}, target_lacks=str)
    assert (here.running(), there.running()) == (["x"] if dies == "b" else [], [])


def test_nothing_starts_on_a_node_without_power(tmp_path: Path) -> None:
    node(tmp_path)
    fake.lose_power(tmp_path, by="a test")
    with pytest.raises(errors.Failed, match="lost power"):
        fake.Driver(tmp_path, opcode="").start("x", {})
    assert not (tmp_path / "wire").exists()


def test_a_node_that_reboots_is_back_after_its_time_and_starts_what_it_starts_itself(tmp_path: Path) -> None:
    hypervisor = node(tmp_path)
    hypervisor.start("x", {"memory": 5})
    hypervisor.start("y", {})
    simulated_node.set_fault(tmp_path, f"{simulated_node.AUTOSTART}/x", '{"memory": 5}')
    fake.reboot(tmp_path, by="a test", seconds=3600)
    fake.come_up(tmp_path)
    assert not (tmp_path / "wire").exists()
    with pytest.raises(errors.Failed):
        fake.Driver(tmp_path, opcode="").start("y", {})
    simulated_node.begin_reboot(tmp_path, seconds=0)
    fake.come_up(tmp_path)
    fake.come_up(tmp_path)
    assert (tmp_path / "wire").exists()
    assert fake.Driver(tmp_path, opcode="").running() == ["x"]
    assert (journal(tmp_path)[-1]["event"], journal(tmp_path)[-1]["opcode"]) == ("started", "autostart")


def test_a_step_that_was_killed_is_in_the_journal_before_the_power_is_lost(tmp_path: Path) -> None:
    here, _ = node(tmp_path / "a"), node(tmp_path / "b")
    here.start("x", {})
    (tmp_path / "a" / fake.RUNNING / "y.json").write_text("{}")
    fake.lose_power(tmp_path / "a", by="a test")
    assert [(entry.get("instance"), entry["event"]) for entry in journal(tmp_path / "a")] == [
        ("x", "started"),
        ("y", "started"),
        ("x", "stopped"),
        ("y", "stopped"),
        (None, "powered off"),
    ]


def test_the_processes_of_a_node_die_with_its_power(tmp_path: Path) -> None:
    for name in ("a", "b"):
        node(tmp_path / name)
    environments = [{**os.environ, "ROUNDSMAN_ROOT": str(tmp_path / name)} for name in ("a", "b")]
    here, there = (subprocess.Popen(["/bin/sleep", "600"], env=environment) for environment in environments)
    try:
        fake.lose_power(tmp_path / "a", by="a test")
        assert here.wait(60) == -signal.SIGKILL
        assert there.poll() is None
    finally:
        for process in (here, there):
            process.kill()
            process.wait()
