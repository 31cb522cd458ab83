from __future__ import annotations

import os
import pwd
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils import folders_of_others

from tests.unit import other_users, others_folders
from tests.unit.others_folders import LESSER

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = other_users.only_root
ROOT = Path(__file__).parents[4]


@pytest.fixture
def place() -> Iterator[Path]:
    with other_users.open_folder() as path:
        (path / "own").mkdir()
        others_folders.give(path / "own")
        yield path


def ids() -> tuple[int, int, list[int]]:
    return os.geteuid(), os.getegid(), os.getgroups()


def test_root_has_the_rights_of_the_owner_and_then_its_own_again(place: Path) -> None:
    before = ids()
    with folders_of_others.as_owner_of(place / "own"):
        assert ids() == (LESSER, LESSER, [LESSER])
        (place / "own/new").touch()
        with pytest.raises(PermissionError):
            (place / "foreign").touch()
        with pytest.raises(PermissionError):
            Path("/etc/shadow").read_bytes()
    assert ids() == before
    status = (place / "own/new").stat()
    assert (status.st_uid, status.st_gid) == (LESSER, LESSER)


def test_the_owners_account_decides_about_the_groups(place: Path) -> None:
    account = next(each for each in pwd.getpwall() if each.pw_uid)
    os.chown(place / "own", account.pw_uid, LESSER)
    with folders_of_others.as_owner_of(place / "own"):
        groups = os.getgrouplist(account.pw_name, account.pw_gid)
        assert ids() == (account.pw_uid, account.pw_gid, groups)
        assert LESSER not in groups


def test_rights_come_back_after_an_error_too(place: Path) -> None:
    before = ids()
    with pytest.raises(ZeroDivisionError), folders_of_others.as_owner_of(place / "own"):
        raise ZeroDivisionError
    assert ids() == before


def test_where_the_folder_is_missing_the_nearest_one_above_counts(place: Path) -> None:
    with folders_of_others.as_owner_of(place / "own/below/it"):
        (place / "own/below/it").mkdir(parents=True)
    assert (place / "own/below/it").stat().st_uid == LESSER


def test_in_a_folder_of_root_and_for_others_than_root_nothing_changes(place: Path) -> None:
    before = ids()
    with folders_of_others.as_owner_of(place):
        assert ids() == before
    with folders_of_others.as_owner_of(Path("/")):
        assert ids() == before
    with other_users.acting_as(54321), folders_of_others.as_owner_of(place / "own"):
        assert os.geteuid() == 54321


def test_the_account_cannot_signal_a_process_that_has_its_rights(place: Path) -> None:
    mine = os.getpid()
    ask, answer = os.pipe()

    def signal_it() -> None:
        os.read(ask, 1)
        os.kill(mine, 0)

    child = others_folders.start(signal_it)
    with folders_of_others.as_owner_of(place / "own"):
        os.write(answer, b".")
        assert os.waitpid(child, 0)[1] != 0
    os.close(ask)
    os.close(answer)


def test_a_link_of_the_owner_of_the_folder_above_is_refused(place: Path) -> None:
    (place / "own/queue").symlink_to("/etc")
    with pytest.raises(errors.Refused, match="is a link, and others can write"):
        folders_of_others.owner(place / "own/queue")


def test_a_link_that_only_root_can_have_made_is_followed(place: Path) -> None:
    (place / "link").symlink_to("own")
    assert folders_of_others.owner(place / "link") == folders_of_others.Account(LESSER, LESSER, [LESSER])
    place.chmod(0o777)
    with pytest.raises(errors.Refused, match="is a link"):
        folders_of_others.owner(place / "link")


def test_a_folder_of_root_in_a_folder_of_another_account_is_refused(place: Path) -> None:
    (place / "own/roots").mkdir()
    with pytest.raises(errors.Refused, match=f"belongs to root in a folder of uid {LESSER}: `chown"):
        folders_of_others.owner(place / "own/roots")


def test_an_owner_without_account_in_the_group_of_root_is_refused(place: Path) -> None:
    os.chown(place / "own", LESSER, 0)
    with pytest.raises(errors.Refused, match="no account, and to the group of root"):
        folders_of_others.owner(place / "own")


def test_what_the_kernel_does_not_allow_is_refused_and_leaves_roots_rights(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(uid: int) -> None:
        if uid:
            raise PermissionError(1, "Operation not permitted")

    before = ids()
    monkeypatch.setattr(os, "seteuid", fail)
    with pytest.raises(errors.Refused, match="cannot take the rights"), folders_of_others.as_owner_of(place / "own"):
        pass
    assert ids() == before


def test_in_a_user_namespace_only_accounts_inside_of_it_count(place: Path) -> None:
    unshare = [shutil.which("unshare") or "unshare", "--user", "--map-root-user"]
    if subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no user namespace can be made here")
    (place / "roots").mkdir()
    for name, expected in (("own", "outside of this user namespace"), ("roots", "None")):
        ask = (
            "from ansible_collections.roundsman.cluster.plugins.plugin_utils import folders_of_others\n"
            f"import pathlib; print(folders_of_others.owner(pathlib.Path({str(place / name)!r})))"
        )
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "playbooks/collections")}
        run = subprocess.run(
            [*unshare, sys.executable, "-c", ask], env=environment, capture_output=True, text=True, check=False
        )
        assert expected in run.stdout + run.stderr
        assert stat.S_ISDIR((place / name).stat().st_mode)
