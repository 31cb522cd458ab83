"""The collection as Galaxy hands it out: what is in its tarball, and what of it works with ansible-core alone."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
LIBRARIES = ("httpx", "numpy", "orjson", "pydantic", "pyghmi")
BIN = Path(sys.executable).parent
NOT_IN_IT = re.compile(r"(daemon|molecule|tests|plugins/connection|playbooks/collections)/|changelogs/fragments/|\.")
NOT_IN_IT_EITHER = {"Makefile", "constraints.txt", "galaxy.yml", "pyproject.toml"}
MADE = {"FILES.json", "MANIFEST.json"}
PLANTED = (
    *(".testbed/id_ed25519", ".testbed/hmac.key", ".testbed/bmc.json", ".lab/lab/hmac.key", ".env", "hmac.key"),
    *("inventory/hosts.yml", "plugins/modules/id_ed25519", "roles/oob/files/bmc.json", "docs/notes.txt", "dist/a.whl"),
)
"""What lies in the checkouts of people, and no package may have in it."""
CREDENTIALS = {"credentials_file": "/none"}
OF_A_LAB: dict[str, dict[str, Any]] = {
    "drbd_info": {"hypervisor": "fake"},
    "instance_disks": {"instance": "web1", "hypervisor": "fake", "state": "info"},
    "instance_info": {"hypervisor": "fake"},
    "instance_state": {"instance": "web1", "hypervisor": "fake", "state": "stopped"},
}
"""What needs no library either, and says that this host is not one of a lab's."""
WITHOUT_LIBRARIES: dict[str, dict[str, Any]] = {
    "helper_program_info": {"paths": ["/none"]},
    "instances_state": {"instances": [], "state": "stopped"},
    "node_answers": {},
    "oob_info": {"targets": [{"name": "node1", "driver": "{{ folder }}/oob"}]},
    "oob_power": {"targets": [{"name": "node1", "driver": "{{ folder }}/oob"}], "command": "status"},
    "second_copies": {"looks": {}, "records": {}},
}
WITH_LIBRARIES: dict[str, dict[str, Any]] = {
    "cluster_verify": {"targets": [], "paths": [], "looks": {}, **CREDENTIALS},
    "epo": {"all": True},
    "epo_returned": {"nodes": {}},
    "evacuate_node": {"node": "node1"},
    "failover_check": {"instance": {}, "source": {}, "target": {}, "replicated": False},
    "hold": {"nodes": {"n1": "shared"}},
    "power_hold": {"command": "status"},
    "repair_instance": {"name": "web1"},
}
HELPER = "#!/bin/sh\necho '{\"powered\": true}'\n"


def tracked() -> list[str]:
    """The files of this checkout that git tracks and that are there."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [name for name in listed.split("\0") if name and (ROOT / name).exists()]


def copy_checkout(checkout: Path) -> Path:
    """Fill a folder with this checkout and with more than git tracks; returns it."""
    for name in tracked():
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, checkout / name, follow_symlinks=False)
    for name in PLANTED:
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        (checkout / name).write_text("SECRET\n")
    return checkout


@pytest.fixture(scope="module")
def tarball(tmp_path_factory: pytest.TempPathFactory) -> Path:
    checkout, folder = copy_checkout(tmp_path_factory.mktemp("checkout")), tmp_path_factory.mktemp("built")
    galaxy("build", checkout, "--output-path", folder)
    [found] = folder.glob("*.tar.gz")
    return found


def galaxy(*arguments: object) -> None:
    command = [str(BIN / "ansible-galaxy"), "collection", *map(str, arguments)]
    subprocess.run(command, check=True, capture_output=True)


class AnsibleAlone:
    """A Python with ansible-core and the collection from its tarball, and nothing else."""

    def __init__(self, folder: Path, tarball: Path) -> None:
        self.folder, self._collections = folder, folder / "collections"
        # By force: the checkout is installed where the tests run.
        galaxy("install", "--offline", "--force", "-p", self._collections, tarball)
        # Python runs this file at its start: what is None there cannot be imported.
        blocked = f"import sys\nsys.modules.update(dict.fromkeys({LIBRARIES!r}))\n"
        (folder / "sitecustomize.py").write_text(blocked)

    def run(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {
            **os.environ,
            "ANSIBLE_COLLECTIONS_PATH": str(self._collections),
            "ANSIBLE_HOME": str(self.folder / "ansible"),
            "ANSIBLE_NOCOLOR": "1",
            "PYTHONPATH": str(self.folder),
            "ROUNDSMAN_ROOT": str(self.folder / "root"),
        }
        return subprocess.run(
            [str(BIN / program), *arguments],
            env=environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture(scope="module")
def alone(tarball: Path, tmp_path_factory: pytest.TempPathFactory) -> AnsibleAlone:
    return AnsibleAlone(tmp_path_factory.mktemp("alone"), tarball)


def test_the_tarball_has_what_git_tracks_for_users_of_the_collection_and_nothing_else(tarball: Path) -> None:
    with tarfile.open(tarball) as opened:
        names = {member.name for member in opened.getmembers() if member.isfile()}

    wanted = {name for name in tracked() if not NOT_IN_IT.match(name)} - NOT_IN_IT_EITHER
    assert names - wanted == MADE
    assert wanted - names == set()


@pytest.mark.slow
def test_modules_that_need_no_library_work_and_the_others_say_in_one_line_what_to_install(alone: AnsibleAlone) -> None:
    helper = alone.folder / "oob"
    helper.write_text(HELPER)
    helper.chmod(0o755)
    every = {**OF_A_LAB, **WITHOUT_LIBRARIES, **WITH_LIBRARIES}
    tasks: list[dict[str, Any]] = [
        {f"roundsman.cluster.{name}": options, "register": name, "ignore_errors": True}
        for name, options in every.items()
    ]
    told = ", ".join(f"'{name}': {name}" for name in every)
    kept = {"content": "{{ {" + told + "} | to_json }}", "dest": "{{ folder }}/told.json"}
    tasks.append({"ansible.builtin.copy": kept})
    variables = {"folder": str(alone.folder), "roundsman_root": str(alone.folder / "root")}
    variables["ansible_python_interpreter"] = sys.executable
    play = {"hosts": "localhost", "gather_facts": False, "vars": variables, "tasks": tasks}
    (alone.folder / "play.yml").write_text(json.dumps([play]))
    (alone.folder / "root").mkdir()

    ended = alone.run("ansible-playbook", "-i", "localhost,", "-c", "local", "play.yml")

    assert "Traceback" not in ended.stdout + ended.stderr
    assert ended.returncode == 0, ended.stdout + ended.stderr
    results = json.loads((alone.folder / "told.json").read_text())
    assert {name: results[name].get("msg") for name in WITHOUT_LIBRARIES if results[name].get("failed")} == {}
    assert {name for name in OF_A_LAB if "is for the nodes of a lab" not in results[name]["msg"]} == set()
    expected = "the controller's Python has no httpx, numpy, orjson, pydantic: run `"
    for name in WITH_LIBRARIES:
        text = results[name]["msg"]
        assert expected in text, name
        assert "\n" not in text
        command, requirements = text.partition(expected)[2].rstrip("`").split(" -m pip install --requirement ")
        assert Path(command).is_file()
        assert Path(requirements).is_file()


@pytest.mark.slow
def test_the_inventory_says_what_to_install(alone: AnsibleAlone) -> None:
    (alone.folder / "roundsman.yml").write_text("plugin: roundsman.cluster.cluster\n")

    ended = alone.run("ansible-inventory", "-i", "roundsman.yml", "--list")

    assert "Traceback" not in ended.stderr
    assert "the controller's Python has no httpx, numpy, orjson, pydantic: run `" in ended.stderr


@pytest.mark.slow
def test_a_bmc_that_needs_a_library_is_reported_with_what_to_install(alone: AnsibleAlone) -> None:
    targets = {"targets": [{"name": "node1", "driver": "redfish", "address": "192.0.2.1"}]}
    ended = alone.run("ansible", "localhost", "-m", "roundsman.cluster.oob_info", "-a", json.dumps(targets))

    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "-m pip install pyghmi`" in ended.stdout
