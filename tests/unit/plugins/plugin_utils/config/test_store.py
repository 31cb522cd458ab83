from __future__ import annotations

import dataclasses
import errno
import fcntl
import json
import os
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors, tree
from ansible_collections.roundsman.cluster.plugins.plugin_utils import durable_files, unsynced
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes, left_replicas
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import document, history, store
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit import other_users, others_folders, small_cluster

if TYPE_CHECKING:
    from pathlib import Path

CLUSTER = small_cluster.make()
NEWER = dataclasses.replace(CLUSTER, serial_no=6)
NEWEST = dataclasses.replace(CLUSTER, serial_no=7)


@pytest.fixture
def where(tmp_path: Path) -> tree.Tree:
    found = tree.Tree(tmp_path)
    found.lib.mkdir(parents=True)
    store.write(found.config, CLUSTER)
    return found


def test_what_was_written_is_read(where: tree.Tree) -> None:
    store.write(where.config, NEWER)
    assert store.read(where.config) == NEWER
    assert store.read(store.last_good(where.config)) == CLUSTER


def test_a_damaged_file_is_not_loaded_and_the_last_good_one_is_kept_and_named(where: tree.Tree) -> None:
    store.write(where.config, NEWER)
    where.config.write_bytes(where.config.read_bytes()[:500])
    with pytest.raises(errors.StoreFailed) as refused:
        store.read(where.config)
    assert str(where.config) in str(refused.value)
    assert f"the last good version is {where.config}.last" in str(refused.value)
    assert store.read(store.last_good(where.config)) == CLUSTER


def test_a_version_that_is_damaged_too_is_not_called_good(where: tree.Tree) -> None:
    where.config.write_bytes(b"{")
    store.last_good(where.config).write_bytes(b"{")
    with pytest.raises(errors.StoreFailed, match="damaged") as refused:
        store.read(where.config)
    assert "last good" not in str(refused.value)


def test_a_missing_configuration_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(errors.StoreFailed, match="does not exist"):
        store.read(tmp_path / "config.data")


def test_a_write_that_fails_leaves_the_old_version_and_the_one_before(
    where: tree.Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.write(where.config, NEWER)

    def fail(path: Path, _data: bytes, **_options: bool) -> None:
        raise errors.StoreFailed(str(path))

    monkeypatch.setattr(durable_files, "replace", fail)
    with pytest.raises(errors.StoreFailed):
        store.write(where.config, NEWEST)
    assert store.read(where.config) == NEWER
    store.read(store.last_good(where.config))


def test_only_one_holds_the_right_to_write_and_says_who(where: tree.Tree) -> None:
    with store.locked(where, "the first, pid 1"):
        inode = where.config_lock.stat().st_ino
        store.write(where.config, NEWER)
        with pytest.raises(errors.StoreFailed, match="held by the first, pid 1"):
            store.open_lock(where)
    os.close(store.open_lock(where))
    assert where.config_lock.stat().st_ino == inode


def test_a_lock_that_somebody_only_looks_at_is_taken_a_moment_later(
    where: tree.Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.close(store.open_lock(where))
    looker = os.open(where.config_lock, os.O_RDONLY)
    fcntl.flock(looker, fcntl.LOCK_SH)
    pauses: list[float] = []

    def look(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            os.close(looker)

    monkeypatch.setattr("time.sleep", look)
    os.close(store.open_lock(where))
    assert len(pauses) == 2


@pytest.mark.parametrize("number", [1, 2])
def test_what_a_play_by_hand_leaves_unknown_is_noted_for_the_next_daemon(
    where: tree.Tree, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = number

    def fail(_descriptor: int) -> None:
        nonlocal left
        left -= 1
        if not left:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(durable_files, "_DISK", durable_files.Disk())
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(errors.StateUnknown, match="the disk failed"):
        store.commit(where, [changes.NodePowered("n3", powered=False)], now=1.0)
    assert "config.data" in unsynced.pending(where)


def test_a_commit_applies_and_writes_only_what_is_new(where: tree.Tree) -> None:
    change = changes.NodePowered("n3", powered=False)
    assert not store.commit(where, [change], now=1.0).nodes["n3"].powered
    inode = where.config.stat().st_ino
    assert not store.commit(where, [change], now=2.0).nodes["n3"].powered
    assert where.config.stat().st_ino == inode
    assert store.read(where.config).serial_no == CLUSTER.serial_no + 1


@pytest.mark.parametrize("part", range(16))
def test_a_torn_file_is_never_loaded(where: tree.Tree, part: int) -> None:
    store.write(where.config, NEWER)
    data = where.config.read_bytes()
    where.config.write_bytes(data[: len(data) * part // 16])
    with pytest.raises(errors.StoreFailed, match=r"config\.data is damaged.*the last good version is .*\.last"):
        store.read(where.config)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_flipped_byte_is_taken_for_right(where: tree.Tree, data: st.DataObject) -> None:
    sound = document.seal(CLUSTER)
    index = data.draw(st.integers(0, len(sound) - 1))
    flipped = bytes([sound[index] ^ data.draw(st.integers(1, 255))])
    where.config.write_bytes(sound[:index] + flipped + sound[index + 1 :])
    try:
        assert store.read(where.config) == CLUSTER
    except errors.StoreFailed:
        return
    assert flipped.isspace()


def test_a_document_that_was_edited_is_for_import_only(where: tree.Tree) -> None:
    where.config.write_bytes(document.dump(CLUSTER))
    with pytest.raises(errors.StoreFailed, match="roundsman config import"):
        store.read(where.config)


def test_every_version_is_in_the_history(where: tree.Tree) -> None:
    store.write(where.config, NEWER)
    store.write(where.config, NEWEST)
    kept = history.versions(where.config)
    assert [one.serial_no for one in kept] == [CLUSTER.serial_no, 6, 7]
    assert [store.read(one.path) for one in kept] == [CLUSTER, NEWER, NEWEST]


def test_a_damaged_file_takes_not_the_place_of_the_last_good_one_when_the_write_fails(
    where: tree.Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.write(where.config, NEWER)
    where.config.write_bytes(b"{")

    def fail(path: Path, _data: bytes, **_options: bool) -> None:
        raise errors.StoreFailed(str(path))

    monkeypatch.setattr(durable_files, "replace", fail)
    with pytest.raises(errors.StoreFailed):
        store.write(where.config, NEWEST)
    assert store.read(store.last_good(where.config)) == CLUSTER


def test_a_missing_configuration_names_the_newest_good_version_and_how_to_restore_it(where: tree.Tree) -> None:
    cluster = store.read(where.config)
    for serial in (8, 9):
        store.write(where.config, dataclasses.replace(cluster, serial_no=serial))
    where.config.unlink()
    newest = history.get(where.config, 9).path
    with pytest.raises(errors.StoreFailed, match=rf"does not exist.*`roundsman config import {newest}`"):
        store.read(where.config)
    newest.write_bytes(b"damaged")
    with pytest.raises(errors.StoreFailed, match=rf"`roundsman config import {where.config}\.last`"):
        store.read(where.config)


def test_without_any_version_a_missing_configuration_says_how_to_begin(tmp_path: Path) -> None:
    with pytest.raises(errors.StoreFailed, match="roundsman cluster init"):
        store.read(tmp_path / "config.data")


@other_users.only_root
def test_what_root_makes_belongs_to_the_owner_of_the_folder_the_daemon() -> None:
    with other_users.open_folder() as place:
        where = tree.Tree(place)
        where.lib.mkdir(parents=True)
        others_folders.give(where.lib)
        with store.locked(where, "roundsman config import"):
            store.write(where.config, CLUSTER)
        store.commit(where, [changes.NodePowered("n3", powered=False)], now=1.0)
        found = {path: (path.stat().st_uid, path.stat().st_gid) for path in where.lib.rglob("*")}
    assert len(found) == 6
    assert set(found.values()) == {(others_folders.LESSER, others_folders.LESSER)}


@other_users.only_root
def test_a_lock_that_is_left_to_root_is_refused_with_what_to_do() -> None:
    with other_users.open_folder() as place:
        where = tree.Tree(place)
        where.lib.mkdir(parents=True)
        others_folders.give(where.lib)
        where.config_lock.touch(mode=0o640)
        with pytest.raises(errors.StoreFailed) as refused, store.locked(where, "roundsman config import"):
            pass
    remedy = f"as root, run `chown --no-dereference --reference={where.lib} {where.config_lock}`, then retry"
    assert str(refused.value) == f"{where.config_lock} belongs to another user: {remedy}"


def test_a_link_in_the_place_of_the_lock_is_not_followed(tmp_path: Path) -> None:
    where = tree.Tree(tmp_path)
    where.lib.mkdir(parents=True)
    (tmp_path / "another").write_text("kept")
    where.config_lock.symlink_to(tmp_path / "another")
    with pytest.raises(OSError, match="Too many levels"), store.locked(where, "somebody"):
        pass
    assert (tmp_path / "another").read_text() == "kept"


def being_made() -> clusters.Cluster:
    """A replacement of disks onto n10 has broken off, which knew a generation of the secondary."""
    instance = dataclasses.replace(CLUSTER.instance("i1"), disks=(clusters.Disk(64),))
    making = left_replicas.ReplicaLeft("i1", "n10", present=True, is_new=True, generations=("00000000000000a0",))
    return changes.apply(clusters.with_instance(CLUSTER, instance), making, now=9.0)


def test_what_a_backup_knew_of_the_generations_of_replicas_is_dropped_and_the_new_replica_stays_on_record() -> None:
    wanted = being_made()
    for present, known in (
        (wanted, ("00000000000000a0",)),
        (dataclasses.replace(wanted, serial_no=99), ()),
        (None, ()),
    ):
        after = store.taken_over(wanted, before=present, serial_no=100, now=10.0)
        assert [left.is_new for left in after.maintenance.left_behind] == [True]
        assert left_replicas.judged_generations(after, "i1") == known


def test_the_pause_of_a_backup_ends_by_a_person_only() -> None:
    settings = CLUSTER.maintenance.settings.with_pause("a new switch", ends=20.0)
    wanted = changes.apply(CLUSTER, changes.SettingsStand(settings), now=9.0)
    assert store.taken_over(wanted, before=wanted, serial_no=100, now=10.0).maintenance.settings == settings
    after = store.taken_over(wanted, before=None, serial_no=100, now=10.0).maintenance.settings
    assert (after.paused, after.pause_ends) == ("a new switch", 0.0)


def test_a_replica_that_an_older_version_recorded_is_read_and_has_no_generations() -> None:
    cluster = being_made()
    assert document.load(document.dump(cluster)) == cluster
    raw = json.loads(document.dump(cluster))
    del raw["maintenance"]["left_behind"][0]["generations"]
    found = document.load(json.dumps(raw).encode())
    assert [(left.is_new, left.generations) for left in found.maintenance.left_behind] == [(True, ())]


def test_a_daemon_that_waited_and_is_gone_is_not_taken_for_another_process_that_has_its_id_by_now(
    where: tree.Tree,
) -> None:
    held = store.open_lock(where)
    signed = f"{store.DAEMON}{os.getpid()}, {store.WAITS}"
    store.sign_lock(held, signed)
    assert store.waiting(where) == signed

    os.close(held)
    assert store.waiting(where) == ""

    held = store.open_lock(where)
    store.sign_lock(held, f"{store.DAEMON}{os.getpid()}")
    assert store.waiting(where) == "", "it does not wait any more"
    os.close(held)
