from __future__ import annotations

from ansible_collections.roundsman.cluster.plugins.module_utils.domain.drbd import Generation
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.drbd_generations import (
    FRESH,
    Relation,
    relation,
)

BASE, OURS, THEIRS, OTHER = 0x10, 0x20, 0x30, 0x40


def test_the_same_data_are_equal_whoever_is_primary() -> None:
    assert relation(Generation(OURS), Generation(OURS | 1)) is Relation.EQUAL


def test_who_has_the_others_data_as_its_base_is_newer() -> None:
    assert relation(Generation(OURS, BASE), Generation(BASE)) is Relation.OURS_NEWER
    assert relation(Generation(BASE), Generation(THEIRS, BASE | 1)) is Relation.THEIRS_NEWER


def test_who_has_the_others_data_in_its_history_is_newer() -> None:
    assert relation(Generation(OURS, OTHER, (BASE,)), Generation(BASE)) is Relation.OURS_NEWER


def test_both_that_went_on_from_the_same_data_are_split() -> None:
    assert relation(Generation(OURS, BASE), Generation(THEIRS, BASE)) is Relation.SPLIT
    assert relation(Generation(OURS, OTHER, (BASE,)), Generation(THEIRS, BASE)) is Relation.SPLIT


def test_copies_without_a_common_past_are_unrelated() -> None:
    assert relation(Generation(OURS, BASE), Generation(THEIRS, OTHER)) is Relation.UNRELATED
    assert relation(Generation(OURS), Generation(THEIRS)) is Relation.UNRELATED


def test_a_copy_that_never_had_data_is_older_than_any_other() -> None:
    assert relation(Generation(OURS), Generation(FRESH)) is Relation.OURS_NEWER
    assert relation(Generation(0), Generation(THEIRS)) is Relation.THEIRS_NEWER
