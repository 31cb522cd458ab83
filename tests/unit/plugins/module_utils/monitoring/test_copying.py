"""A node that keeps copies of the configuration, by the agent's own code and over HTTP."""

from __future__ import annotations

import contextlib
import dataclasses
import http.client
import os
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils import leader_record, node_settings
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent import copies
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent.epochs import Epoch, Kept
from ansible_collections.roundsman.cluster.plugins.module_utils.monitoring import copying

from . import nodes

if TYPE_CHECKING:
    from pathlib import Path

CLUSTER_KEY = b"0123456789abcdef0123456789abcdef01234567\n"


def sealed(epoch: int, serial: int, *, size: int = 300) -> bytes:
    return copies.sealed(os.urandom(size), copies.Stamp(epoch, serial, 1), cluster_key=CLUSTER_KEY)


def part(copy: bytes, offset: int = 0, *, length: int = 100) -> copies.Part:
    stamp = copies.stamp_of(copy)
    epoch = Epoch(stamp.epoch, f"id{stamp.epoch}") if stamp.epoch else None
    data = copy[offset : offset + length]
    return copies.Part(nodes.UUID, f"n{offset}", epoch, stamp, copies.digest(copy), len(copy), offset, data)


class Candidate:
    def __init__(self, settings: node_settings.Settings) -> None:
        self.settings = settings
        self.path = settings.root / copying.FILE
        self.restart()

    def restart(self) -> None:
        self.keeper = copying.Keeper(self.settings)

    def given(self, asked: copies.Part) -> copies.Received:
        data = self.keeper.answer(copies.sealed_part(asked, key=nodes.KEY, now=0))
        return copies.received(data, key=nodes.KEY, asked=asked)

    def take(self, copy: bytes) -> copies.Received:
        received = self.given(part(copy))
        while not received.refusal and received.wanted < len(copy):
            received = self.given(part(copy, received.wanted))
        return received


@pytest.fixture
def candidate(node: nodes.Node) -> Candidate:
    return Candidate(node_settings.load({"ROUNDSMAN_ROOT": str(node.root)}))


def files(candidate: Candidate) -> list[Path]:
    return sorted(path for path in candidate.path.parent.iterdir() if "configuration.copy" in path.name)


def test_a_copy_is_kept_once_it_is_whole_and_for_root_only(candidate: Candidate) -> None:
    copy = sealed(3, 41)
    first = candidate.given(part(copy))
    assert (first.stamp, first.wanted, candidate.path.exists()) == (None, 100, False)

    last = candidate.take(copy)

    assert (last.stamp, last.wanted, last.refusal) == (copies.stamp_of(copy), len(copy), "")
    assert candidate.path.read_bytes() == copy
    assert candidate.path.stat().st_mode & 0o777 == 0o600
    assert files(candidate) == [candidate.path]
    assert candidate.given(part(copy)).wanted == len(copy), "what it has is not sent again"


def test_a_node_whose_agent_ended_in_between_wants_the_copy_from_its_beginning(candidate: Candidate) -> None:
    copy = sealed(3, 41)
    candidate.given(part(copy))
    candidate.restart()

    assert candidate.given(part(copy, 100)).wanted == 0
    assert candidate.take(copy).stamp == copies.stamp_of(copy)


def test_parts_of_another_copy_do_not_mix(candidate: Candidate) -> None:
    old, new = sealed(3, 41), sealed(3, 42)
    candidate.given(part(old))

    assert candidate.given(part(new, 100)).wanted == 0
    assert candidate.given(part(new)).wanted == 100
    assert candidate.given(part(old, 100)).wanted == 0
    assert candidate.take(new).stamp == copies.stamp_of(new)
    assert candidate.path.read_bytes() == new


def test_a_copy_of_an_earlier_configuration_never_takes_the_place_of_a_later_one(candidate: Candidate) -> None:
    later = sealed(3, 42)
    candidate.take(later)
    for earlier in (sealed(3, 41), sealed(2, 99)):
        received = candidate.given(part(earlier))
        assert received.refusal.startswith("this node has a later copy: version 42 of epoch 3")
        assert received.stamp == copies.stamp_of(later)
    restored = sealed(4, 7)
    assert candidate.take(restored).stamp == copies.stamp_of(restored), "a later epoch that was restored is later"


def test_the_controller_that_was_replaced_gets_no_copy_to_a_node(candidate: Candidate) -> None:
    leader_record.keep(candidate.settings.root, Kept(Epoch(5, "theirs"), nodes.UUID, 50))
    for copy in (sealed(4, 60), sealed(5, 60), sealed(0, 60)):
        assert candidate.given(part(copy)).refusal.startswith("this node follows epoch 5 (theirs)")
    assert files(candidate) == []
    leader_record.keep(candidate.settings.root, Kept(Epoch(6, "id6"), nodes.UUID, 50))
    assert candidate.take(sealed(6, 51)).refusal == ""


def test_parts_that_do_not_make_their_copy_are_not_kept(candidate: Candidate) -> None:
    before, copy = sealed(3, 41), sealed(3, 42)
    candidate.take(before)
    wrong = dataclasses.replace(part(copy, length=len(copy)), data=bytes(len(copy)))

    assert candidate.given(wrong).refusal == "the parts do not make the copy that they are of"
    assert candidate.path.read_bytes() == before
    assert candidate.take(copy).refusal == ""


def test_a_disk_that_is_full_is_named_and_the_copy_before_stays(
    candidate: Candidate, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = sealed(3, 41)
    candidate.take(before)

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    assert "No space left on device" in candidate.take(sealed(3, 42)).refusal
    assert candidate.path.read_bytes() == before


def test_what_came_of_a_copy_does_not_keep_a_disk_full(candidate: Candidate, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = sealed(3, 42)
    candidate.given(part(copy))

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(os, "fchmod", fail)
        assert "No space left on device" in candidate.given(part(copy, 100)).refusal
    assert files(candidate) == []
    assert candidate.take(copy).refusal == ""


def test_no_file_that_another_account_put_there_is_written_or_waited_for(candidate: Candidate) -> None:
    candidate.given(part(sealed(3, 41)))
    (coming,) = files(candidate)
    other = candidate.path.with_name("other")
    other.write_bytes(b"theirs")
    coming.unlink()
    os.link(other, coming)
    os.mkfifo(candidate.path)

    copy = sealed(3, 42)
    assert candidate.take(copy).refusal == ""
    assert (other.read_bytes(), candidate.path.read_bytes()) == (b"theirs", copy)


def test_a_question_which_copy_is_kept_is_answered_and_ends_no_copy_that_is_under_way(candidate: Candidate) -> None:
    asked = copies.question(nodes.UUID, "nonce")
    assert candidate.given(asked).stamp is None
    candidate.take(sealed(3, 41))
    later = sealed(3, 42)
    candidate.given(part(later))

    assert candidate.given(asked).stamp == copies.Stamp(3, 41, 1)
    assert candidate.given(part(later, 100)).wanted == 200


def test_a_node_says_what_it_lacks_to_lead(candidate: Candidate) -> None:
    assert candidate.given(part(sealed(3, 41))).lacks == copies.NEEDED
    for name in copies.NEEDED[:2]:
        path = candidate.settings.root / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
    assert candidate.given(part(sealed(3, 41))).lacks == copies.NEEDED[2:]


def test_the_agent_takes_a_copy_over_http_beside_questions_of_who_leads(node: nodes.Node, candidate: Candidate) -> None:
    copy = sealed(0, 41, size=300_000)
    with nodes.running(node) as agent:
        connection = http.client.HTTPConnection("127.0.0.1", agent.port, timeout=nodes.LIMIT)
        offset = 0
        while offset < len(copy):
            asked = part(copy, offset, length=copies.PART)
            with contextlib.closing(connection):
                connection.request(
                    "POST", "/1/configuration-copy", body=copies.sealed_part(asked, key=nodes.KEY, now=0)
                )
                answer = connection.getresponse()
                assert answer.status == 200
                offset = copies.received(answer.read(), key=nodes.KEY, asked=asked).wanted
        assert agent.ask("/1/configuration-copy")[0] == 405
    assert candidate.path.read_bytes() == copy
