from __future__ import annotations

import contextlib
import json
import os
import signal
import stat
from typing import TYPE_CHECKING

import argon2
import pytest
from ansible_collections.roundsman.cluster.daemon.remote import users
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils import durable_files, sealed_json

from tests.unit import other_users, others_folders

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(users, "HASHER", argon2.PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "rapi/users"
    users.add(found, "rita", password="reads", access=users.Access.READ)
    return found


def test_without_a_file_there_are_no_users(tmp_path: Path) -> None:
    assert users.read(tmp_path / "users") == {}


def test_the_file_holds_names_access_and_hashes_sealed_and_no_password(path: Path) -> None:
    assert "reads" not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) & 0o137 == 0
    document = json.loads(sealed_json.unseal(path.read_bytes()))
    assert document["users"]["rita"]["access"] == "read"
    assert document["users"]["rita"]["hash"].startswith("$argon2id$")


def test_a_user_is_changed_and_removed(path: Path) -> None:
    users.add(path, "wim", password="writes", access=users.Access.WRITE)
    before = users.read(path)
    users.change(path, "rita", password="other", access=None)
    users.change(path, "wim", password="other", access=users.Access.READ)
    after = users.read(path)
    assert {name: one.access.value for name, one in after.items()} == {"rita": "read", "wim": "read"}
    assert users.HASHER.verify(after["rita"].hash, "other")
    assert before["rita"] != after["rita"]
    users.remove(path, "rita")
    assert list(users.read(path)) == ["wim"]


def test_no_user_is_made_twice_nor_changed_when_absent(path: Path) -> None:
    with pytest.raises(errors.Refused, match="already"):
        users.add(path, "rita", password="x", access=users.Access.WRITE)
    with pytest.raises(errors.NotFound, match="wim"):
        users.remove(path, "wim")
    with pytest.raises(errors.NotFound, match="wim"):
        users.change(path, "wim", password="x", access=None)
    assert list(users.read(path)) == ["rita"]


@pytest.mark.parametrize("name", ["", "a:b", "a b", "-a", "a\n", "ü", "a" * 65])
def test_a_name_that_no_header_can_carry_is_refused(path: Path, name: str) -> None:
    with pytest.raises(errors.InvalidInput, match="name"):
        users.add(path, name, password="x", access=users.Access.READ)


@pytest.mark.parametrize("password", ["", "x" * 1025, "a\tb", "\ud800"])
def test_a_password_is_of_printable_characters(path: Path, password: str) -> None:
    with pytest.raises(errors.InvalidInput, match="password"):
        users.add(path, "wim", password=password, access=users.Access.READ)


def test_a_damaged_file_is_never_taken_for_a_right_one(path: Path) -> None:
    right = path.read_bytes()
    known = users.read(path)
    cuts = [right[: len(right) * part // 16] for part in range(16)]
    flips = [right[:at] + bytes([right[at] ^ 4]) + right[at + 1 :] for at in range(0, len(right), 7)]
    for damaged in cuts + flips:
        path.write_bytes(damaged)
        with pytest.raises(errors.StoreFailed, match=f"{path} is damaged"):
            users.read(path)
    path.write_bytes(right)
    assert users.read(path) == known


@pytest.mark.parametrize(
    "user",
    [{"access": "all", "hash": "$argon2id$"}, {"access": "read", "hash": "plain"}, {"access": "read"}],
)
def test_what_is_sealed_and_no_user_is_damage_too(path: Path, user: dict[str, str]) -> None:
    path.write_bytes(sealed_json.seal(json.dumps({"users": {"eve": user}}).encode()))
    with pytest.raises(errors.StoreFailed, match=r"is damaged: users/eve/"):
        users.read(path)


def test_a_damaged_file_is_not_replaced_by_a_change(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-3])
    damaged = path.read_bytes()
    with pytest.raises(errors.StoreFailed):
        users.add(path, "wim", password="x", access=users.Access.READ)
    assert path.read_bytes() == damaged


def test_a_file_that_others_can_read_is_refused(path: Path) -> None:
    path.chmod(0o644)
    with pytest.raises(errors.Refused, match="mode 0644"):
        users.read(path)


@pytest.fixture
def lib() -> Iterator[Path]:
    """The folder of the daemon as root of a machine sees it, `rapi` of the remote API's user in it, and victims."""
    with other_users.open_folder() as place:
        others_folders.make_victims(place / "victims")
        (place / "lib").mkdir()
        users.add(place / "lib/rapi/users", "rita", password="reads", access=users.Access.READ)
        others_folders.give(place / "lib")
        yield place / "lib"


def change_as_root(path: Path) -> None:
    """All that root does with the users, refused or not."""
    with contextlib.suppress(errors.RoundsmanError):
        users.add(path, "wim", password="x", access=users.Access.WRITE)
    with contextlib.suppress(errors.RoundsmanError):
        users.change(path, "rita", password="y", access=None)
    with contextlib.suppress(errors.RoundsmanError):
        users.remove(path, "rita")


@other_users.only_root
def test_what_root_writes_belongs_to_the_owner_of_the_folder(lib: Path) -> None:
    change_as_root(lib / "rapi/users")
    assert list(users.read(lib / "rapi/users")) == ["wim"]
    assert {path.stat().st_uid for path in lib.rglob("*")} == {others_folders.LESSER}


@other_users.only_root
@pytest.mark.parametrize("trap", ["rapi", "rapi/users", "rapi/.users.PID.new"])
def test_no_link_of_the_folders_owner_leads_root_to_another_file(lib: Path, trap: str) -> None:
    victims = lib.parent / "victims"
    before = others_folders.look(victims)
    others_folders.plant(lib / trap.replace("PID", str(os.getpid())), victims)
    change_as_root(lib / "rapi/users")
    assert others_folders.look(victims) == before


@other_users.only_root
def test_a_link_that_is_put_there_between_two_steps_leads_root_nowhere(
    lib: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, victims, swaps = lib / "rapi/users", lib.parent / "victims", 0
    before, sync = others_folders.look(victims), durable_files._sync_names

    def swap(descriptor: int, written: Path) -> None:
        nonlocal swaps
        sync(descriptor, written)
        with other_users.acting_as(others_folders.LESSER):
            others_folders.plant(path, victims)
        swaps += 1

    monkeypatch.setattr(durable_files, "_sync_names", swap)
    change_as_root(path)
    assert others_folders.look(victims) == before
    assert swaps


@other_users.only_root
def test_an_account_that_races_with_root_wins_nothing(lib: Path) -> None:
    path, victims = lib / "rapi/users", lib.parent / "victims"
    before = others_folders.look(victims)
    begun, begin = os.pipe()
    racer = others_folders.start(lambda: race(path, victims / "secret", begin))
    try:
        os.read(begun, 1)
        for number in range(40):
            with contextlib.suppress(errors.RoundsmanError):
                users.add(path, f"wim{number}", password="x", access=users.Access.WRITE)
    finally:
        os.kill(racer, signal.SIGKILL)
        os.waitpid(racer, 0)
        os.close(begun)
        os.close(begin)
    assert others_folders.look(victims) == before


def race(path: Path, victim: Path, begin: int) -> None:
    """Exchange a file for a link to a victim, and back, for ever."""
    os.write(begin, b".")
    kept = path.with_name("kept")
    while True:
        with contextlib.suppress(OSError):
            path.rename(kept)
            path.symlink_to(victim)
            os.sched_yield()
            kept.rename(path)
