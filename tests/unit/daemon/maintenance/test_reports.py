from __future__ import annotations

import asyncio
import dataclasses
import fcntl
import gc
import json
import os
import random
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.daemon import failures
from ansible_collections.roundsman.cluster.daemon.maintenance import rejected
from ansible_collections.roundsman.cluster.daemon.maintenance import reports as intakes
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent import reports, signing
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors, tree
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import store

from tests.unit import other_users
from tests.unit.daemon import twins

if TYPE_CHECKING:
    from ansible_collections.roundsman.cluster.daemon.lab import world
    from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters

EVACUATE = '{"status":"evacuate","details":{"psu":123456789012345678901234567890}}'


class Spooled:
    """A lab's spool, and the intake that reads it."""

    def __init__(self, lab: world.Lab) -> None:
        self.lab = lab
        self.where = tree.Tree(lab.controller)
        self.cluster = store.read(self.where.config)
        self.now = time.time()
        self.news = 0
        self.failures = failures.Failures()
        self.intake = self.restarted()

    def restarted(self) -> intakes.Intake:
        return intakes.Intake(
            self.where,
            clock=lambda: self.now,
            cluster=lambda: self.cluster,
            on_change=self._tell,
            failures=self.failures,
        )

    def node(self, name: str = "node2") -> clusters.Node:
        return self.cluster.node(name)

    def drop(self, data: bytes, name: str = "one.json") -> Path:
        path: Path = self.where.spool / name
        path.write_bytes(data)
        return path

    def report(self, said: str = EVACUATE, *, node: str = "node2", age: float = 0.0, problem: str = "") -> bool:
        self.drop(twins.envelope(self.lab, self.node(node), said, age=age, problem=problem))
        return self.take()

    def take(self) -> bool:
        return asyncio.run(self.intake.take_all())

    def rejected(self) -> list[str]:
        return sorted(one.name for one in self.where.rejected.iterdir() if not one.name.startswith("."))

    def spooled(self) -> list[str]:
        return [one.name for one in self.where.spool.iterdir()]

    def change_node(self, name: str, **fields: object) -> None:
        node = dataclasses.replace(self.node(name), **fields)  # type: ignore[arg-type]
        self.cluster = dataclasses.replace(self.cluster, nodes={**self.cluster.nodes, node.uuid: node})

    def change_settings(self, **fields: object) -> None:
        maintenance = self.cluster.maintenance
        settings = dataclasses.replace(maintenance.settings, **fields)  # type: ignore[arg-type]
        self.cluster = dataclasses.replace(
            self.cluster, maintenance=dataclasses.replace(maintenance, settings=settings)
        )

    def _tell(self) -> None:
        self.news += 1


@pytest.fixture
def one(tmp_path: Path) -> Spooled:
    return Spooled(twins.lab(tmp_path))


def test_accepting_a_report_is_renaming_it_to_its_node(one: Spooled) -> None:
    data = twins.envelope(one.lab, one.node(), EVACUATE)
    one.drop(data, "whatever its name.txt")
    assert one.take()
    assert (one.where.reports / f"{one.node().uuid}.json").read_bytes() == data
    assert one.spooled() == []
    assert one.news == 1
    assert one.intake.observed()[one.node().uuid].original == EVACUATE


def test_a_problem_is_kept_beside_the_diagnosis_and_changes_nothing_that_is_observed(one: Spooled) -> None:
    one.report(age=10)
    assert one.report(problem="not_json")
    assert (one.where.reports / f"{one.node().uuid}.json").exists()
    assert (one.where.reports / f"{one.node().uuid}.problem.json").exists()
    assert one.intake.observed()[one.node().uuid].original == EVACUATE
    problem = one.intake.problem_of(one.node().uuid)
    assert problem is not None
    assert problem.reason == "not_json"


def test_a_newer_diagnosis_ends_a_problem(one: Spooled) -> None:
    one.report(problem="not_json", age=10)
    one.report()
    assert one.intake.problem_of(one.node().uuid) is None


@pytest.mark.parametrize("problem", ["", "not_json"])
def test_what_is_older_than_the_last_diagnosis_or_problem_is_replayed(one: Spooled, problem: str) -> None:
    one.report(problem=problem, age=5)
    assert not one.report(age=10)
    assert not one.report(problem="hangs", age=10)
    assert one.intake.rejections == {"replayed": 2}


def test_the_floor_survives_a_restart(one: Spooled) -> None:
    one.report(problem="not_json", age=5)
    one.intake = one.restarted()
    assert not one.report(age=10)
    assert one.intake.rejections == {"replayed": 1}


def test_what_was_rejected_of_a_node_that_was_asked_is_noted_until_a_report_counts(one: Spooled) -> None:
    uuid, first = one.node().uuid, one.now
    one.drop(b"{}", "node2-17.json")
    one.drop(b"{}", "somebody-17.json")
    one.take()
    one.now += 60
    one.drop(twins.envelope(one.lab, one.node("node3"), OK).replace(b"Ok", b"No"), "node2-18.json")
    one.take()
    assert list(one.intake.rejected) == [uuid]
    noted = one.intake.rejected[uuid]
    assert (noted.reason, noted.since, noted.at, noted.times) == ("forged", first, one.now, 2)
    assert "signature" in noted.text
    one.report()
    assert one.intake.rejected == {}
    one.drop((one.where.reports / f"{uuid}.json").read_bytes(), "node2-19.json")
    one.take()
    assert one.intake.rejections["replayed"] == 1
    assert one.intake.rejected == {}, "the same report once more is no trouble"


DAY, HOUR = 86400.0, 3600.0
OK = '{"status": "Ok"}'


def test_a_report_from_the_future_is_refused_counted_and_shown_until_the_next_one_counts(one: Spooled) -> None:
    assert not one.report(age=-DAY)
    assert one.intake.rejections == {"future": 1}
    refused = one.intake.refused[one.node().uuid]
    assert (refused.reason, refused.at) == ("future", one.now)
    assert "86400 s ahead" in refused.text
    assert one.intake.observed() == {}
    assert one.report(), "no floor was raised"
    assert one.intake.refused == {}


@pytest.mark.parametrize("ahead", [HOUR, DAY])
@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_controller_whose_clock_ran_ahead_hears_its_nodes_at_once_when_it_is_right_again(
    one: Spooled, ahead: float, *, is_restarted: bool
) -> None:
    true = one.now
    one.now = true + ahead
    assert one.report(OK, age=-ahead)
    one.now = true
    if is_restarted:
        one.intake = one.restarted()
    one.take()
    one.now = true + 2
    assert one.report(age=-1)
    assert one.intake.observed()[one.node().uuid].original == EVACUATE


def test_a_lifted_floor_lets_no_older_report_in_again(one: Spooled) -> None:
    honest = twins.envelope(one.lab, one.node(), OK, age=20)
    one.drop(honest)
    assert one.take()
    true = one.now
    one.now = true + DAY
    assert one.report(age=-DAY)
    one.now = true
    one.drop(honest, "captured.json")
    assert not one.take()
    assert one.intake.rejections == {"replayed": 1}
    assert one.intake.observed()[one.node().uuid].original == EVACUATE


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_problem_from_the_future_stays_newer_than_the_diagnosis_before_it(
    one: Spooled, *, is_restarted: bool
) -> None:
    true = one.now
    one.now = true + DAY
    one.report(OK, age=-DAY)
    one.report(problem="hangs", age=-DAY - 1)
    one.now = true
    if is_restarted:
        one.intake = one.restarted()
    one.take()
    assert one.intake.problem_of(one.node().uuid) is not None
    one.now = true + 2
    assert one.report(age=-1)
    assert one.intake.problem_of(one.node().uuid) is None


@pytest.mark.parametrize("step", [HOUR, -HOUR, DAY, -DAY])
def test_after_a_step_of_the_clock_no_older_ok_counts_as_fresh(one: Spooled, step: float) -> None:
    one.report(OK, age=1)
    one.now += step
    asked = one.now
    one.take()
    one.now += 1
    assert not one.intake.reported_ok_since(one.node().uuid, asked)
    assert one.report(OK, age=-step - 1)
    assert one.intake.reported_ok_since(one.node().uuid, asked)


def test_a_person_lifts_a_floor_that_lies_ahead_and_nothing_older_gets_in(one: Spooled) -> None:
    captured = twins.envelope(one.lab, one.node(), OK, age=3)
    assert one.report(age=-200)
    assert not one.report(OK)
    assert one.intake.rejections == {"replayed": 1}
    assert one.intake.refused[one.node().uuid].reason == "replayed"
    assert asyncio.run(one.intake.reset_floor(one.node().uuid)) == pytest.approx(200, abs=30)
    one.drop(captured)
    assert not one.take()
    one.now += 30
    assert one.report(OK, age=-20)
    assert asyncio.run(one.intake.reset_floor(one.node().uuid)) == 0


def test_an_ok_report_is_observed_too(one: Spooled) -> None:
    one.report('{"status": "Ok"}')
    assert one.intake.observed()[one.node().uuid].status.value == "Ok"


def test_a_rejected_report_is_moved_aside_with_its_reason_and_counted(one: Spooled) -> None:
    one.drop(b"no report", "bad.json")
    assert not one.take()
    bad, reason = one.rejected()
    assert bad.endswith("-malformed-bad.json")
    assert (one.where.rejected / bad).read_bytes() == b"no report"
    assert (one.where.rejected / reason).read_text().startswith("malformed: ")
    assert one.spooled() == []
    assert one.intake.rejections == {"malformed": 1}
    assert one.news == 1


@other_users.only_root
@pytest.mark.parametrize("size", [10, rejected.HEAD + 1])
def test_a_file_that_the_daemons_user_may_not_read_is_counted_and_leaves_the_spool(size: int) -> None:
    with other_users.open_folder() as folder:
        one = Spooled(twins.lab(folder))
        one.report()
        for path in (folder, *folder.rglob("*")):
            os.chown(path, other_users.DAEMON, other_users.DAEMON, follow_symlinks=False)
        one.drop(b"x" * size, "node2-1.json").chmod(0o600)
        with other_users.acting_as(other_users.DAEMON):
            assert not one.take()
        assert one.spooled() == []
        assert one.intake.rejections == {"unreadable": 1}


def test_counts_survive_a_restart_and_grow_on(one: Spooled) -> None:
    one.drop(b"no report")
    one.take()
    one.intake = one.restarted()
    one.drop(b"no report")
    one.take()
    assert one.restarted().rejections == {"malformed": 2}


def test_only_the_newest_rejected_files_are_kept(one: Spooled, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rejected, "KEPT", 2)
    (one.where.spool / "a folder").mkdir()
    for name in ("a", "b", "c"):
        one.take()
        one.now += 1
        one.drop(b"no report", name)
    one.take()
    assert [name.rpartition("-")[2] for name in one.rejected()] == ["b", "b.reason", "c", "c.reason"]
    assert one.intake.rejections == {"malformed": 4}


def test_one_node_cannot_push_out_what_was_rejected_of_another(one: Spooled, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rejected, "KEPT", 6)
    one.drop(b"no report", "node3-1.json")
    one.take()
    for number in range(30):
        one.now += 1
        one.drop(b"no report", f"node2-{number}.json")
    one.take()
    kept = [name for name in one.rejected() if not name.endswith(".reason")]
    assert len(kept) == 6
    assert [name for name in kept if "node3-" in name]


def test_of_a_large_rejected_file_the_beginning_is_kept(one: Spooled) -> None:
    one.drop(b"x" * (reports.LIMIT + 1))
    (one.where.spool / "a folder").mkdir()
    (one.where.spool / "a folder" / "large").write_bytes(b"y" * 100_000)
    one.take()
    sizes = {name.partition("-")[2]: (one.where.rejected / name).lstat().st_size for name in one.rejected()}
    assert sizes["oversized-one.json"] == rejected.HEAD == 64 * 1024
    assert "malformed-a folder" not in sizes
    assert "malformed-a folder.reason" in sizes
    assert one.spooled() == []


def test_rejected_files_are_bounded_in_bytes(one: Spooled, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rejected, "LIMIT", 150_000)
    for number in range(20):
        one.drop(b"x" * 60_000, f"node2-{number}.json")
    one.take()
    assert sum((one.where.rejected / name).stat().st_size for name in one.rejected()) <= 150_000
    assert len(one.rejected()) == 4


def test_a_flood_of_files_is_taken_in_steps(one: Spooled, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intakes, "FILES", 10)
    for number in range(25):
        one.drop(b"no report", f"node2-{number:02}.json")
    assert not one.take()
    assert (len(one.spooled()), one.intake.is_behind) == (15, True)
    one.take()
    one.take()
    assert (one.spooled(), one.intake.is_behind) == ([], False)


@pytest.mark.parametrize("count", [500, pytest.param(10_000, marks=pytest.mark.slow)])
def test_forged_reports_are_all_refused_within_their_bounds(
    one: Spooled, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """Forged, mutated, captured and foreign ones through the real spool, seeded; the disk is not waited for."""
    monkeypatch.setattr(os, "fsync", lambda _descriptor: None)
    chance = random.Random(13)
    good = twins.envelope(one.lab, one.node(), EVACUATE)
    other = signing.node_key(one.where.hmac_key.read_bytes(), one.node("node3").uuid)
    message = reports.message(node_uuid=one.node().uuid, timestamp_ns=int(one.now * 1e9), data=OK, problem=None)
    forms = [
        lambda: _flipped(good, chance),
        lambda: signing.sign(message, key=chance.choice([other, b"guessed", b" "]), now=int(one.now)).encode(),
        lambda: good[: chance.randrange(len(good))],
        lambda: json.dumps({"msg": "x" * chance.randrange(5000), "salt": str(int(one.now)), "hmac": "0" * 64}).encode(),
        lambda: chance.randbytes(chance.randrange(2000)),
        lambda: twins.envelope(one.lab, one.node(), EVACUATE, age=chance.choice([-DAY, DAY, -HOUR, HOUR])),
    ]
    _reset_peak_memory()
    before = _peak_memory()
    for number in range(count):
        one.drop(chance.choice(forms)(), f"{chance.choice(['node2', 'node4', 'x'])}-{number}.json")
        if number % 2000 == 1999 or number == count - 1:
            one.take()
            while one.intake.is_behind:
                one.take()
    assert sum(one.intake.rejections.values()) == count
    assert one.intake.observed() == {}
    assert [path.name for path in one.where.reports.glob("*.json")] == []
    assert one.spooled() == []
    kept = [one.where.rejected / name for name in one.rejected()]
    assert len(kept) <= 2 * rejected.KEPT
    assert sum(path.stat().st_size for path in kept) <= rejected.LIMIT
    assert _peak_memory() - before < 64 * 2**20


def _reset_peak_memory() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def _peak_memory() -> int:
    """Bytes of memory that this process had at most since the peak was reset."""
    status = Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM:")).split()[1]) * 1024


def _flipped(data: bytes, chance: random.Random) -> bytes:
    changed = bytearray(data)
    # Digits of the signature and of the message: a byte of the envelope's blanks would say the same.
    place = data.index(b"evacuate") + chance.randrange(8) if chance.random() < 0.5 else len(data) - 10
    changed[place] = (changed[place] + 1 + chance.randrange(9)) % 128
    return bytes(changed)


def test_a_pipe_is_rejected_without_waiting_for_it(one: Spooled) -> None:
    os.mkfifo(one.where.spool / "pipe")
    one.take()
    assert one.intake.rejections == {"malformed": 1}
    assert one.spooled() == []


def test_a_link_is_never_followed(one: Spooled, tmp_path: Path) -> None:
    outside = tmp_path / "outside.json"
    outside.write_bytes(twins.envelope(one.lab, one.node(), EVACUATE))
    (one.where.spool / "link.json").symlink_to(outside)
    assert not one.take()
    assert outside.exists()
    assert one.intake.rejections == {"malformed": 1}


def test_a_large_file_is_rejected_unread(one: Spooled) -> None:
    one.drop(b" " * (reports.LIMIT + 1))
    one.take()
    assert one.intake.rejections == {"oversized": 1}


@pytest.mark.parametrize("name", ["界" * 85, "x" * 255, "-n", "a\nb"])
def test_a_rejected_file_of_any_name_is_moved_aside(one: Spooled, name: str) -> None:
    one.drop(b"no report", name)
    one.take()
    assert one.spooled() == []
    assert one.intake.rejections == {"malformed": 1}


def test_a_name_that_is_no_text_is_moved_aside_and_forges_no_line_of_the_log(
    one: Spooled, caplog: pytest.LogCaptureFixture
) -> None:
    one.drop(b"no report", os.fsdecode(b"\xff\n\xfe.json"))
    one.take()
    assert one.spooled() == []
    (line,) = caplog.messages
    assert r"report '\udcff\n\udcfe.json' rejected: malformed" in line
    assert line.isascii()
    assert "\n" not in line


def test_a_hidden_file_is_left_alone(one: Spooled) -> None:
    one.drop(twins.envelope(one.lab, one.node(), EVACUATE), ".half")
    assert not one.take()
    assert one.spooled() == [".half"]


def test_a_file_that_is_open_for_writing_waits_until_it_is_closed(one: Spooled) -> None:
    path = one.drop(twins.envelope(one.lab, one.node(), EVACUATE))
    with path.open("ab") as stream:
        if not has_leases(path):
            pytest.skip("this file system has no leases")
        assert not one.take()
        assert one.spooled() == ["one.json"]
        stream.flush()
    assert one.take()
    assert one.intake.rejections == {}


def has_leases(path: Path) -> bool:
    with path.open("rb") as stream:
        try:
            fcntl.fcntl(stream.fileno(), fcntl.F_SETLEASE, fcntl.F_RDLCK)
        except BlockingIOError:
            return True
        except OSError:
            return False
    return False


def test_a_note_says_why_a_node_is_unreachable_until_it_reports_again(one: Spooled) -> None:
    note = {"node": "node2", "time": 5, "text": "x" * 600}
    path = one.drop(json.dumps(note).encode(), "node2.unreachable")
    assert one.take()
    assert one.intake.unreachable == {"node2": {"time": 5.0, "text": "x" * 500}}
    assert not path.exists()
    one.report()
    assert one.intake.unreachable == {}


def test_a_note_older_than_the_last_report_of_its_node_says_nothing(one: Spooled) -> None:
    one.report()
    one.drop(json.dumps({"node": "node2", "time": 5, "text": "late"}).encode(), "node2.unreachable")
    assert one.take()
    assert one.intake.unreachable == {}


def test_a_note_about_a_host_outside_the_cluster_is_rejected(one: Spooled) -> None:
    one.drop(json.dumps({"node": "router", "time": 5, "text": ""}).encode(), "router.unreachable")
    assert not one.take()
    assert one.intake.rejections == {"wrong-node": 1}


@pytest.mark.parametrize(
    "note",
    [
        b"",
        b"null",
        b"[]",
        b'{"node": "node2"}',
        b'{"node": "node2", "time": "soon", "text": ""}',
        b'{"node": "node2", "time": NaN, "text": ""}',
        b'{"node": "node2", "time": 1' + b"0" * 400 + b', "text": ""}',
        b'{"node": "node2", "time": 5, "text": "\\ud800"}',
        b"[" * 200_000,
        b"\xff",
    ],
    ids=range(10),
)
def test_a_malformed_note_is_rejected(one: Spooled, note: bytes) -> None:
    one.drop(note, "node2.unreachable")
    assert not one.take()
    assert one.intake.unreachable == {}
    assert one.intake.rejections == {"malformed": 1}
    assert one.spooled() == []


def test_an_offline_node_is_not_observed(one: Spooled) -> None:
    one.report()
    one.change_node("node2", offline=True)
    assert one.intake.observed() == {}


def test_a_node_that_left_the_cluster_is_not_observed(one: Spooled) -> None:
    one.report()
    left = {uuid: node for uuid, node in one.cluster.nodes.items() if node.name != "node2"}
    one.cluster = dataclasses.replace(one.cluster, nodes=left, instances={})
    assert one.intake.observed() == {}
    assert one.restarted().observed() == {}


def test_accepted_reports_are_read_again_at_start_whatever_their_age(one: Spooled) -> None:
    one.report()
    one.now += 10**6
    assert one.restarted().observed()[one.node().uuid].original == EVACUATE


@pytest.mark.parametrize("damage", [b"", b"{}", b"evacuatf"])
def test_an_altered_accepted_file_is_not_used_at_start(one: Spooled, damage: bytes) -> None:
    one.report()
    path = one.where.reports / f"{one.node().uuid}.json"
    path.write_bytes(path.read_bytes().replace(b"evacuate", damage) if damage == b"evacuatf" else damage)
    assert one.restarted().observed() == {}


def test_one_report_that_cannot_be_used_neither_stops_the_others_nor_the_start(one: Spooled) -> None:
    (one.where.reports / f"{one.node('node2').uuid}.json").mkdir()
    one.drop(twins.envelope(one.lab, one.node("node2"), EVACUATE), "1.json")
    one.drop(twins.envelope(one.lab, one.node("node3"), EVACUATE), "2.json")
    with pytest.raises(IsADirectoryError):
        one.take()
    assert list(one.intake.observed()) == [one.node("node3").uuid]
    assert one.spooled() == ["1.json"]
    assert list(one.restarted().observed()) == [one.node("node3").uuid]


def test_an_accepted_report_that_cannot_be_used_is_in_the_health_until_the_next_one_takes_its_place(
    one: Spooled,
) -> None:
    one.report()
    path = one.where.reports / f"{one.node().uuid}.json"
    path.unlink()
    path.mkdir()
    (one.where.reports / "6f1c1e0c-0000-4000-8000-000000000001.json").mkdir()
    one.intake = one.restarted()
    (failure,) = one.failures.listed()
    assert "node2" in failure["part"]
    assert str(path) in failure["remedy"]
    one.take()
    assert len(one.failures.listed()) == 1
    path.rmdir()
    one.report()
    assert one.failures.listed() == []


def test_a_report_in_the_form_of_the_cluster_counts_after_a_restart_too(one: Spooled) -> None:
    one.change_settings(accept_cluster_key=True)
    message = reports.message(node_uuid=one.node().uuid, timestamp_ns=int(one.now * 1e9), data=EVACUATE, problem=None)
    salt = str(int(one.now))
    key = one.where.hmac_key.read_bytes()
    one.drop(json.dumps({"msg": message, "salt": salt, "hmac": cluster_form(message, salt, key)}).encode())
    assert one.take()
    assert set(one.restarted().observed()) == {one.node().uuid}
    one.change_settings(accept_cluster_key=False)
    assert one.restarted().observed() == {}


def cluster_form(message: str, salt: str, key: bytes) -> str:
    import hashlib  # noqa: PLC0415 - Ganeti's construction, written out once
    import hmac  # noqa: PLC0415 - the same

    found = hmac.new(key, (salt + message).encode(), hashlib.sha1).hexdigest()
    sealed = signing.Envelope(msg=message, salt=salt, hmac=found)
    assert signing.is_signed_in_cluster_form(sealed, cluster_key=key)
    return found


def test_ok_counts_as_fresh_only_when_it_came_afterwards_and_nothing_newer_did(one: Spooled) -> None:
    node, asked = one.node().uuid, one.now
    one.report('{"status": "Ok"}', age=20)
    assert one.intake.reported_ok_since(node, asked)
    assert not one.intake.reported_ok_since(node, asked + 1)
    one.report(problem="hangs", age=10)
    assert not one.intake.reported_ok_since(node, asked)
    one.report(age=5)
    assert not one.intake.reported_ok_since(node, asked)
    assert not one.intake.reported_ok_since(one.node("node3").uuid, asked)


def test_a_file_dated_ahead_is_not_fresh_for_ever(one: Spooled) -> None:
    path = one.drop(twins.envelope(one.lab, one.node(), '{"status": "Ok"}'))
    ahead = time.time() + 10**6
    os.utime(path, (ahead, ahead))
    one.take()
    assert not one.restarted().reported_ok_since(one.node().uuid, time.time() + 1000)


@pytest.mark.parametrize("content", [None, "", " \n"])
def test_without_a_key_nothing_starts(one: Spooled, content: str | None) -> None:
    one.where.hmac_key.unlink()
    if content is not None:
        one.where.hmac_key.write_text(content)
    with pytest.raises(errors.StoreFailed, match=r"hmac\.key"):
        one.restarted()


def test_who_does_not_wait_for_reports_any_more_leaves_no_failure_that_nobody_heard_of(
    one: Spooled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The daemon ends on a failed disk, which is told elsewhere."""
    unheard: list[object] = []

    async def ended() -> None:
        loop, begun, goes_on = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()
        loop.set_exception_handler(lambda _, context: unheard.append(context))

        async def failing() -> bool:
            begun.set()
            await goes_on.wait()
            raise errors.StateUnknown("the disk failed")

        monkeypatch.setattr(one.intake, "_take_all", failing)
        waiting = loop.create_task(one.intake.take_all())
        await begun.wait()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        goes_on.set()
        await asyncio.sleep(0.01)
        gc.collect()

    asyncio.run(ended())
    assert unheard == []
