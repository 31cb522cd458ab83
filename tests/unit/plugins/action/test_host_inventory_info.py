from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure
from ansible.template import trust_as_template
from ansible_collections.roundsman.cluster.plugins.plugin_utils.adoption import adopted_hosts

from .running import Modules

if TYPE_CHECKING:
    from pathlib import Path

    from .running import Controller

SEEN: dict[str, Any] = {"hostname": "h1", "libvirt": {"memory": 1}, "storage": {"disk": 2}}
VARIABLES = {
    "inventory_hostname": "host1",
    "ansible_play_hosts_all": ["host0", "host1"],
    "ansible_user": trust_as_template("{{ ['o', 'ps'] | join }}"),
    "ansible_password": "secret",
    "ansible_become_pass": "secret",
}


def ask(controller: Controller, folder: Path, *, is_check: bool = False, **variables: Any) -> dict[str, Any]:
    given = {**VARIABLES, **variables}
    return controller.run("host_inventory_info", is_check=is_check, variables=given, folder=str(folder))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "adopted").mkdir()
    return tmp_path / "adopted"


def told(folder: Path) -> Any:
    (file,) = folder.iterdir()
    assert file.name == "host1.json"
    return json.loads(file.read_bytes())


def test_what_a_host_has_and_how_it_is_reached_is_kept_without_passwords(
    controller: Controller, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    modules = Modules(monkeypatch, lambda _: {"changed": False, **SEEN, "ansible_facts": {"ansible_user": "evil"}})
    result = ask(controller, folder, is_check=True)
    assert (result, list(folder.iterdir())) == ({"changed": False, **SEEN}, [])
    assert ask(controller, folder) == result
    assert modules.calls[0]["file_dir"] == "/var/lib/roundsman/disks"
    assert told(folder) == {"name": "host1", "place": 1, "variables": {"ansible_user": "ops"}, "seen": SEEN}


@pytest.mark.parametrize("answer", [{}, {"hostname": "h1", "libvirt": {}}, {**SEEN, "storage": None}])
def test_an_answer_with_parts_missing_leaves_a_host_that_is_left_out_with_its_reason(
    controller: Controller, monkeypatch: pytest.MonkeyPatch, folder: Path, answer: dict[str, Any]
) -> None:
    Modules(monkeypatch, lambda _: answer)
    ask(controller, folder)
    host = adopted_hosts.Host("host1", seen=told(folder)["seen"])
    assert adopted_hosts.problems([host])


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ({"failed": True, "msg": "no libvirt\x1b[2J"}, "no libvirt\\x1b[2J"),
        ({"failed": True}, "the module failed"),
        ({**SEEN, "storage": ["x"]}, "host_inventory_info: the answer of the module is not as documented"),
        (["x"], "Module result deserialization failed"),
    ],
)
def test_why_a_host_could_not_be_read_is_kept(
    controller: Controller, monkeypatch: pytest.MonkeyPatch, folder: Path, answer: object, problem: str
) -> None:
    Modules(monkeypatch, lambda _: answer)
    assert ask(controller, folder)["failed"]
    assert told(folder)["problem"].startswith(problem)
    assert "seen" not in told(folder)


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (AnsibleConnectionFailure("no route"), "cannot be reached: no route"),
        (
            AnsibleActionFail("roundsman_reach_seconds must be a number\x1b"),
            "roundsman_reach_seconds must be a number\\x1b",
        ),
    ],
)
def test_a_host_that_cannot_be_asked_is_kept_with_its_reason(
    controller: Controller, monkeypatch: pytest.MonkeyPatch, folder: Path, error: Exception, problem: str
) -> None:
    def fail(_: object) -> object:
        raise error

    Modules(monkeypatch, fail)
    with pytest.raises(type(error)):
        ask(controller, folder)
    assert told(folder)["problem"] == problem


@pytest.mark.parametrize("name", ["../host1", ".host1", "a/b", "/tmp/x"])
def test_a_name_that_is_no_file_name_is_refused(
    controller: Controller, monkeypatch: pytest.MonkeyPatch, folder: Path, name: str
) -> None:
    Modules(monkeypatch, lambda _: SEEN)
    with pytest.raises(AnsibleActionFail, match="the host name cannot be a file name"):
        ask(controller, folder, inventory_hostname=name, ansible_play_hosts_all=[name])
    assert list(folder.iterdir()) == []
