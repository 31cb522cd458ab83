"""Whom a node follows, on its disk."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils import leader_record
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent import epochs
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent.epochs import Epoch, Kept, Order
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.module_utils.storage import node_boot

MASTER = "5f0c5d2e-6a0e-4d86-8f0e-0f9d1e3f7a11"
BOOT = "0c1d2e3f-0000-4000-8000-00000000000{}"


def kept(number: int, name: str = "one", **fields: frozenset[str]) -> Kept:
    return Kept(Epoch(number, name), MASTER, 7, **fields)


def ordered(number: int, name: str = "one", *, boot: str = "") -> Order:
    return Order(Epoch(number, name), MASTER, 9, boot)


def in_boot(root: Path, number: str) -> None:
    """The node is in the boot of this number."""
    path = root / node_boot.BOOT_ID
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(BOOT.format(number) + "\n")


def test_what_a_node_follows_is_read_back(tmp_path: Path) -> None:
    followed = kept(5, goes_on=frozenset({"four"}))

    leader_record.keep(tmp_path, followed)

    assert leader_record.load(tmp_path) == followed
    assert (tmp_path / leader_record.FILE).stat().st_mode & 0o777 == 0o600


def test_nobody_is_followed_at_first(tmp_path: Path) -> None:
    assert leader_record.load(tmp_path) is None
    leader_record.require(tmp_path, None)
    assert leader_record.load(tmp_path) is None


def test_a_higher_epoch_is_followed_durably_before_its_step_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader_record.keep(tmp_path, kept(5))
    synced: list[str] = []
    monkeypatch.setattr(
        os, "fsync", lambda descriptor: synced.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
    )

    leader_record.require(tmp_path, ordered(6, "six"))

    followed = leader_record.load(tmp_path)
    assert followed == Kept(Epoch(6, "six"), MASTER, 9)
    folder = (tmp_path / leader_record.FILE).parent
    assert synced == [str(folder / ".leader.json.new"), str(folder)]


@pytest.mark.parametrize("refused", [ordered(4, "four"), ordered(5, "other"), None])
def test_a_step_of_an_earlier_epoch_is_refused(tmp_path: Path, refused: Order | None) -> None:
    leader_record.keep(tmp_path, kept(5))

    with pytest.raises(errors.NotFollowed, match=r"^this node follows epoch 5 \(one\)"):
        leader_record.require(tmp_path, refused)
    assert leader_record.load(tmp_path) == kept(5)


@pytest.mark.parametrize("follows", [None, kept(5, "six"), kept(6, "six")])
def test_a_step_that_was_ordered_for_the_boot_before_is_refused(tmp_path: Path, follows: Kept | None) -> None:
    in_boot(tmp_path, "2")
    if follows is not None:
        leader_record.keep(tmp_path, follows)

    with pytest.raises(errors.NotFollowed, match="booted since the controller was last known to lead") as refusal:
        leader_record.require(tmp_path, ordered(6, "six", boot=BOOT.format("1")))

    assert leader_record.load(tmp_path) == follows
    assert epochs.is_of_other_boot(str(refusal.value))
    assert not epochs.is_refusal(str(refusal.value))


@pytest.mark.parametrize("boot", ["", BOOT.format("2")])
def test_a_step_for_this_boot_is_done_and_so_is_one_whose_controller_knows_none(tmp_path: Path, boot: str) -> None:
    in_boot(tmp_path, "2")

    leader_record.require(tmp_path, ordered(6, "six", boot=boot))

    followed = leader_record.load(tmp_path)
    assert followed is not None
    assert followed.epoch == Epoch(6, "six")


def test_a_node_that_does_not_know_its_boot_refuses_what_names_one(tmp_path: Path) -> None:
    with pytest.raises(errors.NotFollowed, match="booted since"):
        leader_record.require(tmp_path, ordered(6, "six", boot=BOOT.format("1")))


def test_a_step_that_began_before_its_controller_started_again_is_done(tmp_path: Path) -> None:
    leader_record.keep(tmp_path, kept(5, goes_on=frozenset({"four"})))

    leader_record.require(tmp_path, ordered(4, "four"))

    assert leader_record.load(tmp_path) == kept(5, goes_on=frozenset({"four"}))


def test_of_two_that_offer_the_same_number_a_node_follows_one(tmp_path: Path) -> None:
    refusals: list[str] = []

    def offer(name: str) -> None:
        try:
            leader_record.keep(tmp_path, kept(3, name))
        except errors.NotFollowed:
            refusals.append(name)

    offers = [threading.Thread(target=offer, args=(name,)) for name in "abcdefgh"]
    for each in offers:
        each.start()
    for each in offers:
        each.join()

    followed = leader_record.load(tmp_path)
    assert followed is not None
    assert sorted((*refusals, followed.epoch.id)) == list("abcdefgh")


@pytest.mark.parametrize("content", [b"", b"{}", b'{"number": "5"}', b"\xff", b"[1]"])
def test_a_node_that_does_not_know_whom_it_follows_does_nothing(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / leader_record.FILE
    path.parent.mkdir(parents=True)
    path.write_bytes(content)

    with pytest.raises(errors.StoreFailed, match="remove it only if no other controller"):
        leader_record.require(tmp_path, ordered(6))


def test_what_is_followed_already_is_not_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    leader_record.keep(tmp_path, kept(5))
    written = (tmp_path / leader_record.FILE).stat().st_ino

    leader_record.keep(tmp_path, kept(5))
    assert (tmp_path / leader_record.FILE).stat().st_ino == written

    leader_record.keep(tmp_path, Kept(Epoch(5, "one"), MASTER, 8))
    assert leader_record.load(tmp_path) == Kept(Epoch(5, "one"), MASTER, 8)


def test_of_one_epoch_the_latest_version_stays(tmp_path: Path) -> None:
    """A clone of the controller's machine, whose configuration is older, offers the same epoch."""
    for serial, stays in ((7, 7), (9, 9), (8, 9)):
        leader_record.keep(tmp_path, Kept(Epoch(5, "one"), MASTER, serial))

        found = leader_record.load(tmp_path)
        assert found is not None
        assert found.serial == stays
    leader_record.keep(tmp_path, Kept(Epoch(6, "two"), MASTER, 3))
    assert leader_record.load(tmp_path) == Kept(Epoch(6, "two"), MASTER, 3)


def test_a_failed_write_leaves_what_was_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    leader_record.keep(tmp_path, kept(5))

    def fails(_: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(errors.StoreFailed, match="Input/output error"):
        leader_record.keep(tmp_path, kept(6))
    assert leader_record.load(tmp_path) == kept(5)


def test_an_order_is_read_as_it_is_written() -> None:
    assert epochs.order(str(ordered(12, "0a1b-c"))) == ordered(12, "0a1b-c")
    assert epochs.order(str(ordered(12, boot=BOOT.format("1")))) == ordered(12, boot=BOOT.format("1"))
    assert epochs.order("") is None


@pytest.mark.parametrize(
    "text", ["5", "0:a:" + MASTER + ":1", "5:a:" + MASTER, "5:A b:" + MASTER + ":1", "5:a:x:1\n", f"5:a:{MASTER}:1:x"]
)
def test_what_is_no_order_is_refused(text: str) -> None:
    with pytest.raises(errors.InvalidInput, match="epoch must be"):
        epochs.order(text)
