"""`roundsman-playbook` becomes ansible-playbook; `tests/integration/test_upgrades.py` runs it through upgrades."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest
from ansible_collections.roundsman.cluster.daemon import playbook_program
from ansible_collections.roundsman.cluster.plugins.plugin_utils import installed_version

from tests.unit import other_users

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Became(Exception):
    """The process would be another program now."""


@pytest.mark.parametrize("has_lock", [False, True])
def test_the_lock_of_the_version_is_held_by_the_program_that_it_becomes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, has_lock: bool
) -> None:
    lock = os.open(tmp_path, os.O_RDONLY | os.O_CLOEXEC)

    def become(program: Path, words: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
        assert (program.name, words[1:]) == ("ansible-playbook", ["play.yml"])
        assert environment["PATH"].startswith(f"{Path(sys.executable).parent}:")
        assert os.get_inheritable(lock) is has_lock
        raise Became

    monkeypatch.setattr(sys, "argv", ["roundsman-playbook", "play.yml"])
    monkeypatch.setattr(installed_version, "hold", lambda: lock if has_lock else None)
    monkeypatch.setattr(os, "execve", become)
    with pytest.raises(Became):
        playbook_program.main()
    os.close(lock)


def configuration(monkeypatch: pytest.MonkeyPatch) -> str:
    """The configuration that ansible-playbook would be given."""
    found = list[str]()

    def become(_program: Path, _words: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
        found.append(environment.get("ANSIBLE_CONFIG", ""))
        raise Became

    monkeypatch.setattr(sys, "argv", ["roundsman-playbook", "play.yml"])
    monkeypatch.setattr(installed_version, "hold", lambda: None)
    monkeypatch.setattr(os, "execve", become)
    with pytest.raises(Became):
        playbook_program.main()
    return found[0]


@pytest.fixture
def stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with an `ansible.cfg`; the person's home has none."""
    monkeypatch.delenv("ANSIBLE_CONFIG", raising=False)
    (tmp_path / "home").mkdir()
    (tmp_path / "stand").mkdir(mode=0o755)
    own = tmp_path / "stand/ansible.cfg"
    own.write_text("[defaults]\n")
    own.chmod(0o644)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path / "stand")
    return tmp_path / "stand"


@other_users.only_root
def test_a_configuration_of_another_user_in_the_working_folder_is_not_obeyed(
    stand: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for path in (stand, stand / "ansible.cfg"):
        os.chown(path, 65534, 65534)
    found = Path(configuration(monkeypatch))
    assert found.is_absolute()
    assert found != stand / "ansible.cfg"
    assert found.suffix == ".cfg", "Ansible takes no other"
    assert found.read_bytes() == b"" or found == Path("/etc/ansible/ansible.cfg")
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith(f"this configuration of Ansible is not used: {stand}")


def test_the_own_configuration_in_the_working_folder_counts_and_one_that_is_named_is_left_as_it_is(
    stand: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert configuration(monkeypatch) == str(stand / "ansible.cfg")
    monkeypatch.setenv("ANSIBLE_CONFIG", "~/named.cfg")
    assert configuration(monkeypatch) == "~/named.cfg"
