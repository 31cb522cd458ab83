from __future__ import annotations

import io
import json
import os
import pwd
from typing import TYPE_CHECKING

import argon2
import pytest
from ansible_collections.roundsman.cluster.daemon.cli import client
from ansible_collections.roundsman.cluster.daemon.remote import users
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import tree

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.daemon.cli.conftest import Run


@pytest.fixture
def where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tree.Tree:
    monkeypatch.setenv("ROUNDSMAN_ROOT", str(tmp_path / "root"))
    monkeypatch.setattr(users, "HASHER", argon2.PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))
    found = tree.Tree(tmp_path / "root")
    found.lib.mkdir(parents=True)
    return found


def says(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))


def test_a_change_away_from_the_cluster_of_this_machine_says_which_one_is_meant(
    where: tree.Tree, tmp_path: Path, roundsman: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tree.Tree(tmp_path / "own")
    own.config.parent.mkdir(parents=True)
    own.config.touch()
    monkeypatch.setattr(client, "OWN", own.root)
    says(monkeypatch, "one\n")
    told = f"roundsman: this acts on cluster (name unknown) in {where.root}, because ROUNDSMAN_ROOT is set\n"
    assert roundsman("rapi", "user", "add", "rita") == (0, "", told)
    assert roundsman("rapi", "user", "list")[2] == ""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_users_are_made_listed_changed_and_removed(
    where: tree.Tree, roundsman: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    says(monkeypatch, "one\n")
    assert roundsman("rapi", "user", "add", "rita") == (0, "", "")
    says(monkeypatch, "two\n")
    assert roundsman("rapi", "user", "add", "wim", "--access", "write")[0] == 0
    _, out, _ = roundsman("rapi", "user", "list", "-o", "json")
    assert json.loads(out) == [{"name": "rita", "access": "read"}, {"name": "wim", "access": "write"}]
    says(monkeypatch, "three")
    assert roundsman("rapi", "user", "passwd", "wim")[0] == 0
    assert roundsman("rapi", "user", "remove", "rita")[0] == 0
    _, out, _ = roundsman("rapi", "user", "list")
    assert ("wim" in out, "write" in out, "rita" in out, "$argon2" in out) == (True, True, False, False)
    assert users.HASHER.verify(users.read(where.rapi_users)["wim"].hash, "three")


def test_each_change_of_users_is_in_the_audit_log_without_the_password(
    where: tree.Tree, roundsman: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    where.log.mkdir(parents=True)
    where.audit_log.touch()
    for words in (("add", "rita"), ("passwd", "rita", "--access", "write"), ("remove", "rita"), ("remove", "rita")):
        says(monkeypatch, "secret1\n")
        roundsman("rapi", "user", *words)
    lines = where.audit_log.read_text().splitlines()
    user = f'command user={pwd.getpwuid(os.getuid()).pw_name} uid={os.getuid()} door=command-line text="rapi user '
    assert [line.partition(": ")[2] for line in lines] == [
        user + 'add rita --access read"',
        user + 'passwd rita --access write"',
        user + 'remove rita"',
    ]
    assert "secret1" not in where.audit_log.read_text()


@pytest.mark.usefixtures("where")
def test_what_is_refused_is_one_line_and_changes_nothing(roundsman: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    says(monkeypatch, "\n")
    status, _, err = roundsman("rapi", "user", "add", "rita")
    assert (status, err.count("\n")) == (1, 1)
    assert roundsman("rapi", "user", "remove", "rita")[0] == 1
    assert "nobody is let in" in roundsman("rapi", "user", "list")[1]


def test_at_a_terminal_the_password_is_asked_for_twice(
    where: tree.Tree, roundsman: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal())
    answers = iter(["one", "other", "same", "same"])
    monkeypatch.setattr("getpass.getpass", lambda _prompt: next(answers))
    status, _, err = roundsman("rapi", "user", "add", "rita")
    assert (status, "differ" in err, users.read(where.rapi_users)) == (1, True, {})
    assert roundsman("rapi", "user", "add", "rita")[0] == 0
    assert users.HASHER.verify(users.read(where.rapi_users)["rita"].hash, "same")
