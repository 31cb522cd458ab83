from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.module_utils.hypervisor import loads

from .libvirt_twin import HALTED, MOVING, OFF, RUNS, UUID, Domain, Libvirts, by_hand, facts
from .test_kvm_migration import note

if TYPE_CHECKING:
    from pathlib import Path

    from ansible_collections.roundsman.cluster.plugins.module_utils.hypervisor import kvm


def test_an_instance_is_started_once_and_from_its_facts(libvirts: Libvirts, driver: kvm.Driver) -> None:
    assert driver.start("a", facts())
    assert "/dev/x" in libvirts.here.domains["a"].xml
    assert libvirts.here.domains["a"].uuid == UUID
    assert not driver.start("a", facts())
    assert (driver.running(), driver.states()) == (["a"], {"a": "running"})


def test_what_is_halted_half_made_or_off_does_not_run(libvirts: Libvirts, driver: kvm.Driver) -> None:
    libvirts.here.domains |= {name: Domain(state) for name, state in (("b", HALTED), ("c", MOVING), ("d", OFF))}
    assert driver.running() == []
    assert driver.states() == {"b": "paused after an I/O error of a disk", "c": "in migration"}


@pytest.mark.parametrize(("state", "text"), [(HALTED, "paused after an I/O error"), (MOVING, "in migration")])
def test_what_is_here_and_does_not_run_is_not_started(
    libvirts: Libvirts, driver: kvm.Driver, state: tuple[int, int], text: str
) -> None:
    libvirts.here.domains["a"] = Domain(state)
    with pytest.raises(errors.Failed, match=f"^a is here already, {text}"):
        driver.start("a", facts())


def test_a_definition_that_was_left_is_kept_in_a_file_and_dropped(
    libvirts: Libvirts, driver: kvm.Driver, tmp_path: Path
) -> None:
    libvirts.here.domains["a"] = Domain(OFF, defined=True, xml="<domain/>")
    driver.start("a", facts())
    assert (tmp_path / "var/lib/roundsman/definitions/a.xml").read_text() == "<domain/>"
    assert not libvirts.here.domains["a"].defined


def test_a_definition_that_cannot_be_kept_stays(libvirts: Libvirts, driver: kvm.Driver, tmp_path: Path) -> None:
    libvirts.here.domains["a"] = Domain(OFF, defined=True)
    (tmp_path / "var").touch()
    with pytest.raises(errors.StoreFailed, match=r"the definition of a stays"):
        driver.start("a", facts())
    assert libvirts.here.domains["a"].defined


def test_a_soft_stop_is_enough_for_who_hears_it(libvirts: Libvirts, driver: kvm.Driver) -> None:
    driver.start("a", facts())
    assert driver.stop("a", time_limit=60)
    assert not [call for call in libvirts.calls if call[0] == "destroy"]
    assert libvirts.clock.now < 60
    assert (libvirts.here.domains, driver.stop("a", time_limit=60)) == ({}, False)


@pytest.mark.parametrize(("domain", "took"), [(Domain(hears=False), 60), (Domain(HALTED), 0), (Domain(hears=False), 0)])
def test_a_hard_stop_comes_at_the_limit_and_at_once_for_who_cannot_hear(
    libvirts: Libvirts, driver: kvm.Driver, domain: Domain, took: float
) -> None:
    libvirts.here.domains["a"] = domain
    assert driver.stop("a", time_limit=60 if took or domain.state == HALTED else 0)
    assert (libvirts.here.domains, libvirts.clock.now) == ({}, took)


def test_a_definition_does_not_outlive_a_stop(libvirts: Libvirts, driver: kvm.Driver) -> None:
    libvirts.here.domains["a"] = Domain(hears=False, defined=True)
    driver.stop("a", time_limit=0)
    assert libvirts.here.domains == {}


def test_what_cannot_be_ended_is_told_as_still_here(libvirts: Libvirts, driver: kvm.Driver) -> None:
    libvirts.here.domains["a"] = Domain(dies=False)
    with pytest.raises(errors.Failed, match=r"^a could not be ended and is still here: .*Device or resource busy"):
        driver.stop("a", time_limit=0)


def test_what_has_ended_meanwhile_is_stopped(
    libvirts: Libvirts, driver: kvm.Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    libvirts.here.domains["a"] = Domain(HALTED)
    monkeypatch.setattr("tests.unit.plugins.module_utils.hypervisor.libvirt_twin.Client._destroy", gone_already)
    assert driver.stop("a", time_limit=0)


def gone_already(_client: object, host: Any, _options: object, _given: str) -> None:
    host.domains.clear()
    raise errors.Failed("virsh destroy: failed to get domain")


def test_what_arrives_from_elsewhere_is_not_ended(libvirts: Libvirts, driver: kvm.Driver) -> None:
    libvirts.here.domains["a"] = Domain(MOVING)
    with pytest.raises(errors.Failed, match=r"^a arrives here from another node, or was left half-way") as refused:
        driver.stop("a", time_limit=0)
    assert list(libvirts.here.domains) == ["a"]

    assert by_hand(refused.value) == [["domjobabort", "a"], ["destroy", "a"]]
    libvirts.here.domains.clear()
    assert not driver.stop("a", time_limit=0)


def test_what_leaves_and_shall_be_stopped_is_held_back_first(libvirts: Libvirts, driver: kvm.Driver) -> None:
    libvirts.here.domains["a"] = Domain(hears=False)
    libvirts.seconds = 10**9
    libvirts.begin("a")
    assert driver.stop("a", time_limit=0)
    assert (libvirts.here.domains, libvirts.there.domains) == ({}, {})


@pytest.mark.parametrize(("there", "is_down"), [(RUNS, False), (None, True), (MOVING, False), (HALTED, False)], ids=str)
def test_what_an_interrupted_migration_took_away_is_stopped_here_if_its_start_looks_on_both_nodes(
    libvirts: Libvirts, driver: kvm.Driver, tmp_path: Path, *, there: tuple[int, int] | None, is_down: bool
) -> None:
    libvirts.there.domains |= {"a": Domain(there)} if there else {}
    libvirts.there.down = is_down
    note(tmp_path)
    with pytest.raises(errors.Failed, match=r"^a was not stopped: "):
        driver.stop("a", time_limit=0)
    assert not driver.stop("a", time_limit=0, only_here=True)
    assert list(driver.migrations()) == ["a"], "where it ran last is still to be recorded"
    assert len(libvirts.there.domains) == (1 if there else 0)


@pytest.mark.parametrize("has_left", [True, False])
def test_what_is_half_way_here_is_ended_only_if_its_start_looks_on_both_nodes(
    libvirts: Libvirts, driver: kvm.Driver, tmp_path: Path, *, has_left: bool
) -> None:
    libvirts.here.domains["a"], libvirts.there.down = Domain(MOVING), True
    if has_left:
        note(tmp_path)
    with pytest.raises(errors.Failed, match="left half-way"):
        driver.stop("a", time_limit=0)
    assert driver.stop("a", time_limit=0, only_here=True)
    assert libvirts.here.domains == {}
    assert list(driver.migrations()) == (["a"] if has_left else []), "where it ran last is still to be recorded"


def test_a_migration_that_cannot_be_aborted_is_ended_with_its_guest_only_if_its_start_looks_on_both_nodes(
    libvirts: Libvirts, driver: kvm.Driver, tmp_path: Path
) -> None:
    libvirts.here.domains["a"] = Domain(hears=False)
    libvirts.seconds = 10**9
    libvirts.begin("a")
    note(tmp_path)
    libvirts.here.fails["domjobabort"] = "Timed out during operation: cannot acquire state change lock"
    with pytest.raises(errors.Failed):
        driver.stop("a", time_limit=0)
    assert libvirts.here.domains
    assert driver.stop("a", time_limit=0, only_here=True)
    assert libvirts.here.domains == {}


def test_memory_vcpus_and_load_are_told(libvirts: Libvirts, driver: kvm.Driver) -> None:
    libvirts.here.domains |= {"a": Domain(), "off": Domain(OFF)}
    assert driver.facts() == {"a": {"memory": 16, "vcpus": 1, "cpu_seconds": 0.0}}
    assert loads.measured(driver, seconds=2) == {"a": {"memory": 16, "vcpus": 1, "cpu_seconds": 1.0, "load": 0.5}}
    assert "load" not in loads.measured(driver, seconds=0)["a"]


def test_a_silent_libvirt_is_a_failure_and_no_empty_node(libvirts: Libvirts, driver: kvm.Driver) -> None:
    libvirts.here.down = True
    for ask in (driver.running, driver.states, lambda: driver.stop("a", time_limit=0), lambda: driver.recover("a")):
        with pytest.raises(errors.Failed, match=r"failed to connect to the hypervisor"):
            ask()


XML = """<domain type='kvm'><devices><disk device='disk'/><emulator>{emulator}</emulator>
<interface type='ethernet'><script path='{script}'/></interface></devices></domain>"""


@pytest.mark.parametrize("open_to_others", ["emulator", "script", ""])
def test_an_adopted_definition_names_no_program_that_others_could_have_written(
    libvirts: Libvirts, driver: kvm.Driver, tmp_path: Path, open_to_others: str
) -> None:
    for name in ("emulator", "script"):
        (tmp_path / name).touch()
        (tmp_path / name).chmod(0o777 if name == open_to_others else 0o755)
    xml = XML.format(emulator=tmp_path / "emulator", script=tmp_path / "script")
    given = facts(hvparams={"domain_xml": xml})
    if not open_to_others:
        assert driver.start("a", given)
        return
    with pytest.raises(errors.InvalidInput, match=f"a: its definition names .*{open_to_others} has the mode 0777"):
        driver.start("a", given)
    assert libvirts.here.domains == {}


def test_a_program_that_is_missing_is_libvirt_s_to_tell(libvirts: Libvirts, driver: kvm.Driver) -> None:
    xml = XML.format(emulator="/nowhere/qemu", script="")
    assert driver.start("a", facts(hvparams={"domain_xml": xml}))
    assert "/nowhere/qemu" in libvirts.here.domains["a"].xml
