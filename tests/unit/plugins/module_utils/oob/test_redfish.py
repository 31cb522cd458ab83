from __future__ import annotations

import asyncio
import functools
import gzip
import json
import random
import socket
import types
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.power import health, power
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.module_utils.oob import (
    drivers,
    operation,
    redfish,
    redfish_connection,
)

from tests import thoroughness

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


ILO = json.dumps({"error": {"@Message.ExtendedInfo": [{"MessageId": "iLO.2.16.InvalidOperationForSystemState"}]}})


@pytest.mark.parametrize(("state", "confirmed"), [("Off", True), ("On", False)])
@pytest.mark.parametrize(
    ("status", "body"), [(409, refusal("Server is already powered OFF.")), (400, ILO.encode())], ids=["iDRAC", "iLO"]
)
def test_a_fence_that_the_bmc_answers_with_already_off_is_what_is_read_back(
    service: redfish_service.Service, status: int, body: bytes, state: str, *, confirmed: bool
) -> None:
    service.wrong[redfish_service.RESET] = (status, body)
    service.system["PowerState"] = state
    outcome = run(service, power.Command.FENCE)
    assert (outcome.confirmed, outcome.sent, outcome.reason) == (confirmed, True, None if confirmed else "refused")


@pytest.mark.parametrize("command", [power.Command.FENCE, power.Command.CONFIRM_OFF])
@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (401, b"", "auth"),
        (403, refusal("There are insufficient privileges for this."), "auth"),
        (409, refusal("The resource is in use or in transition."), "refused"),
        (500, refusal("Already off, or so it seems."), "refused"),
        (503, b"", "busy"),
    ],
)
def test_a_node_that_reads_off_and_whose_bmc_took_no_off_is_not_fenced(
    service: redfish_service.Service, command: power.Command, status: int, body: bytes, reason: str
) -> None:
    service.wrong[redfish_service.RESET] = (status, body)
    service.system["PowerState"] = "Off"
    outcome = run(service, command)
    assert (outcome.confirmed, outcome.after, outcome.reason) == (False, OFF, reason)


@pytest.mark.parametrize("command", [power.Command.FENCE, power.Command.CONFIRM_OFF])
def test_a_node_that_reads_off_and_whose_bmc_has_no_forced_off_is_not_fenced(
    service: redfish_service.Service, command: power.Command
) -> None:
    service.offered[:] = ["On", "GracefulShutdown"]
    service.system["PowerState"] = "Off"
    outcome = run(service, command)
    assert (outcome.confirmed, outcome.reason, service.resets) == (False, "refused", [])


def test_a_rejected_off_is_not_lost_because_the_session_cannot_be_ended(service: redfish_service.Service) -> None:
    service.wrong[redfish_service.RESET] = (403, b"")
    service.mute.add("DELETE")
    with pytest.raises(errors.PowerFailed) as caught:
        asyncio.run(redfish_connection.Bmc(target(service)).send(power.Command.OFF))
    assert (caught.value.reason, caught.value.answer) == ("auth", "rejected")


@pytest.mark.parametrize("before", ["On", "Off"])
def test_an_off_that_the_bmc_never_answers_fences_nobody(service: redfish_service.Service, before: str) -> None:
    service.mute.add(redfish_service.RESET)
    service.system["PowerState"] = before
    outcome = run(service, power.Command.FENCE)
    assert (outcome.confirmed, outcome.after, set(service.resets)) == (False, OFF, {"ForceOff"})
    assert outcome.text is not None
    assert "accepted no command to power off" in outcome.text


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


@pytest.mark.parametrize("path", [redfish_service.ROOT, "/redfish/v1/Systems", redfish_service.SYSTEM])
def test_an_answer_without_an_end_is_broken_off(service: redfish_service.Service, path: str) -> None:
    service.endless.add(path)
    outcome = run(service, power.Command.OFF)
    assert (outcome.confirmed, outcome.after, outcome.reason, service.resets) == (False, UNKNOWN, "refused", [])
    assert "an answer of more than 2097152 bytes" in (outcome.text or "")
    # What the operating system keeps on its way to a reader counts as taken.
    assert 0 < service.flooded < redfish_service.MOST_FLOODED / 2


def test_many_large_answers_are_no_way_around_the_limit_of_one(service: redfish_service.Service) -> None:
    members = [f"{redfish_service.SYSTEM}/Processors/{number}" for number in range(40)]
    large = {"Status": {"Health": "Critical", "State": "Enabled"}, "Name": "x", "Oem": "y" * 1_500_000}
    service.documents |= dict.fromkeys(members, large)
    service.system |= {
        "Status": {"Health": "Critical"},
        "ProcessorSummary": {"Status": {"HealthRollup": "Critical"}},
        "Processors": {"@odata.id": f"{redfish_service.SYSTEM}/Processors"},
    }
    service.documents[f"{redfish_service.SYSTEM}/Processors"] = {"Members": [{"@odata.id": one} for one in members]}
    [told] = drivers.health([target(service)])
    assert (told.reason, told.status) == ("refused", health.Status.CRITICAL)
    assert "answers of more than 16777216 bytes in all" in (told.text or "")


@pytest.mark.parametrize("size", [2**28, 10])
def test_what_is_packed_is_unpacked_no_further_than_what_is_not(service: redfish_service.Service, size: int) -> None:
    service.headers["Content-Encoding"] = "gzip"
    bodies = {path: json.dumps(one).encode() for path, one in service.documents.items()}
    bodies[redfish_service.SYSTEM] += b" " * size
    service.wrong |= {path: (200, gzip.compress(body)) for path, body in bodies.items()}
    outcome = run(service, power.Command.STATUS)
    assert (outcome.after is ON) is (size == 10)
    assert ("an answer of more than 2097152 bytes" in (outcome.text or "")) is (size != 10)


def test_what_only_claims_to_be_packed_is_read_as_it_is(service: redfish_service.Service) -> None:
    service.headers["Content-Encoding"] = "gzip"
    assert run(service, power.Command.STATUS).after is ON


@pytest.mark.parametrize(
    "body", [b"[" * 100_000, b'{"PowerState":' * 100_000, b'{"PowerState": ' + b"9" * 100_000 + b"}"]
)
@pytest.mark.parametrize("path", [redfish_service.ROOT, redfish_service.SYSTEM])
def test_an_answer_that_no_reader_can_hold_is_refused(service: redfish_service.Service, path: str, body: bytes) -> None:
    service.wrong[path] = (200, body)
    outcome = run(service, power.Command.OFF)
    assert (outcome.after, outcome.reason, service.resets) == (UNKNOWN, "refused", [])


ELSEWHERE = ("https://127.0.79.2:{port}/redfish/v1/Systems/1", "//127.0.79.2:{port}/x", "file:///etc/passwd", "../../x")


@pytest.mark.parametrize("where", ELSEWHERE)
def test_a_bmc_sends_nobody_elsewhere(service: redfish_service.Service, where: str) -> None:
    with socket.create_server(("127.0.79.2", 0)) as other:
        where = where.format(port=other.getsockname()[1])
        service.documents["/redfish/v1/Systems"] = {"Members": [{"@odata.id": where}]}
        assert not run(service, power.Command.OFF).confirmed
        service.documents["/redfish/v1/Systems"] = {"Members": [{"@odata.id": redfish_service.SYSTEM}]}
        service.headers["Location"] = where
        service.wrong[redfish_service.SYSTEM] = (302, b"")
        assert not run(service, power.Command.OFF).confirmed
        drivers.describe([target(service)])
        other.setblocking(False)
        with pytest.raises(BlockingIOError):
            other.accept()
    assert service.resets == []


@pytest.mark.parametrize("told", [{"a": 1}, ["x"] * 1000, 7, "A" * 1_000_000])
def test_what_a_bmc_says_of_itself_is_short_text(service: redfish_service.Service, told: object) -> None:
    service.system |= {"Manufacturer": told, "Model": told}
    service.documents[redfish_service.MANAGER] = {"FirmwareVersion": told}
    [found] = drivers.describe([target(service)])
    for text in (found.identity.manufacturer, found.identity.model, found.identity.firmware):
        assert text is None or (isinstance(text, str) and len(text) <= 200)
    assert (found.identity.model is None) is not isinstance(told, str)


RUBBISH: list[Any] = [
    None,
    True,
    -1,
    1e308,
    "",
    "x\n\x1b[2J",
    "{{ lookup('pipe', 'id') }}",
    "../../../etc/passwd",
    [],
    [[]],
    {},
]


def test_whatever_a_bmc_answers_is_a_verdict(service: redfish_service.Service) -> None:
    chance = random.Random(20261122)

    def spoiled(value: Any) -> Any:
        if chance.random() < 0.12:
            return chance.choice([*RUBBISH, {"@odata.id": chance.choice(RUBBISH)}, {"Members": chance.choice(RUBBISH)}])
        if isinstance(value, dict):
            return {name: spoiled(one) for name, one in value.items()}
        return [spoiled(one) for one in value] if isinstance(value, list) else value

    documents = {**service.documents, redfish_service.SYSTEM: {**service.system, "Status": {"Health": "Critical"}}}
    for _ in range(20 * thoroughness.FACTOR):
        service.documents = spoiled(documents)
        if not isinstance(service.documents, dict):
            continue
        resets = len(service.resets)
        outcome = run(service, power.Command.OFF)
        assert outcome.reason != "driver", (service.documents, outcome)
        assert not outcome.confirmed or len(service.resets) > resets
        [told] = drivers.health([target(service)])
        assert told.reason != "driver", (service.documents, told)
        assert told.status is not health.Status.OK
        [found] = drivers.describe([target(service)])
        assert found.reason != "driver", (service.documents, found)


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
