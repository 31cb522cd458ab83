from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors, hvparams
from ansible_collections.roundsman.cluster.plugins.module_utils.hypervisor import kvm, kvm_migration

from .libvirt_twin import HALTED, MOVING, OFF, RUNS, Domain, Libvirts, by_hand, facts

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

END = "run `virsh --connect qemu:///system destroy a`"
TCP = {"migration_transport": "tcp", "migration_limit": "60"}


def note(root: Path, **fields: Any) -> None:
    folder = root / kvm_migration.NOTES
    folder.mkdir(parents=True)
    (folder / "a.json").write_text(json.dumps({"uri": "qemu+tcp://n2/system", "limit": 60, "opcode": "4/0", **fields}))


def migrate(driver: kvm.Driver, target_lacks: Callable[[], str] = str, **changed: str) -> bool:
    return driver.migrate("a", "n2", hvparams={**TCP, **changed}, target_lacks=target_lacks)


def test_an_instance_is_handed_over_once(libvirts: Libvirts, driver: kvm.Driver) -> None:
    libvirts.here.domains["a"] = Domain()
    assert migrate(driver)
    assert (libvirts.here.domains, libvirts.there.domains["a"].state) == ({}, (1, 2))
    assert not migrate(driver)
    assert driver.migrations() == {}


@pytest.mark.parametrize(
    ("here", "there", "text"),
    [
        (None, None, "a does not run here, nor on the target"),
        (None, HALTED, "a does not run here, nor on the target"),
        (HALTED, None, "a is paused after an I/O error of a disk here: only what runs is migrated live"),
        (RUNS, RUNS, f"a is running here and running on the target: {END} on the node whose guest has the "),
        (RUNS, MOVING, f"a is running here and in migration on the target: {END} on the target, then retry"),
    ],
)
def test_what_does_not_run_here_or_is_there_is_not_touched(
    libvirts: Libvirts,
    driver: kvm.Driver,
    here: tuple[int, int] | None,
    there: tuple[int, int] | None,
    text: str,
) -> None:
    for host, state in ((libvirts.here, here), (libvirts.there, there)):
        if state:
            host.domains["a"] = Domain(state)
    with pytest.raises(errors.Failed, match=f"^{text}"):
        migrate(driver)
    assert not [call for call in libvirts.calls if call[0] == "migrate"]


def test_a_target_that_is_down_leaves_the_instance_where_it_is(libvirts: Libvirts, driver: kvm.Driver) -> None:
    libvirts.here.domains["a"] = Domain()
    libvirts.there.down = True
    with pytest.raises(errors.Failed, match=r"^a was not migrated: the target does not answer: .*No route to host"):
        migrate(driver)
    assert driver.running() == ["a"]


def test_definitions_that_were_left_go_on_both_nodes(
    libvirts: Libvirts,
    driver: kvm.Driver,
    tmp_path: Path,
) -> None:
    libvirts.here.domains["a"] = Domain(defined=True, xml="<here/>")
    libvirts.there.domains["a"] = Domain(OFF, defined=True, xml="<there/>")
    assert migrate(driver)
    assert not libvirts.there.domains["a"].defined
    kept = {path.name: path.read_text() for path in (tmp_path / "var/lib/roundsman/definitions").iterdir()}
    assert kept == {"a.xml": "<here/>", "a@n2.xml": "<there/>"}


def test_a_migration_that_does_not_end_is_aborted_and_goes_on_here(libvirts: Libvirts, driver: kvm.Driver) -> None:
    libvirts.here.domains["a"] = Domain()
    libvirts.seconds = 10**9
    with pytest.raises(errors.Failed) as raised:
        migrate(driver)
    assert str(raised.value) == (
        "a was not migrated: it did not end within 60 s (9.5 of 16 MiB left in pass 2); it is running here"
    )
    assert (driver.running(), libvirts.there.domains, driver.migrations()) == (["a"], {}, {})
    assert 60 <= libvirts.clock.now < 65
    assert driver.progress["memory_remaining"] == 9.5


@pytest.mark.parametrize("client_dies", [False, True])
def test_a_migration_whose_target_lacks_writes_is_aborted_at_once_and_goes_on_here(
    libvirts: Libvirts, driver: kvm.Driver, *, client_dies: bool
) -> None:
    libvirts.here.domains["a"] = Domain()
    libvirts.seconds, libvirts.client_dies = 30, client_dies
    with pytest.raises(errors.Failed) as raised:
        migrate(driver, target_lacks=lambda: "a-disk0 is Connecting" if libvirts.clock.now >= 3 else "")
    assert str(raised.value) == (
        "a was not migrated: the target would lack its last writes: a-disk0 is Connecting; it is running here"
    )
    assert (driver.running(), libvirts.there.domains, driver.migrations()) == (["a"], {}, {})
    assert libvirts.clock.now <= 3 + 2 * kvm_migration.PAUSE


def test_a_migration_that_a_killed_step_left_is_aborted_by_the_next_one_if_its_target_lacks_writes(
    libvirts: Libvirts, driver: kvm.Driver, tmp_path: Path
) -> None:
    libvirts.here.domains["a"] = Domain()
    libvirts.seconds = 30
    libvirts.begin("a")
    note(tmp_path)
    with pytest.raises(errors.Failed, match="the target would lack its last writes"):
        migrate(driver, target_lacks=lambda: "a-disk0 is Connecting")
    assert (driver.running(), libvirts.there.domains) == (["a"], {})


def test_writes_that_the_target_lacks_too_late_for_an_abort_do_not_hide_where_the_instance_runs(
    libvirts: Libvirts, driver: kvm.Driver
) -> None:
    libvirts.here.domains["a"] = Domain()
    libvirts.seconds, libvirts.here.fails = 2, {"domjobabort": "Requested operation is not valid"}
    assert migrate(driver, target_lacks=lambda: "a-disk0 is Connecting" if libvirts.clock.now > 1 else "")
    assert (libvirts.here.domains, list(libvirts.there.domains)) == ({}, ["a"])


def test_progress_can_be_read_meanwhile(libvirts: Libvirts, driver: kvm.Driver) -> None:
    libvirts.here.domains["a"] = Domain()
    libvirts.seconds = 5
    seen: list[Any] = []
    libvirts.clock.plans.append((4, lambda: seen.append(driver.migrations()["a"])))
    assert migrate(driver)
    assert seen[0]["uri"] == "qemu+tcp://n2/system"
    assert seen[0]["progress"] == {"seconds": 3.0, "memory_total": 16, "memory_remaining": 9.5, "iteration": 2}


def test_a_migration_whose_client_was_killed_is_awaited(libvirts: Libvirts, driver: kvm.Driver) -> None:
    libvirts.here.domains["a"] = Domain()
    libvirts.client_dies, libvirts.seconds = True, 20
    assert migrate(driver)
    assert list(libvirts.there.domains) == ["a"]


def test_a_migration_that_cannot_be_ended_is_told_as_going_on(libvirts: Libvirts, driver: kvm.Driver) -> None:
    libvirts.here.domains["a"] = one = Domain()
    libvirts.seconds = 10**9
    libvirts.clock.plans.append((2, lambda: setattr(one, "job", "busy")))
    with pytest.raises(errors.Failed, match=r"within 60 s.*, and cannot be ended; its migration to .* still goes on"):
        migrate(driver)
    assert list(driver.migrations()) == ["a"], "whoever comes next has to see to it"


@pytest.mark.parametrize(("seconds", "text", "where"), [(30, "running on the target", 1), (10**9, "running here", 0)])
def test_recovery_awaits_a_migration_and_aborts_it_at_its_limit(
    libvirts: Libvirts,
    driver: kvm.Driver,
    tmp_path: Path,
    *,
    seconds: float,
    text: str,
    where: int,
) -> None:
    libvirts.here.domains["a"] = Domain()
    libvirts.seconds = seconds
    libvirts.begin("a")
    note(tmp_path)
    assert f"a: it is {text}" in driver.recover("a")
    places = [list(host.domains) for host in (libvirts.here, libvirts.there)]
    assert places == [[["a"], []], [[], ["a"]]][where]
    assert (driver.migrations(), driver.recover("a")) == ({}, "")


def test_the_target_of_a_migration_awaits_it_too(libvirts: Libvirts, tmp_path: Path) -> None:
    libvirts.here.domains["a"] = Domain()
    libvirts.seconds = 30
    libvirts.begin("a")
    other = kvm.Driver(tmp_path, opcode="", connect=lambda uri="qemu+tcp://n2/system": libvirts.connect(uri))
    assert other.recover("a") == "a: it is running here, after a migration"


def test_without_a_migration_there_is_nothing_to_recover(libvirts: Libvirts, driver: kvm.Driver) -> None:
    assert driver.recover("a") == ""
    libvirts.here.domains["a"] = Domain()
    assert driver.recover("a") == ""


def test_what_a_migration_half_made_there_ends_once_it_surely_runs_here(
    libvirts: Libvirts,
    driver: kvm.Driver,
    tmp_path: Path,
) -> None:
    libvirts.here.domains["a"], libvirts.there.domains["a"] = Domain(), Domain(MOVING)
    note(tmp_path)
    assert driver.recover("a") == "a: it is running here"
    assert libvirts.there.domains == {}


@pytest.mark.parametrize(
    ("here", "there", "text"),
    [
        (None, MOVING, "it is in migration on the target (qemu+tcp://n2/system), and not here"),
        (MOVING, MOVING, "it is paused in migration here, and in migration on the target (qemu+tcp://n2/system)"),
        (RUNS, RUNS, f"it is running here and running on the target: {END} on the node whose guest has the older data"),
        (HALTED, RUNS, f"it is paused after an I/O error of a disk here and running on the target: {END} on this"),
    ],
)
def test_what_is_doubtful_is_said_and_left_as_it_is(
    libvirts: Libvirts,
    driver: kvm.Driver,
    tmp_path: Path,
    *,
    here: tuple[int, int] | None,
    there: tuple[int, int],
    text: str,
) -> None:
    if here:
        libvirts.here.domains["a"] = Domain(here)
    libvirts.there.domains["a"] = Domain(there)
    note(tmp_path)
    assert driver.recover("a").startswith(f"a: {text}")
    assert libvirts.there.domains["a"].state == there
    assert [one.state for one in libvirts.here.domains.values()] == ([here] if here else [])
    assert list(driver.migrations()) == ["a"]


@pytest.mark.parametrize(
    ("here", "there", "ended"),
    [
        (MOVING, MOVING, ("there", "here")),
        (None, MOVING, ("there",)),
        (None, HALTED, ("there",)),
        (MOVING, None, "here"),
    ],
)
def test_what_is_doubtful_starts_again_once_the_commands_of_its_text_were_run(
    libvirts: Libvirts,
    driver: kvm.Driver,
    tmp_path: Path,
    *,
    here: tuple[int, int] | None,
    there: tuple[int, int] | None,
    ended: tuple[str, ...],
) -> None:
    hosts = {"here": libvirts.here, "there": libvirts.there}
    for host, state in ((libvirts.here, here), (libvirts.there, there)):
        host.domains |= {"a": Domain(state)} if state else {}
    libvirts.there.down = there is None
    note(tmp_path)
    with pytest.raises(errors.Failed, match=r"^a was not started: ") as refused:
        driver.start("a", facts(), runs_nowhere=True)
    assert by_hand(refused.value) == [["destroy", "a"]]
    for where in (ended,) if isinstance(ended, str) else ended:
        hosts[where].domains.clear()
    assert driver.start("a", facts(), runs_nowhere=True)


def test_what_is_paused_for_the_last_step_ends_here_if_it_runs_there(
    libvirts: Libvirts, driver: kvm.Driver, tmp_path: Path
) -> None:
    libvirts.here.domains["a"], libvirts.there.domains["a"] = Domain(MOVING), Domain(RUNS)
    note(tmp_path)
    assert "it runs on the target" in driver.recover("a")
    assert (list(libvirts.here.domains), list(libvirts.there.domains)) == ([], ["a"])


def test_what_is_paused_for_the_last_step_is_never_resumed_later_though_the_target_does_not_know_it(
    libvirts: Libvirts, driver: kvm.Driver, tmp_path: Path
) -> None:
    libvirts.here.domains["a"] = Domain(MOVING)
    note(tmp_path)
    told = driver.recover("a")
    assert told.startswith("a: it is paused in migration here, and not on the target (qemu+tcp://n2/system): it may ")
    assert "/var/log/libvirt/qemu/a.log" in told
    assert "virsh resume a" in told
    assert (libvirts.here.domains["a"].state, list(driver.migrations())) == (MOVING, ["a"])
    with pytest.raises(errors.Failed, match="left half-way"):
        driver.stop("a", time_limit=0)
    with pytest.raises(errors.Failed, match=r"^a was not started: it is paused in migration here, and not on the"):
        driver.start("a", facts(), runs_nowhere=True)
    with pytest.raises(errors.Failed, match="only what runs is migrated live"):
        migrate(driver)
    assert libvirts.here.domains["a"].state == MOVING

    libvirts.here.domains["a"].state = RUNS
    assert driver.recover("a") == "a: it is running here"
    assert driver.migrations() == {}


@pytest.mark.parametrize(
    ("booted", "boots", "is_resumed"),
    [(-86400, None, True), (-86400, 3, False), (-5, None, False), (-5, 3, False), (-86400, "silent", False)],
)
def test_the_process_that_saw_a_migration_fail_resumes_it_only_if_the_target_surely_did_not_boot_meanwhile(
    libvirts: Libvirts, driver: kvm.Driver, *, booted: float, boots: Any, is_resumed: bool
) -> None:
    libvirts.here.domains["a"] = one = Domain()
    libvirts.there.booted = booted
    libvirts.seconds = 10**9

    def lose_the_last_answer() -> None:
        one.state, one.job = MOVING, ""
        del libvirts.there.domains["a"]
        if boots == "silent":
            libvirts.there.fails["nodecpustats"] = "Timed out during operation"
        elif boots is not None:
            libvirts.there.booted = boots

    libvirts.clock.plans.append((10, lose_the_last_answer))
    with pytest.raises(errors.Failed) as raised:
        migrate(driver)
    assert one.state == (RUNS if is_resumed else MOVING)
    text = "it is running here again" if is_resumed else "it may have run there and written its disks"
    assert text in str(raised.value)
    assert list(driver.migrations()) == ([] if is_resumed else ["a"])


@pytest.mark.parametrize(("patience", "awaited"), [(0, 0), (20, 20), (10**6, 60)])
def test_a_stop_waits_for_an_interrupted_migration_no_longer_than_for_the_guest_itself(
    libvirts: Libvirts, driver: kvm.Driver, tmp_path: Path, *, patience: float, awaited: float
) -> None:
    libvirts.here.domains["a"] = Domain(hears=False)
    libvirts.seconds = 10**9
    libvirts.begin("a")
    note(tmp_path)
    assert driver.stop("a", time_limit=patience)
    aborted = awaited + 1
    assert (libvirts.here.domains, libvirts.there.domains) == ({}, {})
    assert libvirts.clock.now <= aborted + patience + 1


@pytest.mark.parametrize("here", [None, MOVING])
def test_of_a_silent_target_nothing_is_concluded(
    libvirts: Libvirts,
    driver: kvm.Driver,
    tmp_path: Path,
    *,
    here: tuple[int, int] | None,
) -> None:
    if here:
        libvirts.here.domains["a"] = Domain(here)
    libvirts.there.down = True
    note(tmp_path)
    assert "No route to host): it may run there" in driver.recover("a")
    with pytest.raises(errors.Failed, match=r"^a was not started: it is .* to host.: it may run there") as raised:
        driver.start("a", facts())
    path = tmp_path / kvm_migration.NOTES / "a.json"
    assert (f"run `rm {path}` here" in str(raised.value)) is (here is None)
    assert (len(libvirts.here.domains), list(driver.migrations())) == (1 if here else 0, ["a"])


def test_an_instance_that_a_migration_took_away_is_not_started_again(
    libvirts: Libvirts,
    driver: kvm.Driver,
    tmp_path: Path,
) -> None:
    libvirts.there.domains["a"] = Domain()
    note(tmp_path)
    for _ in range(2):
        with pytest.raises(errors.Failed, match=r"^a was not started: it is running on the target"):
            driver.start("a", facts())
    assert libvirts.here.domains == {}


@pytest.mark.parametrize(("is_down", "text"), [(False, "it is running on the target"), (True, "it is not here, and ")])
def test_an_instance_that_a_migration_took_away_does_not_count_as_stopped_until_somebody_was_told_where_it_runs(
    libvirts: Libvirts,
    driver: kvm.Driver,
    tmp_path: Path,
    *,
    is_down: bool,
    text: str,
) -> None:
    libvirts.there.domains["a"], libvirts.there.down = Domain(), is_down
    note(tmp_path)
    for _ in range(2):
        with pytest.raises(errors.Failed, match=f"^a was not stopped: {text}"):
            driver.stop("a", time_limit=0)
    libvirts.there.down = False
    assert driver.recover("a").startswith("a: it is running on the target")
    assert not driver.stop("a", time_limit=0)
    assert (driver.migrations(), libvirts.there.domains["a"].state) == ({}, RUNS)


def test_a_migration_to_where_an_interrupted_one_took_it_has_nothing_left_to_do(
    libvirts: Libvirts,
    driver: kvm.Driver,
    tmp_path: Path,
) -> None:
    libvirts.there.domains["a"] = Domain()
    note(tmp_path)
    assert not migrate(driver)
    assert driver.migrations() == {}


def test_an_instance_whose_target_was_fenced_is_started_and_its_migration_forgotten(
    libvirts: Libvirts,
    driver: kvm.Driver,
    tmp_path: Path,
) -> None:
    libvirts.there.down = True
    note(tmp_path)
    assert driver.start("a", facts(), runs_nowhere=True)
    assert driver.migrations() == {}


@pytest.mark.parametrize("there", [MOVING, HALTED])
def test_what_the_target_of_a_migration_has_is_not_started_here_whatever_else_is_known(
    libvirts: Libvirts, driver: kvm.Driver, tmp_path: Path, *, there: tuple[int, int]
) -> None:
    libvirts.there.domains["a"] = Domain(there)
    note(tmp_path)
    with pytest.raises(errors.Failed, match=r"^a was not started: it is .* on the target .*, and not here: run "):
        driver.start("a", facts(), runs_nowhere=True)
    assert libvirts.here.domains == {}


@pytest.mark.parametrize(
    ("target", "given", "wanted"),
    [
        ("n2", {}, "--desturi qemu+ssh://root@n2/system?no_tty=1 --tunnelled"),
        (
            "2001:db8::2",
            {"migration_transport": "tcp", "migration_port": "49200", "migration_unsafe": "yes"},
            (
                "--desturi qemu+tcp://[2001:db8::2]/system --unsafe --migrateuri tcp://[2001:db8::2]:49200"
                " --listen-address 2001:db8::2"
            ),
        ),
        (
            "192.0.2.4",
            {"migration_transport": "tls", "migration_bandwidth": "100"},
            (
                "--desturi qemu+tls://192.0.2.4/system --bandwidth 100 --migrateuri tcp://192.0.2.4"
                " --listen-address 192.0.2.4 --tls"
            ),
        ),
        ("n2", {"migration_transport": "tcp"}, "--desturi qemu+tcp://n2/system --migrateuri tcp://n2"),
    ],
)
def test_the_way_of_a_migration_follows_from_its_parameters(target: str, given: dict[str, str], wanted: str) -> None:
    options = kvm_migration.options(target, hvparams.kvm(given))
    assert " ".join(options) == f"--live --p2p --abort-on-error {wanted}"


def test_the_pause_that_is_allowed_is_said_first(libvirts: Libvirts, driver: kvm.Driver) -> None:
    libvirts.here.domains["a"] = one = Domain()
    migrate(driver, migration_downtime="50")
    orders = [call for call in libvirts.calls if call[0].startswith("migrate")]
    assert orders[0] == ("migrate-setmaxdowntime", one.uuid, "50")
    assert orders[1][-1] == one.uuid, "a name of digits would be the number of another domain"


@pytest.mark.parametrize("transport", ["ssh", "tls", "tcp"])
def test_an_address_that_ssh_would_take_for_an_option_is_refused(
    libvirts: Libvirts, driver: kvm.Driver, transport: str
) -> None:
    driver.start("a", facts())
    libvirts.calls.clear()
    with pytest.raises(errors.InvalidInput, match="'-oProxyCommand=id' begins with '-'"):
        driver.migrate("a", "-oProxyCommand=id", hvparams={"migration_transport": transport}, target_lacks=str)
    assert [call[0] for call in libvirts.calls if call[0] == "migrate"] == []
    assert driver.running() == ["a"]
