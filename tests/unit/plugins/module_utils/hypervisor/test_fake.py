from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain import errors
from ansible_collections.roundsman.cluster.plugins.module_utils.hypervisor import fake


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
    assert here.migrate("x", str(tmp_path / "b"), hvparams={"migration_seconds": "0"})
    assert (here.running(), there.running()) == ([], ["x"])
    assert json.loads((tmp_path / "b" / fake.RUNNING / "x.json").read_text()) == {"memory": 5}
    assert not here.migrate("x", str(tmp_path / "b"), hvparams={})


def test_a_migration_that_breaks_off_leaves_the_instance_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = driver(tmp_path / "a")
    driver(tmp_path / "b")
    here.start("x", {})
    # The other node dies while memory is copied.
    monkeypatch.setattr("time.sleep", lambda _: (tmp_path / "b" / fake.RUNNING).rmdir())
    with pytest.raises(errors.Failed, match="still runs here"):
        here.migrate("x", str(tmp_path / "b"), hvparams={})
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
    originals: dict[str, Any] = {"rename": Path.rename, "append": fake.append}

    def act(name: str, *given: Any) -> Any:
        if next(acts) == survived:
            raise Killed
        return originals[name](*given)

    with monkeypatch.context() as killing, pytest.raises(Killed) if survived < 3 else contextlib.nullcontext():
        killing.setattr(Path, "rename", lambda *given: act("rename", *given))
        killing.setattr(fake, "append", lambda *given: act("append", *given))
        here.migrate("x", str(tmp_path / "b"), hvparams={})
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

    monkeypatch.setattr(fake, "append", killed)
    with pytest.raises(Killed):
        one.start("x", {})
    monkeypatch.undo()
    one.recover("x")
    one.recover("x")
    monkeypatch.setattr(fake, "append", killed)
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
