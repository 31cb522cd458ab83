from __future__ import annotations

import os
from pathlib import Path

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import tree
from ansible_collections.roundsman.cluster.plugins.plugin_utils import ansible_runs

from tests.unit import other_users

MACHINE = Path("/etc/ansible/ansible.cfg")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home of a person who stands in another folder, with an `ansible.cfg` in both."""
    monkeypatch.delenv("ANSIBLE_CONFIG", raising=False)
    for name in ("home", "stand", "run"):
        (tmp_path / name).mkdir()
    for path in (tmp_path / "home/.ansible.cfg", tmp_path / "stand/ansible.cfg"):
        path.write_text("[defaults]\n")
        path.chmod(0o644)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path / "stand")
    return tmp_path / "home"


def chosen(top: Path, *, in_working_folder: bool = False) -> tuple[str, list[str]]:
    said: list[str] = []
    found = ansible_runs.configuration_file(warn=said.append, in_working_folder=in_working_folder)
    return found.replace(str(top), ""), said


def test_the_person_s_own_configuration_counts_and_the_one_of_the_working_folder_only_where_asked_for(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert chosen(home.parent) == ("/home/.ansible.cfg", [])
    assert chosen(home.parent, in_working_folder=True) == ("/stand/ansible.cfg", [])
    monkeypatch.setenv("ANSIBLE_CONFIG", "/elsewhere.cfg")
    assert chosen(home.parent, in_working_folder=True) == ("/elsewhere.cfg", [])


@pytest.mark.skipif(MACHINE.exists(), reason="this machine has a configuration of Ansible")
def test_without_any_configuration_an_empty_one_keeps_ansible_from_looking(home: Path) -> None:
    (home / ".ansible.cfg").unlink()
    assert chosen(home.parent) == (str(ansible_runs.NO_CONFIGURATION), [])
    assert ansible_runs.NO_CONFIGURATION.read_bytes() == b""


@other_users.only_root
def test_a_configuration_that_somebody_else_could_have_written_is_not_used_and_said(home: Path) -> None:
    os.chown(home / ".ansible.cfg", 65534, 65534)
    (home.parent / "stand").chmod(0o777)
    found, said = chosen(home.parent, in_working_folder=True)
    assert found in {str(MACHINE), str(ansible_runs.NO_CONFIGURATION)}
    assert [line.partition(": ")[0] for line in said] == ["this configuration of Ansible is not used"] * 2
    assert "has the mode 0777" in said[0]
    assert "is owned by uid 65534" in said[1]


def test_a_run_stands_where_the_person_does_unless_others_can_put_plugins_there(home: Path) -> None:
    stand, run, said = home.parent / "stand", home.parent / "run", list[str]()
    stand.chmod(0o755)
    assert ansible_runs.working_folder(run, warn=said.append) == stand
    (stand / "shell_plugins").mkdir()
    (stand / "shell_plugins").chmod(0o777)
    assert ansible_runs.working_folder(run, warn=said.append) == run
    (stand / "shell_plugins").rmdir()
    # In a sticky one such as /tmp a stranger can still make the folder of plugins after it was looked for.
    for mode in (0o1777, 0o777):
        stand.chmod(mode)
        assert ansible_runs.working_folder(run, warn=said.append) == run
    assert len(said) == 3


def test_relative_paths_of_the_environment_lead_from_where_the_person_stands(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANSIBLE_CONFIG", "own.cfg")
    monkeypatch.setenv("ANSIBLE_COLLECTIONS_PATH", "collections:/usr/share/ansible/collections")
    assert chosen(home.parent)[0] == "/stand/own.cfg"
    found = ansible_runs.environment(tree.Tree(home))["ANSIBLE_COLLECTIONS_PATH"].split(":")
    assert found[1:] == [str(home.parent / "stand/collections"), "/usr/share/ansible/collections"]
