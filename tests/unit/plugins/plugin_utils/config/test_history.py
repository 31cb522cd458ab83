from __future__ import annotations

import os
from pathlib import Path

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import history


def version(serial_no: int, *, hour: float, size: int = 10) -> history.Version:
    return history.Version(serial_no, hour * history.HOUR, size, Path(str(serial_no)))


def test_the_newest_versions_are_kept_and_one_an_hour_before_them() -> None:
    known = [version(number, hour=number / 10) for number in range(1000)]
    gone = history.superfluous(known)
    kept = [one.serial_no for one in known if one not in gone]
    assert kept[-10:] == list(range(990, 1000))
    assert kept[:-10] == [number for number in range(750, 990) if number % 10 == 9]


def test_together_they_are_kept_below_a_bound_and_the_newest_always_stays() -> None:
    known = [version(number, hour=number, size=history.MOST_BYTES // 4 + 1) for number in range(6)]
    assert [one.serial_no for one in history.superfluous(known)] == [0, 1, 2]
    assert history.superfluous([version(1, hour=1, size=history.MOST_BYTES * 2)]) == []


def test_a_version_is_another_name_of_the_file_that_was_written(tmp_path: Path) -> None:
    config = tmp_path / "config.data"
    for number in (7, 8):
        config.unlink(missing_ok=True)
        config.write_text(str(number))
        history.keep(config, number)
    assert [one.serial_no for one in history.versions(config)] == [7, 8]
    assert history.get(config, 7).path.read_text() == "7"
    assert history.get(config, 8).path.samefile(config)
    with pytest.raises(errors.NotFound, match="version 3 is not kept: there are versions of 7 to 8"):
        history.get(config, 3)


def test_the_name_of_a_version_is_durable_before_older_ones_are_let_go_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "config.data"
    seen: list[tuple[str, list[int]]] = []

    def watch(descriptor: int) -> None:
        folder = Path(f"/proc/self/fd/{descriptor}").readlink()
        seen.append((folder.name, [one.serial_no for one in history.versions(config)]))

    monkeypatch.setattr(os, "fsync", watch)
    monkeypatch.setattr(history, "NEWEST", 2)
    monkeypatch.setattr(history, "HOURS", 0)
    for number in (7, 8, 9):
        config.unlink(missing_ok=True)
        config.touch()
        history.keep(config, number)
    own = history.folder(config).name
    assert seen == [(tmp_path.name, []), (own, [7]), (own, [7, 8]), (own, [7, 8, 9])]
    assert [one.serial_no for one in history.versions(config)] == [8, 9]
