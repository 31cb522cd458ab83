from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.daemon.api.asking import Door
from ansible_collections.roundsman.cluster.daemon.jobs import process
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils.opcodes import instance_making as opcodes
from ansible_collections.roundsman.cluster.plugins.plugin_utils.settings import parameters

from tests.unit.daemon.api import reached

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters

    Act = Callable[[reached.Reached], Awaitable[None]]

WEB = {"name": "web1", "disk_template": "drbd", "disks": [{"size": 2048}], "beparams": {"memory": 512, "vcpus": 2}}
NIC = {"link": "br0"}


@pytest.fixture
def local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    return lambda act, **options: reached.reach(tmp_path, monkeypatch, act, is_local=True, **options)


async def ended(one: reached.Reached, method: str, path: str, body: Any = None) -> dict[str, Any]:
    """Ask for a change, and wait for its job."""
    job = (await one.ask(method, path, body)).json()
    assert isinstance(job, int), job
    await one.ask("GET", f"/2/jobs/{job}/wait?timeout=60")
    found: dict[str, Any] = (await one.ask("GET", f"/2/jobs/{job}")).json()
    return found


def current(one: reached.Reached) -> clusters.Cluster:
    return one.running.configuration.current


def test_an_instance_is_reserved_made_and_started_by_one_job(local: Callable[..., None]) -> None:
    async def act(one: reached.Reached) -> None:
        job = await ended(one, "POST", "/2/instances", {**WEB, "nics": [NIC], "tags": ["t"]})
        assert job["status"] == "success"
        kinds = [step["kind"] for step in job["opcodes"]]
        assert kinds == ["instance_reserve", "instance_create", "startup"]
        made = current(one).instance("web1")
        assert (made.disk_template, made.memory, made.vcpus, made.hypervisor) == ("drbd", 512, 2, "fake")
        assert made.tags == ("t",)
        assert made.is_up
        assert made.nics[0].mac.startswith("52:54:00:")
        assert [current(one).node_name(uuid) for uuid in made.nodes] == job["opresult"][0]
        assert [disk.minor for disk in made.disks] == [1]
        assert job["names"][made.uuid] == "web1"

    local(act)


def test_what_broke_off_is_unfinished_and_goes_on_when_it_is_asked_for_again(local: Callable[..., None]) -> None:
    async def act(one: reached.Reached) -> None:
        job = await ended(one, "POST", "/2/instances", WEB)
        assert [step["status"] for step in job["opcodes"]] == ["success", "error", "canceled"]
        made = current(one).instance("web1")
        assert made.is_unfinished
        job = await ended(one, "PUT", "/2/instances/web1/startup")
        assert job["text"].startswith("web1 is unfinished")
        status, told = await one.refused("POST", "/2/instances", {**WEB, "beparams": {"memory": 1024}})
        assert (status, told[:48]) == (409, "web1 is there, unfinished, with another memory, ")
        job = await ended(one, "POST", "/2/instances", WEB)
        assert job["status"] == "success"
        assert [step["kind"] for step in job["opcodes"]] == ["instance_create", "startup"]
        assert current(one).instance("web1").uuid == made.uuid
        assert not current(one).instance("web1").is_unfinished

    local(act, outcomes={"instance_create": "error success"})


def test_an_instance_goes_where_it_is_asked_to_go_and_minors_are_one_in_the_cluster(local: Callable[..., None]) -> None:
    async def act(one: reached.Reached) -> None:
        await ended(one, "POST", "/2/instances", {**WEB, "pnode": "node3", "snode": "node1", "start": False})
        await ended(
            one, "POST", "/2/instances", {**WEB, "name": "web2", "pnode": "node2", "disks": [{"size": 1024}] * 2}
        )
        found = current(one)
        first, second = found.instance("web1"), found.instance("web2")
        assert [found.node_name(uuid) for uuid in first.nodes] == ["node3", "node1"]
        assert found.node_name(second.primary_node) == "node2"
        assert [disk.minor for disk in (*first.disks, *second.disks)] == [1, 2, 3]
        assert (first.admin_state, second.admin_state) == ("down", "up")

    local(act)


def test_a_dry_run_tells_where_it_would_go_and_makes_nothing(local: Callable[..., None]) -> None:
    async def act(one: reached.Reached) -> None:
        job = await ended(one, "POST", "/2/instances?dry-run=1", WEB)
        assert "web1 goes to node" in job["opcodes"][0]["text"]
        assert [each.name for each in current(one).instances.values()] == ["instance1"]

    local(act)


def test_an_instance_is_changed_and_removed(local: Callable[..., None]) -> None:
    async def act(one: reached.Reached) -> None:
        body = {"beparams": {"memory": 1024, "auto_balance": False}, "hvparams": {"migratable": "no"}}
        job = await ended(one, "PUT", "/2/instances/instance1/modify", body)
        assert "auto_balance: true → false" in job["opcodes"][0]["text"]
        made = current(one).instance("instance1")
        assert (made.memory, made.auto_balance, made.hvparams["migratable"]) == (1024, False, "no")
        await ended(one, "PUT", "/2/instances/instance1/modify", {"hvparams": {"migratable": "default"}})
        assert "migratable" not in current(one).instance("instance1").hvparams
        assert (await ended(one, "DELETE", "/2/instances/instance1", {}))["status"] == "success"
        assert current(one).instances == {}

    local(act)


def test_all_that_is_wrong_with_a_new_instance_is_told_at_once(local: Callable[..., None]) -> None:
    async def act(one: reached.Reached) -> None:
        wrong = {**WEB, "name": "a/b", "beparams": {"memory": "x", "vcpus": 0}, "os": "debian", "iallocator": "x"}
        status, told = await one.refused("POST", "/2/instances", wrong)
        assert status == 400
        for part in (
            "os: there is no playbook ",
            "name: 'a/b' is no name of an instance",
            "memory: 'x' is not a whole number",
            "vcpus: 0 is ",
            "iallocator: there is no program 'x'",
        ):
            assert part in told, part
        small = {**WEB, "beparams": {"memory": 4}, "disks": [{"size": 20}], "os": "debian"}
        status, told = await one.refused("POST", "/2/instances", small)
        assert status == 400
        assert "os: there is no playbook " in told
        assert "web1 has no place: " in told
        assert "its policy allows 128 to 32768 MiB of memory and 1024 to 1048576 MiB a disk" in told
        assert [each.name for each in current(one).instances.values()] == ["instance1"]

    local(act)


REFUSED: list[tuple[tuple[str, str, Any], int, str]] = [
    (("POST", "/2/instances", {**WEB, "name": "instance1"}), 400, "name: there is an instance 'instance1' already"),
    (("POST", "/2/instances", {**WEB, "name": "a/b"}), 400, "name: 'a/b' is no name of an instance"),
    (("POST", "/2/instances", {**WEB, "disk_template": "rbd"}), 400, "disk_template: 'rbd' is not one of drbd"),
    (("POST", "/2/instances", {**WEB, "disks": []}), 400, "disks: an instance has some when it is drbd"),
    (("POST", "/2/instances", {**WEB, "disks": [{"size": "x"}]}), 400, "disks: 'x' is not a whole number"),
    (("POST", "/2/instances", {**WEB, "beparams": {"memory": 2**40}}), 409, "web1 has no place: "),
    (("POST", "/2/instances", {**WEB, "beparams": {"colour": 1}}), 400, "beparams: there is no 'colour'"),
    (("POST", "/2/instances", {**WEB, "snode": "node1"}), 400, "snode: name the pnode, too"),
    (("POST", "/2/instances", {**WEB, "group_name": "x"}), 404, "there is no node group 'x'"),
    (("POST", "/2/instances", {**WEB, "iallocator": "x"}), 400, "iallocator: there is no program 'x'"),
    (
        ("POST", "/2/instances", {**WEB, "hvparams": {"migratable": "{{ x }}"}}),
        400,
        "hvparams.migratable: it looks",
    ),
    (("POST", "/2/instances", {**WEB, "hvparams": {"acpi": "x"}}), 400, "hvparams: fake has no parameter 'acpi'"),
    (("POST", "/2/instances", {**WEB, "os": "../x"}), 400, "os: '../x' is no name of a playbook"),
    (("POST", "/2/instances", {**WEB, "os": "debian"}), 400, "os: there is no playbook "),
    (("POST", "/2/instances", {**WEB, "os_playbook": "x.yml"}), 400, "os_playbook: 'x.yml' is no absolute path"),
    (("POST", "/2/instances", {**WEB, "nics": [{"mac": "x"}]}), 400, "nics/0/mac: 'x' is not a MAC address"),
    (("POST", "/2/instances", {**WEB, "nics": [{"mac": ["x"]}]}), 400, "nics/0/mac: ['x'] is not a MAC address"),
    (("PUT", "/2/instances/instance1/modify", {}), 400, "Please pass at least one modification"),
    (("PUT", "/2/instances/instance1/modify", {"beparams": {"memory": 0}}), 400, "memory: 0 is not a whole"),
    (("DELETE", "/2/instances/nothing", {}), 404, "there is no instance 'nothing'"),
    (("GET", "/2/instances/nothing/console", None), 404, "there is no instance 'nothing'"),
]


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> dict[str, AssertionError]:
    return reached.wrong_rows(tmp_path_factory.mktemp("refused"), REFUSED, reached.makes_no_job)


@pytest.mark.parametrize(("asked", "status", "told"), REFUSED)
def test_what_is_not_accepted_makes_no_job(
    refused: dict[str, AssertionError], asked: tuple[str, str, Any], status: int, told: str
) -> None:
    reached.is_right((asked, status, told), refused)


@pytest.mark.parametrize("headers", [{}, {"X-Roundsman-User": "ops"}, {"X-Roundsman-User": ""}])
def test_the_remote_door_takes_no_playbook_by_its_path_whatever_its_headers(
    local: Callable[..., None], tmp_path: Path, headers: dict[str, str]
) -> None:
    playbook = tmp_path / "os.yml"
    playbook.write_text("[]")

    async def act(one: reached.Reached) -> None:
        body = {**WEB, "os_playbook": str(playbook)}
        answer = await one.client.post("/2/instances", json=body, headers=headers)
        assert answer.status_code == 403
        assert answer.json()["detail"].startswith("os_playbook: only root on the controller may set this")
        assert (await one.ask("GET", "/2/jobs")).json() == []

    local(act, door=Door.REMOTE)


def test_root_on_the_controller_names_a_playbook_by_its_path(local: Callable[..., None], tmp_path: Path) -> None:
    playbook = tmp_path / "os.yml"
    playbook.write_text("[]")

    async def act(one: reached.Reached) -> None:
        body = {**WEB, "os_playbook": str(playbook)}
        await ended(one, "POST", "/2/instances", body)
        (spec,) = [each for each in one.twin.specs.values() if each.kind == "instance_create"]
        assert spec.variables["step"]["os_playbook"] == str(playbook)

    local(act)


def test_a_playbook_that_others_could_have_written_is_refused_when_it_is_named_and_when_it_would_run(
    local: Callable[..., None], tmp_path: Path
) -> None:
    folder = tmp_path / "playbooks"
    folder.mkdir()
    playbook = folder / "os.yml"
    playbook.write_text("[]")

    async def act(one: reached.Reached) -> None:
        body = {**WEB, "os_playbook": str(playbook)}
        folder.chmod(0o777)
        status, told = await one.refused("POST", "/2/instances", body)
        assert status == 409
        assert f"{playbook}: {folder} has the mode 0777, so others than its owner can write it" in told
        folder.chmod(0o755)
        current = one.running.configuration.current
        made = opcodes.InstanceCreate(current.instance("instance1").uuid, str(playbook))
        environment = {"ROUNDSMAN_ROOT": str(one.running.where.root)}
        assert process.run_spec(current, made, granted={}, environment=environment).kind == "instance_create"
        playbook.chmod(0o666)
        with pytest.raises(errors.Refused, match=r"os\.yml has the mode 0666, so others than its owner can write it"):
            process.run_spec(current, made, granted={}, environment=environment)

    local(act)


def test_a_console_is_reached_over_ssh(local: Callable[..., None]) -> None:
    async def act(one: reached.Reached) -> None:
        found = (await one.ask("GET", "/2/instances/instance1/console")).json()
        assert (found["kind"], found["message"]) == ("msg", "instance1 is simulated: it has no console")
        configuration = one.running.configuration
        variables = {"ansible_user": "ops", "ansible_port": "222"}
        await configuration.commit(lambda now: parameters.node_modify(now, "node2", {"hostvars": variables}))
        found = (await one.ask("GET", "/2/instances/instance1/console")).json()
        assert (found["user"], found["port"], found["host"]) == ("ops", 222, "127.0.0.1")
        assert found["command"] == ["sudo", "virsh", "--connect", "qemu:///system", "console", "instance1"]

    local(act)


@pytest.mark.parametrize("is_lab", [True, False])
def test_the_simulated_hypervisor_is_for_labs(local: Callable[..., None], *, is_lab: bool) -> None:
    async def act(one: reached.Reached) -> None:
        if not is_lab:
            (one.running.where.root.parent / "lab.json").unlink()
        answer = await one.client.post("/2/instances?dry-run=1", json={**WEB, "hypervisor": "fake"})
        assert (answer.status_code, "fake is for labs" in answer.text) == ((200, False) if is_lab else (409, True))

    local(act)
