from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.module_utils.hypervisor import stepping

from .libvirt_twin import HALTED, Domain, Libvirts, facts

if TYPE_CHECKING:
    from ansible_collections.roundsman.cluster.plugins.module_utils.hypervisor import kvm


def make(driver: kvm.Driver, *, starts: bool, only_looks: bool = False, **given: Any) -> stepping.Made:
    limit = given.pop("limit", None)
    return stepping.make(driver, "a", facts(**given), starts=starts, only_looks=only_looks, limit=limit)


@pytest.mark.usefixtures("libvirts")
def test_what_a_look_promises_is_what_happens(driver: kvm.Driver) -> None:
    for starts in (True, False):
        promised = [make(driver, starts=starts, only_looks=True) for _ in range(2)]
        assert promised[0] == promised[1] == make(driver, starts=starts)
        assert promised[0].changed
        again = make(driver, starts=starts, only_looks=True)
        assert (again.changed, make(driver, starts=starts).changed) == (False, False)


def test_what_is_halted_is_refused_by_a_look_too_and_can_be_stopped(libvirts: Libvirts, driver: kvm.Driver) -> None:
    libvirts.here.domains["a"] = Domain(HALTED)
    for only_looks in (True, False):
        with pytest.raises(errors.Failed, match="a is here already, paused after an I/O error"):
            make(driver, starts=True, only_looks=only_looks)
    assert make(driver, starts=False, only_looks=True).before == "paused after an I/O error of a disk"
    assert make(driver, starts=False).changed


@pytest.mark.parametrize(
    ("given", "seconds"),
    [({}, 120), ({"hvparams": {"shutdown_timeout": "7"}}, 7), ({"hvparams": {"shutdown_timeout": 7}, "limit": 3.0}, 3)],
)
def test_a_soft_stop_has_the_time_that_is_set(
    libvirts: Libvirts, driver: kvm.Driver, given: dict[str, Any], seconds: float
) -> None:
    libvirts.here.domains["a"] = Domain(hears=False)
    make(driver, starts=False, **given)
    assert libvirts.clock.now == seconds


@pytest.mark.parametrize(
    ("starts", "given", "told"),
    [
        (True, {}, {"runs_nowhere": False}),
        (True, {"runs_nowhere": True}, {"runs_nowhere": True}),
        (False, {"limit": 3.0}, {"time_limit": 3.0, "only_here": False}),
        (False, {"limit": 3.0, "only_here": True}, {"time_limit": 3.0, "only_here": True}),
    ],
)
def test_the_driver_is_told_what_is_known_of_other_nodes(
    driver: kvm.Driver, monkeypatch: pytest.MonkeyPatch, *, starts: bool, given: dict[str, Any], told: dict[str, Any]
) -> None:
    seen: list[dict[str, Any]] = []
    monkeypatch.setattr(driver, "start" if starts else "stop", lambda *_, **options: seen.append(options))
    monkeypatch.setattr(driver, "states", lambda: {"a": "running"} if starts else {})
    make(driver, starts=starts, **given)
    assert seen == [told]


def test_an_instance_that_ends_at_once_was_not_started(
    libvirts: Libvirts, driver: kvm.Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.unit.plugins.module_utils.hypervisor.libvirt_twin.Client._create", lambda *_: "")
    with pytest.raises(errors.Unconfirmed, match=r"^a was to be started, and is not here$"):
        make(driver, starts=True)
