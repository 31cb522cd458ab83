from __future__ import annotations

import functools
import json
import types
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain import errors, power
from ansible_collections.roundsman.cluster.plugins.module_utils.oob import drivers, operation, redfish

from . import redfish_service

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ON, OFF, UNKNOWN = power.State.ON, power.State.OFF, power.State.UNKNOWN
LEAP = 25.0


class Clock:
    """Goes on with each pause alone, and far: no reading is late, and nobody waits."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += max(seconds, LEAP)


@pytest.fixture(autouse=True)
def _pauses_take_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of an operation, that is: the deadline at which its process is ended is real."""
    clock = Clock()
    leaping = functools.partial(operation.Operation, clock=clock, sleep=clock.sleep)
    monkeypatch.setattr(operation, "Operation", leaping)
    monkeypatch.setattr(redfish, "time", types.SimpleNamespace(monotonic=clock))


@pytest.fixture
def service(tmp_path: Path) -> Iterator[redfish_service.Service]:
    with redfish_service.running(tmp_path) as one:
        yield one


def target(service: redfish_service.Service, **changes: Any) -> power.Target:
    known = {"address": redfish_service.ADDRESS, "port": service.port, "certificate": "any", **changes}
    return power.Target(name="node1", driver="redfish", username="admin", password="s3cret", **known)


def run(service: redfish_service.Service, command: power.Command, *, deadline: float = 60.0) -> power.Outcome:
    [outcome] = drivers.run([target(service)], command=command, deadline=deadline)
    return outcome


def refusal(*messages: str) -> bytes:
    info = [{"MessageId": "Base.1.0.GeneralError", "Message": one} for one in messages]
    return json.dumps({"error": {"@Message.ExtendedInfo": info}}).encode()


def test_a_node_is_switched_off_by_force_and_read_back(service: redfish_service.Service) -> None:
    outcome = run(service, power.Command.OFF)
    assert (outcome.confirmed, outcome.after, service.resets) == (True, OFF, ["ForceOff"])


@pytest.mark.parametrize(
    ("command", "offered", "chosen"),
    [
        (power.Command.CYCLE, ["ForceRestart", "PowerCycle"], ["PowerCycle"]),
        (power.Command.CYCLE, ["ForceRestart"], ["ForceRestart"]),
        (power.Command.SOFT_OFF, ["ForceOff", "GracefulShutdown"], ["GracefulShutdown"]),
        (power.Command.SOFT_OFF, ["ForceOff"], []),
        (power.Command.OFF, ["GracefulShutdown"], []),
    ],
)
def test_a_reset_is_one_that_the_bmc_has_and_never_a_harder_one(
    service: redfish_service.Service, command: power.Command, offered: list[str], chosen: list[str]
) -> None:
    service.offered[:] = offered
    outcome = run(service, command)
    assert service.resets == chosen
    assert chosen or outcome.reason == "refused"


def test_a_bmc_that_does_not_say_which_resets_it_has_is_asked_for_the_first(service: redfish_service.Service) -> None:
    del service.system["Actions"]["#ComputerSystem.Reset"][redfish_service.OFFERED]
    assert (run(service, power.Command.OFF).confirmed, service.resets) == (True, ["ForceOff"])


def test_a_bmc_that_says_yes_and_does_nothing_is_not_off(service: redfish_service.Service) -> None:
    service.follows = False
    outcome = run(service, power.Command.OFF)
    assert (outcome.confirmed, outcome.after, outcome.reason) == (False, ON, "not_off")


def test_a_cycle_that_nothing_comes_of_is_sent_once(service: redfish_service.Service) -> None:
    service.follows = False
    outcome = run(service, power.Command.CYCLE)
    assert (outcome.reason, service.resets) == ("unconfirmed", ["ForceRestart"])


@pytest.mark.parametrize(
    ("path", "status", "body", "reason"),
    [
        (redfish_service.SYSTEM, 503, b"", "busy"),
        (redfish_service.SYSTEM, 500, refusal("The request failed due to an internal service error."), "refused"),
        (redfish_service.SYSTEM, 403, refusal("There are insufficient privileges for this."), "auth"),
        (redfish_service.RESET, 400, refusal("The value is not in the list of acceptable values."), "refused"),
        (redfish_service.RESET, 503, b"", "busy"),
        (redfish_service.SYSTEM, 200, b"no json", "refused"),
        (redfish_service.SYSTEM, 200, b"[]", "refused"),
        (redfish_service.SYSTEM, 200, b"null", "refused"),
        ("/redfish/v1/Systems", 503, b"", "busy"),
        (redfish_service.ROOT, 503, b"", "busy"),
        (redfish_service.SESSIONS, 401, b"", "auth"),
        (redfish_service.ROOT, 404, b"{}", "refused"),
    ],
)
def test_an_answer_that_is_none_leaves_the_node_unconfirmed_with_a_reason(
    service: redfish_service.Service, path: str, status: int, body: bytes, reason: str
) -> None:
    service.wrong[path] = (status, body)
    outcome = run(service, power.Command.OFF)
    assert (outcome.confirmed, outcome.reason, service.resets) == (False, reason, [])


@pytest.mark.parametrize("told", ["PoweringOff", "Paused", None, 1])
def test_a_state_that_is_neither_on_nor_off_is_unknown(service: redfish_service.Service, told: object) -> None:
    service.system["PowerState"] = told
    outcome = run(service, power.Command.OFF)
    assert (outcome.after, outcome.sent, outcome.reason) == (UNKNOWN, False, "busy")


def test_every_session_is_given_back(service: redfish_service.Service) -> None:
    run(service, power.Command.OFF)
    drivers.health([target(service)])
    drivers.describe([target(service)])
    assert (service.opened, service.sessions) == (3, set())


def test_what_a_bmc_takes_are_the_resets_that_it_has_a_word_for(service: redfish_service.Service) -> None:
    [told] = drivers.describe([target(service)])
    assert told.supports == ("status", "on", "off", "cycle", "health")
    assert (told.identity.manufacturer, told.identity.model, told.identity.firmware) == ("Acme", "A1", "2.71")


def test_many_bmcs_are_served_side_by_side_in_the_order_asked_for(service: redfish_service.Service) -> None:
    targets = [target(service), power.Target(name="node0", driver="redfish", address="127.0.79.9", port=9)]
    outcomes = drivers.run(targets, command=power.Command.STATUS, deadline=60.0)
    assert [(one.name, one.confirmed, one.reason) for one in outcomes] == [
        ("node1", True, None),
        ("node0", False, "unreachable"),
    ]


@pytest.mark.parametrize(
    "wrong",
    [
        {"address": "bmc1.example"},
        {"certificate": "sha256:1234"},
        {"certificate": "none"},
        {"certificate": "sha256:" + "g" * 64},
    ],
)
def test_a_target_that_redfish_cannot_use_is_refused_first(wrong: dict[str, str]) -> None:
    known = {"name": "node1", "driver": "redfish", "address": "192.0.2.1", **wrong}
    with pytest.raises(errors.InvalidInput, match="node1: "):
        redfish.check(power.Target(**known))  # type: ignore[arg-type]
