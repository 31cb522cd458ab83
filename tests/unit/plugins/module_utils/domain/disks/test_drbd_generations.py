from __future__ import annotations

from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks.drbd import Generation
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks.drbd_generations import (
    FRESH,
    Relation,
    age,
    has_data_of,
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


def test_a_generation_is_known_by_the_resync_that_followed_it_though_drbd_would_not_connect_the_two() -> None:
    # As the module 8.4.11 keeps it after a full resync to another node: 0x6480D09E7E77DBC4 was the generation before.
    ours, theirs = Generation(0xEF0A9AEE67AD8E14, 0, (0x6481D09E7E77DBC4, OTHER)), Generation(0x6480D09E7E77DBC5)
    assert relation(ours, theirs) is Relation.UNRELATED
    assert has_data_of(ours, theirs)
    assert not has_data_of(theirs, ours)
    assert not has_data_of(Generation(OURS, 0, (OTHER,)), theirs)


def test_the_identifier_of_the_resync_that_followed_a_generation_stays_within_64_bits() -> None:
    theirs = Generation(0xFFFF000000000020)
    assert has_data_of(Generation(OURS, 0, (0x0000000000000020 | 1, OTHER)), theirs)
    assert not has_data_of(Generation(OURS, 0, (0x10000000000000020, OTHER)), theirs)


def test_which_of_two_replicas_is_newer_is_known_longer_than_drbd_knows_it() -> None:
    ours, theirs = Generation(OURS, 0, (BASE + 0x0001000000000000, OTHER)), Generation(BASE)
    assert (age(ours, theirs), age(theirs, ours)) == (Relation.OURS_NEWER, Relation.THEIRS_NEWER)
    split = Generation(BASE, 0, (OTHER,))
    assert relation(ours, split) is Relation.SPLIT
    assert (age(ours, split), age(split, ours)) == (Relation.OURS_NEWER, Relation.THEIRS_NEWER)
    for one, other in ((Generation(OURS), theirs), (Generation(OURS, OTHER), Generation(THEIRS, OTHER))):
        assert age(one, other) is relation(one, other)


def test_generations_that_contradict_each_other_say_nothing() -> None:
    ours = Generation(OURS, 0, (THEIRS + 0x0001000000000000,))
    theirs = Generation(THEIRS, 0, (OURS + 0x0001000000000000,))
    assert age(ours, theirs) is Relation.UNRELATED
    assert not has_data_of(ours, Generation(THEIRS, OURS)), "DRBD would call theirs newer"


def test_whose_data_are_the_same_or_went_on_is_known_by_the_generations() -> None:
    assert has_data_of(Generation(OURS), Generation(OURS | 1))
    assert has_data_of(Generation(OURS, BASE), Generation(BASE))
    assert not has_data_of(Generation(BASE), Generation(THEIRS, BASE))
    assert not has_data_of(Generation(OURS, BASE), Generation(THEIRS, BASE))
