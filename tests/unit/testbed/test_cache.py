from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.testbed import cache

if TYPE_CHECKING:
    from pathlib import Path


def test_what_was_made_has_its_name_only_when_it_is_whole(tmp_path: Path) -> None:
    with cache.making(tmp_path, "guest") as made:
        (made / "disk").write_text("half")
        assert not (tmp_path / "guest").exists()
    assert (tmp_path / "guest/disk").read_text() == "half"


@pytest.mark.parametrize("trouble", [KeyboardInterrupt, OSError])
def test_an_interrupted_build_leaves_nothing(tmp_path: Path, trouble: type[BaseException]) -> None:
    def build() -> None:
        with cache.making(tmp_path, "guest") as made:
            (made / "disk").write_text("half")
            raise trouble

    with pytest.raises(trouble):
        build()
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_build_left_is_removed_by_the_next(tmp_path: Path) -> None:
    (tmp_path / f"{cache.MAKING}x").mkdir()
    with cache.locked(tmp_path):
        assert [one.name for one in tmp_path.iterdir()] == ["lock"]


def test_another_recipe_has_another_digest() -> None:
    assert cache.digest("a", "bc") != cache.digest("ab", "c")
    assert cache.digest("a", "bc") == cache.digest("a", "bc")


def test_the_environment_names_the_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ROUNDSMAN_TESTBED_CACHE", str(tmp_path))
    assert cache.default() == tmp_path
