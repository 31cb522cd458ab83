from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.module_utils.oob import pyghmi_library, rakp, request

from tests.unit import other_users

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ansible_collections.roundsman.cluster.plugins.module_utils.domain.power import power

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
    (folder / request.HELPERS).mkdir()
    path = folder / request.HELPERS / "oob"
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


@pytest.fixture
def machine() -> Iterator[Path]:
    """A root with `opt/oob`, which belongs to root and is in no folder of helper programs."""
    with other_users.open_folder() as root:
        for folder in ("etc", "etc/oob-programs", "opt"):
            (root / folder).mkdir(mode=0o755)
        (root / "opt/oob").touch(mode=0o755)
        yield root


def asked_of(root: Path, program: Path) -> str:
    [wanted] = request.of_file(str(root / "etc/bmc.json"), nodes=["node2"], chosen={"node2": str(program)})
    return "" if wanted.failure is None else wanted.failure.text


@other_users.only_root
def test_root_runs_only_a_helper_program_that_root_put_or_linked_into_the_folder(machine: Path) -> None:
    program, folder = machine / "opt/oob", machine / "etc/oob-programs"
    refused = (
        f"the helper program {program} is not run by root, because neither it nor a link to it is in {folder}: "
        f"`ln -s {program} {folder}/`"
    )
    assert asked_of(machine, program) == refused
    (folder / "another").touch(mode=0o755)
    assert (asked_of(machine, program), asked_of(machine, folder / "another")) == (refused, "")
    (folder / "site").symlink_to(program)
    assert (asked_of(machine, program), asked_of(machine, folder / "site")) == ("", "")


@other_users.only_root
def test_a_driver_of_the_credentials_file_which_is_not_root_s_is_no_choice_of_root_either(machine: Path) -> None:
    credentials = machine / "etc/bmc.json"
    credentials.write_text(json.dumps({"node2": {"driver": str(machine / "opt/oob")}}))
    credentials.chmod(0o600)
    os.chown(credentials, other_users.DAEMON, other_users.DAEMON)
    [wanted] = request.of_file(str(credentials), nodes=["node2"])
    assert wanted.failure is not None
    assert "is not run by root" in wanted.failure.text


@other_users.only_root
def test_a_link_of_root_s_through_a_folder_of_somebody_else_lists_nothing(machine: Path) -> None:
    program = machine / "opt/oob"
    (machine / "home").mkdir()
    (machine / "home/oob").symlink_to(program)
    (machine / "etc/oob-programs/site").symlink_to(machine / "home/oob")
    assert asked_of(machine, program) == ""
    os.chown(machine / "home", other_users.DAEMON, other_users.DAEMON)
    assert "is not run by root" in asked_of(machine, program)


@other_users.only_root
def test_a_folder_of_somebody_else_lists_nothing_and_an_absent_one_neither(machine: Path) -> None:
    program, folder = machine / "opt/oob", machine / "etc/oob-programs"
    (folder / "oob").symlink_to(program)
    os.chown(folder, other_users.DAEMON, other_users.DAEMON)
    assert asked_of(machine, program).startswith(f"the folder of helper programs {folder} is owned by uid")
    (folder / "oob").unlink()
    folder.rmdir()
    assert "is not run by root" in asked_of(machine, program)


@other_users.only_root
def test_the_daemon_s_user_runs_what_it_could_run_anyhow(machine: Path) -> None:
    with other_users.acting_as(other_users.DAEMON):
        assert asked_of(machine, machine / "opt/oob") == ""
