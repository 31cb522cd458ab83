"""Which cluster a command means where nobody has named one, and that it says so before it changes anything."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.daemon.cli import client
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import tree

from tests.unit import other_users
from tests.unit.daemon.cli import canned, stand_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.unit.daemon.cli.conftest import Run

CONFIG = ".lab/x/controller/var/lib/roundsman/config.data"


@pytest.fixture
def stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder where a person stands, on a machine whose own root folder is `own`; the labs are below `stand`."""
    monkeypatch.delenv("ROUNDSMAN_ROOT", raising=False)
    monkeypatch.setattr(client, "OWN", tmp_path / "own")
    (tmp_path / "stand").mkdir()
    monkeypatch.chdir(tmp_path / "stand")
    return tmp_path / "stand"


def test_where_this_machine_has_a_cluster_no_lab_takes_its_place_though_the_daemon_is_stopped(
    stand: Path, roundsman: Run
) -> None:
    config = tree.Tree(client.OWN).config
    config.parent.mkdir(parents=True)
    with stand_in.serve(stand / ".lab/live/controller") as lab:
        assert client.located(None).root == Path(".lab/live/controller")
        config.touch()
        assert client.located(None).root == client.OWN
        code, _, err = roundsman("resume")
        assert lab.requests == []
    assert (code, err.count("\n")) == (1, 1)
    assert err.startswith(f"roundsman: no daemon answers at {client.OWN}/run/roundsman/socket/roundsmand.sock: ")


@other_users.only_root
@pytest.mark.parametrize(
    "place", [".lab", ".lab/x", ".lab/x/controller", ".lab/x/controller/var/lib/roundsman/config.data"]
)
def test_root_acts_on_no_lab_of_somebody_else_that_it_was_not_told_of(stand: Path, roundsman: Run, place: str) -> None:
    with stand_in.serve(stand / ".lab/x/controller") as lab:
        lab.config.parent.mkdir(parents=True)
        lab.config.touch()
        lab.put("PUT", "/2/pause", {"paused": ""})
        os.chown(stand / place, 65534, 65534)
        code, _, err = roundsman("resume")
        assert lab.requests == []
    assert (code, err.count("\n")) == (1, 1)
    assert err.endswith(f".lab/x does not count without --dir, because {place} is owned by uid 65534\n")


@other_users.only_root
def test_root_acts_on_no_lab_below_a_folder_that_somebody_else_may_write(stand: Path, roundsman: Run) -> None:
    with stand_in.serve(stand / ".lab/x/controller") as lab:
        changes: list[tuple[Callable[[], None], str]] = [
            (lambda: os.chown(stand, 65534, 65534), f"{stand} is owned by uid 65534: it must be owned by root"),
            (lambda: stand.chmod(0o777), f"{stand} has the mode 0777, so others than its owner can write it"),
        ]
        for change, why in changes:
            change()
            code, _, err = roundsman("resume")
            assert (code, lab.requests) == (1, [])
            assert why in err
            os.chown(stand, 0, 0)
        stand.chmod(0o1777)
        assert client.located(None).root == Path(".lab/x/controller")
        # Who names the folder means it.
        os.chown(stand / ".lab/x", 65534, 65534)
        assert client.located(Path(".lab/x")).root == Path(".lab/x/controller")


@other_users.only_root
def test_another_user_takes_its_own_lab_and_nobody_else_s(monkeypatch: pytest.MonkeyPatch) -> None:
    with other_users.open_folder() as folder:
        monkeypatch.chdir(folder)
        monkeypatch.setattr(client, "OWN", folder / "own")
        with stand_in.serve(folder / ".lab/x/controller"):
            for path in [folder, *folder.rglob("*")]:
                os.chown(path, 65534, 65534)
            found = []
            for uid in (65534, other_users.DAEMON):
                with other_users.acting_as(uid):
                    found.append(client.located(None).root)
    assert found == [Path(".lab/x/controller"), client.OWN]


def test_what_changes_a_cluster_that_nobody_named_says_once_which_one_and_what_reads_it_does_not(
    stand: Path, roundsman: Run
) -> None:
    with stand_in.serve(stand / ".lab/x/controller") as lab:
        lab.answers.update(canned.answers())
        lab.put("GET", "/2/info", {"name": "north"})
        assert roundsman("status")[2] == ""
        told = roundsman("incident", "ack", "3f2a")[2].splitlines()[0]
        where = f"{stand}/.lab/x/controller"
        assert told == f"roundsman: this acts on cluster north in {where}, because it is the only live lab below .lab"
        lab.put("GET", "/2/info", None)
        assert "this acts on cluster (name unknown) in " in roundsman("incident", "ack", "3f2a")[2]
        assert roundsman("--dir", ".lab/x", "incident", "ack", "3f2a")[2].startswith("roundsman: there is nothing at ")


def test_a_variable_that_leads_away_from_the_cluster_of_this_machine_is_named_before_another_one_is_changed(
    stand: Path, roundsman: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = stand / "lab/controller"
    with stand_in.serve(root) as lab:
        lab.answers.update(canned.answers())
        lab.put("GET", "/2/info", {"name": "north"})
        monkeypatch.setenv("ROUNDSMAN_ROOT", str(stand / "lab"))
        told = f"roundsman: this acts on cluster north in {root}, because ROUNDSMAN_ROOT is set\n"
        assert told not in roundsman("incident", "ack", "3f2a")[2]
        config = tree.Tree(client.OWN).config
        config.parent.mkdir(parents=True)
        config.touch()
        assert roundsman("incident", "ack", "3f2a")[2].startswith(told)
        assert roundsman("status")[2] == ""
        assert told not in roundsman("--dir", str(stand / "lab"), "incident", "ack", "3f2a")[2]
