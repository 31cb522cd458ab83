"""The controller's own epoch, on its disk."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent.epochs import Epoch, Order
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors, tree
from ansible_collections.roundsman.cluster.plugins.plugin_utils import (
    controller_epoch,
    durable_files,
    sealed_json,
    unsynced,
)

if TYPE_CHECKING:
    from pathlib import Path

ORDER = Order(Epoch(4, "four"), "5f0c5d2e-6a0e-4d86-8f0e-0f9d1e3f7a11", 7)
FIVE = Epoch(5, "five")
BOOT = "0c1d2e3f-0000-4000-8000-000000000001"


@pytest.fixture
def where(tmp_path: Path) -> tree.Tree:
    made = tree.Tree(tmp_path / "one")
    made.lib.mkdir(parents=True)
    return made


def test_what_is_written_is_named_by_each_step_and_is_durable(
    where: tree.Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert controller_epoch.load(where) is None
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)

    controller_epoch.write(where, ORDER)

    assert controller_epoch.load(where) == ORDER
    assert len(synced) == 2
    record = controller_epoch.read(where)
    assert record is not None
    assert (record.boot, record.ids) == (unsynced.boot(), frozenset({"four"}))


def test_each_step_names_the_boot_of_its_node_for_which_the_controller_is_confirmed(where: tree.Tree) -> None:
    controller_epoch.write(where, ORDER, boots={"a": BOOT})

    assert controller_epoch.load(where, "a") == Order(ORDER.epoch, ORDER.master, ORDER.serial, BOOT)
    assert controller_epoch.load(where, "b") == ORDER

    controller_epoch.remember(where, FIVE)
    assert controller_epoch.load(where, "a") == Order(ORDER.epoch, ORDER.master, ORDER.serial, BOOT)


def test_a_record_of_before_has_no_boots(where: tree.Tree) -> None:
    controller_epoch.write(where, ORDER)
    found = json.loads(sealed_json.unseal(where.epoch.read_bytes()))
    del found["boots"]
    durable_files.replace(where.epoch, sealed_json.seal(json.dumps(found).encode()))

    assert controller_epoch.load(where, "a") == ORDER


def test_an_epoch_that_is_offered_is_not_named_by_steps_until_it_is_written(
    where: tree.Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller_epoch.write(where, ORDER)
    monkeypatch.setattr(unsynced, "boot", lambda: "another boot")

    controller_epoch.remember(where, FIVE)

    assert controller_epoch.load(where) == ORDER
    record = controller_epoch.read(where)
    assert record is not None
    assert (record.highest, record.ids) == (FIVE, frozenset({"four", "five"}))
    assert record.boot != "another boot", "the order was begun before"


def test_a_copy_in_another_folder_names_nothing_and_its_first_offer_drops_what_it_named(
    where: tree.Tree, tmp_path: Path
) -> None:
    controller_epoch.write(where, ORDER)
    shutil.copytree(where.root, tmp_path / "two")
    copy = tree.Tree(tmp_path / "two")
    with pytest.raises(errors.StoreFailed, match=r"another machine or in another folder: start roundsmand here first"):
        controller_epoch.load(copy)

    controller_epoch.remember(copy, FIVE)

    assert controller_epoch.load(copy) is None
    assert controller_epoch.load(where) == ORDER


def test_a_copy_on_another_machine_is_known_too(
    where: tree.Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller_epoch.write(where, ORDER)
    (tmp_path / "machine-id").write_text("0123\n")
    monkeypatch.setattr(controller_epoch, "MACHINE_ID", tmp_path / "machine-id")

    with pytest.raises(errors.StoreFailed, match="another machine"):
        controller_epoch.load(where)


@pytest.mark.parametrize("content", [b"", b"{}", b"torn"])
def test_a_file_that_cannot_be_read_lets_nothing_be_ordered(where: tree.Tree, content: bytes) -> None:
    where.epoch.write_bytes(content)

    with pytest.raises(errors.StoreFailed, match="remove it, and start roundsmand"):
        controller_epoch.load(where)
