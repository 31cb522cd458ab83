from __future__ import annotations

import fcntl
import os
import sys
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.plugin_utils import installed_version

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    held: list[int] = []
    monkeypatch.setattr(installed_version, "_held", held)
    yield
    for descriptor in held:
        os.close(descriptor)


def test_a_version_is_held_once_by_a_lock_that_others_can_share(tmp_path: Path) -> None:
    lock = tmp_path / installed_version.LOCK
    lock.touch(mode=0o444)
    descriptor = installed_version.hold()
    assert descriptor is not None
    assert installed_version.hold() == descriptor
    assert not os.get_inheritable(descriptor)
    with lock.open() as other:
        fcntl.flock(other, fcntl.LOCK_SH | fcntl.LOCK_NB)
        with pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_checkout_is_no_version_and_is_not_held() -> None:
    assert installed_version.hold() is None


def test_nobody_keeps_programs_from_starting_by_locking_the_file(tmp_path: Path) -> None:
    lock = tmp_path / installed_version.LOCK
    lock.touch(mode=0o444)
    with lock.open() as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        assert installed_version.hold() is None
    assert installed_version.hold() is not None
