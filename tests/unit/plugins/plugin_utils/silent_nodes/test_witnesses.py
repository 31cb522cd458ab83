"""The table of second witnesses, written by hand: what the peers of a silent node make of it, in all combinations."""

from __future__ import annotations

import enum
import itertools

import pytest
from ansible_collections.roundsman.cluster.plugins.plugin_utils.silent_nodes import witnesses
from ansible_collections.roundsman.cluster.plugins.plugin_utils.silent_nodes.witnesses import Finding, Peer, Word

CONNECTED = "connected"
UNKNOWN = "unknown"
MUTE = "unknown for long"
LOST_REACHES = "lost it, reaches another node"
LOST_ALONE = "lost it, should reach another node and does not"
LOST_PAIR = "lost it, and has no third node"

TABLE: dict[frozenset[str], Finding] = {
    # By the kinds of words that one peer or several say; the counts matter for those that lost it only (below).
    frozenset(): Finding.NONE,
    frozenset({LOST_REACHES}): Finding.DEAD,
    frozenset({LOST_REACHES, LOST_ALONE}): Finding.DEAD,
    frozenset({LOST_REACHES, LOST_PAIR}): Finding.DEAD,
    frozenset({LOST_REACHES, LOST_ALONE, LOST_PAIR}): Finding.DEAD,
    frozenset({LOST_ALONE, LOST_PAIR}): Finding.DEAD,
}
ALONE: dict[str, Finding] = {LOST_ALONE: Finding.DOUBT, LOST_PAIR: Finding.NONE}
"""What one peer alone makes of it; two of the kind are two that lost it."""


def expected(kinds: tuple[str, ...]) -> Finding:
    """The row that applies, by the table."""
    if CONNECTED in kinds:
        return Finding.DEAF
    if UNKNOWN in kinds or MUTE in kinds:
        return Finding.UNKNOWN
    if len(set(kinds)) == 1 and kinds[0] in ALONE:
        return ALONE[kinds[0]] if len(kinds) == 1 else Finding.DEAD
    return TABLE[frozenset(kinds)]


def is_outvoted(kinds: tuple[str, ...]) -> bool:
    """One alone is connected; of the others one that reaches others lost it, or two did and none says nothing."""
    others = [kind for kind in kinds if kind != CONNECTED]
    if len(kinds) - len(others) != 1 or UNKNOWN in others:
        return False
    return LOST_REACHES in others or (len(others) > 1 and MUTE not in others)


def peer(kind: str, number: int) -> Peer:
    name, at = f"node{number}", 100.0 + number
    return {
        CONNECTED: Peer(name, Word.CONNECTED, at),
        UNKNOWN: Peer(name, Word.UNKNOWN, at, f"{name} has not reported"),
        MUTE: Peer(name, Word.UNKNOWN, at, f"{name} has not reported", is_mute=True),
        LOST_REACHES: Peer(name, Word.LOST, at, reaches=True, has_third=True),
        LOST_ALONE: Peer(name, Word.LOST, at, has_third=True),
        LOST_PAIR: Peer(name, Word.LOST, at),
    }[kind]


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4])
def test_each_combination_of_words_is_found_as_the_table_says(count: int) -> None:
    kinds = (CONNECTED, UNKNOWN, MUTE, LOST_REACHES, LOST_ALONE, LOST_PAIR)
    for said in itertools.product(kinds, repeat=count):
        told = witnesses.judge([peer(kind, number) for number, kind in enumerate(said, start=1)])
        assert told.finding is expected(said), said
        assert told.text, "each is told in words"
        assert told.is_outvoted is is_outvoted(said), said
        assert bool(told.cure) is (told.finding in {Finding.UNKNOWN, Finding.DOUBT}), said


def test_the_newest_word_that_replication_lives_is_named() -> None:
    told = witnesses.judge([peer(CONNECTED, 3), peer(CONNECTED, 4), peer(LOST_REACHES, 5)])
    assert told.text == (
        "it is deaf, not dead: node4 reports at 1970-01-01 00:01:44 UTC that it is connected to it by replication"
    )


def test_one_that_is_outvoted_is_named_and_so_are_the_others() -> None:
    told = witnesses.judge([peer(CONNECTED, 3), peer(LOST_REACHES, 4), peer(LOST_PAIR, 5), peer(MUTE, 6)])
    assert told.text == (
        "node3 alone reports at 1970-01-01 00:01:43 UTC that it is connected to it by replication, and node4 and node5"
        " lost it; of node6 no report counts"
    )


def test_all_whose_word_is_unknown_are_named() -> None:
    told = witnesses.judge([peer(UNKNOWN, 3), peer(LOST_REACHES, 5), peer(UNKNOWN, 4)])
    assert told.text == "node3 has not reported; node4 has not reported"
    assert told.cure == "the next report of node3 and node4"


def test_what_a_person_does_is_named_beside_the_peers_whose_next_report_is_awaited() -> None:
    unread = Peer("node4", Word.UNKNOWN, why="node4 cannot read r0", cure="that node4 can read r0 again")
    told = witnesses.judge([unread, peer(UNKNOWN, 3), peer(LOST_REACHES, 5)])
    assert told.cure == "that node4 can read r0 again; the next report of node3"
    assert witnesses.judge([unread]).cure == "that node4 can read r0 again"


class Future(enum.Enum):
    """Words of a version to come."""

    DYING = "dying"


@pytest.mark.parametrize("others", [(), (LOST_REACHES,), (LOST_PAIR, LOST_PAIR), (LOST_ALONE,)])
def test_from_a_word_that_is_not_known_nothing_is_concluded(others: tuple[str, ...]) -> None:
    strange = Peer("node9", Future.DYING, 100.0, reaches=True)  # type: ignore[arg-type]
    told = witnesses.judge([strange, *(peer(kind, number) for number, kind in enumerate(others, start=1))])
    assert told.finding is Finding.UNKNOWN
    assert told.text == "node9 does not say whether it is connected to it"
    assert told.cure == "the next report of node9"
    deaf = witnesses.judge([strange, peer(CONNECTED, 1), peer(LOST_PAIR, 2), peer(LOST_PAIR, 3)])
    assert (deaf.finding, deaf.is_outvoted) == (Finding.DEAF, False)
