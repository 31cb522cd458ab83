from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain import errors, power
from ansible_collections.roundsman.cluster.plugins.module_utils.oob import pyghmi_library, rakp, request

if TYPE_CHECKING:
    from pathlib import Path

GOOD = {"name": "node1", "driver": "ipmi", "address": "192.0.2.1", "username": "admin", "password": "s3cret"}


def of_targets(*targets: dict[str, Any]) -> list[request.Wanted]:
    return request.of_options({"targets": list(targets), "credentials_file": None, "nodes": None})


def told(wanted: list[request.Wanted]) -> list[str]:
    return request.ask(
        wanted,
        work=lambda targets: [f"{one.name} tried" for one in targets],
        refuse=lambda name, failure: f"{name}: {failure.reason.value}",
    )


def test_answers_come_in_the_order_asked_for_whoever_gives_them() -> None:
    odd = {**GOOD, "name": "node2", "address": "bmc2.example"}
    wanted = of_targets(odd, GOOD, {**odd, "name": "node3"}, {**GOOD, "name": "node4"})
    assert told(wanted) == ["node2: unconfigured", "node1 tried", "node3: unconfigured", "node4 tried"]


@pytest.mark.parametrize(
    ("wrong", "begins"), [({"driver": "/nowhere/oob"}, "the helper program"), ({"port": 70000}, "70000 is not a port")]
)
def test_what_stands_against_a_node_does_not_name_it_again(wrong: dict[str, object], begins: str) -> None:
    [wanted] = of_targets({**GOOD, **wrong})
    assert wanted.failure is not None
    assert wanted.failure.text.startswith(begins)


def test_the_ones_that_can_be_tried_are_tried_in_one_call() -> None:
    calls: list[list[str]] = []

    def work(targets: list[power.Target]) -> list[None]:
        calls.append([one.name for one in targets])
        return [None for _ in targets]

    wanted = of_targets(GOOD, {**GOOD, "name": "node2"})
    request.ask(wanted, work=work, refuse=lambda _name, _failure: None)
    assert calls == [["node1", "node2"]]


def test_a_request_for_no_node_has_no_answers() -> None:
    assert told(of_targets()) == []


def test_a_node_named_twice_is_refused() -> None:
    with pytest.raises(errors.InvalidInput, match="named twice: node1"):
        of_targets(GOOD, GOOD)


def test_the_library_of_ipmi_missing_is_told_for_the_nodes_that_need_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    helper = tmp_path / "oob"
    helper.touch(mode=0o755)
    monkeypatch.setattr(rakp, "MISSING", "No module named 'cryptography'")
    wanted = of_targets(GOOD, {**GOOD, "name": "node2", "driver": "redfish"}, {"name": "node3", "driver": str(helper)})
    assert told(wanted) == ["node1: driver", "node2 tried", "node3 tried"]


def test_the_library_of_redfish_missing_is_told_for_the_nodes_that_need_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_: str) -> None:
        raise errors.PowerFailed("driver", "no pyghmi here")

    monkeypatch.setattr(pyghmi_library, "load", missing)
    wanted = of_targets(GOOD, {**GOOD, "name": "node2", "driver": "redfish"})
    assert told(wanted) == ["node1 tried", "node2: driver"]


def helper(folder: Path) -> str:
    path = folder / "oob"
    path.touch(mode=0o755)
    return str(path)


def test_a_driver_that_is_given_goes_before_that_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "bmc.json"
    path.touch(mode=0o600)
    path.write_text(json.dumps({"node1": {"address": "192.0.2.1"}, "node2": {"address": "192.0.2.2"}}))
    program = helper(tmp_path)
    chosen = {"node1": "redfish", "node3": program}
    found = request.of_file(str(path), nodes=["node1", "node2", "node3"], chosen=chosen)
    assert [one.target.driver for one in found if one.target] == ["redfish", "ipmi", program]


def test_helper_programs_need_no_credentials_file(tmp_path: Path) -> None:
    path, program = str(tmp_path / "absent.json"), helper(tmp_path)
    (found,) = request.of_file(path, nodes=["node1"], chosen={"node1": program})
    assert found.target is not None
    with pytest.raises(errors.InvalidInput, match="cannot be read"):
        request.of_file(path, nodes=["node1", "node2"], chosen={"node1": program})
