"""Livelocks in a folder that others may write to."""

from __future__ import annotations

import fcntl
import os
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils import livelocks

from tests.unit import other_users

if TYPE_CHECKING:
    from pathlib import Path


def test_a_livelock_is_alive_for_as_long_as_its_flock_is_held(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path / "play", os.O_RDWR | os.O_CREAT)
    assert not livelocks.is_alive(tmp_path / "play")
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    assert livelocks.is_alive(tmp_path / "play")
    os.close(descriptor)
    assert not livelocks.is_alive(tmp_path / "play")
    assert not livelocks.is_alive(tmp_path / "nothing")


def test_a_link_is_no_livelock_even_if_what_it_leads_to_is_locked(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path / "another", os.O_RDWR | os.O_CREAT)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    (tmp_path / "play").symlink_to("another")
    assert not livelocks.is_alive(tmp_path / "play")
    os.close(descriptor)


@pytest.mark.timeout(20)
def test_a_pipe_in_the_place_of_a_livelock_blocks_nobody(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "play")
    assert not livelocks.is_alive(tmp_path / "play")


@other_users.only_root
def test_a_livelock_that_this_user_cannot_read_is_refused_with_its_name_and_a_remedy() -> None:
    with other_users.open_folder() as folder:
        livelock = folder / "play-1"
        livelock.touch(mode=0o600)
        with other_users.acting_as(other_users.DAEMON), pytest.raises(errors.Refused) as refused:
            livelocks.is_alive(livelock)
        assert str(refused.value) == (
            f"{livelock} cannot be read by the user with uid {other_users.DAEMON}: Permission denied; "
            f"check as root that no process has it open (`fuser {livelock}`), remove it (`rm {livelock}`), then retry"
        )


def test_a_livelock_of_another_user_does_not_stand_for_a_play_of_this_one(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path / "play", os.O_RDWR | os.O_CREAT)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    assert livelocks.is_alive(tmp_path / "play", owner=os.geteuid())
    assert not livelocks.is_alive(tmp_path / "play", owner=os.geteuid() + 1)
    os.close(descriptor)
