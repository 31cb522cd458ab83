"""A node that is asked whom it follows, by an agent's own process and over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import http.client
import json
import socket
import types
from functools import partial
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils import instance_lock, leader_record, node_settings
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent import copies, votes
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent.epochs import Epoch, Kept
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent.votes import Question
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.module_utils.monitoring import copying, following, front, requests

from . import nodes

if TYPE_CHECKING:
    from collections.abc import Iterator

BOOT = "0c1d2e3f-0000-4000-8000-00000000000a"
ASKED = Question(nodes.UUID, "nonce")


@pytest.fixture
def settings(node: nodes.Node) -> node_settings.Settings:
    (node.root / "proc/sys/kernel/random").mkdir(parents=True)
    node.write("proc/sys/kernel/random/boot_id", BOOT + "\n")
    return node_settings.load({"ROUNDSMAN_ROOT": str(node.root)})


def offer(number: int, *, boot: str = BOOT) -> Question:
    return Question(nodes.UUID, f"nonce{number}", boot, Kept(Epoch(number, f"id{number}"), nodes.UUID, 7))


def answered(
    question: Question, settings: node_settings.Settings, *, by: following.Follower | None = None, at: int = 0
) -> votes.Answer:
    sealed = votes.sealed_question(question, key=nodes.KEY, now=at)
    follower = by or following.Follower(settings)
    return votes.answer(follower.answer(sealed), key=nodes.KEY, asked=question)


def test_a_node_that_nobody_has_led_says_so(settings: node_settings.Settings) -> None:
    assert answered(ASKED, settings) == votes.Answer(nodes.UUID, "nonce", BOOT)


def test_a_node_follows_what_it_is_offered_and_says_which_steps_are_at_work(settings: node_settings.Settings) -> None:
    with (
        instance_lock.held("web1", settings.root, opcode="7-1"),
        instance_lock.held("web 2", settings.root, opcode="x"),
    ):
        given = answered(offer(3), settings)

    assert given.follows == offer(3).offer == leader_record.load(settings.root)
    assert sorted(given.steps) == ["web 2", "web1"]
    assert given.steps["web1"].endswith("opcode 7-1")
    assert answered(ASKED, settings).steps == {}


def test_a_lower_offer_is_refused_and_the_answer_says_whom_the_node_follows(settings: node_settings.Settings) -> None:
    answered(offer(3), settings)

    given = answered(offer(2), settings)

    assert given.refusal.startswith("this node follows epoch 3 (id3) and refuses epoch 2 (id2)")
    assert given.follows == offer(3).offer


def test_an_offer_that_was_kept_back_means_no_later_boot(settings: node_settings.Settings) -> None:
    given = answered(offer(3, boot="0c1d2e3f-0000-4000-8000-00000000000b"), settings)

    assert given.refusal == "this node has booted since the controller asked it"
    assert leader_record.load(settings.root) is None


def test_what_the_controller_did_not_sign_gets_no_answer(settings: node_settings.Settings) -> None:
    assert following.Follower(settings).answer(votes.sealed_question(offer(3), key=b"x" * 64, now=0)) == b""
    assert leader_record.load(settings.root) is None


def test_a_node_that_does_not_know_whom_it_follows_says_nothing(settings: node_settings.Settings) -> None:
    (settings.root / leader_record.FILE).write_text("torn")

    with pytest.raises(errors.StoreFailed):
        following.Follower(settings).answer(votes.sealed_question(ASKED, key=nodes.KEY, now=0))


def test_an_answer_says_how_long_ago_the_controller_asked_that_leads(settings: node_settings.Settings) -> None:
    now = [100.0]
    node = following.Follower(settings, clock=lambda: now[0])

    assert answered(offer(3), settings, by=node, at=10).heard == 0
    now[0] += 7.5
    assert answered(ASKED, settings, by=node, at=11).heard == 7.5
    assert answered(offer(2), settings, by=node, at=12).heard == 7.5, "another controller is not heard"
    assert answered(offer(3), settings, by=node, at=10).heard == 0
    now[0] += 1
    assert answered(offer(4), settings, by=node, at=9).heard == 0
    assert following.Follower(settings).answer(b"") == b""
    assert answered(ASKED, settings).heard is None, "an agent that started since has heard nobody"


def test_a_controller_that_ends_is_heard_no_more_though_its_questions_are_sent_again(
    settings: node_settings.Settings,
) -> None:
    node = following.Follower(settings)
    answered(offer(3), settings, by=node, at=10)

    assert answered(dataclasses.replace(offer(3), ends=True), settings, by=node, at=12).heard is None
    assert answered(offer(3), settings, by=node, at=10).heard is None
    assert answered(ASKED, settings, by=node, at=13).follows == offer(3).offer
    assert answered(offer(3), settings, by=node, at=13).heard is not None
    assert answered(dataclasses.replace(offer(3), ends=True), settings, by=node, at=12).heard is not None


@contextlib.contextmanager
def channel(settings: node_settings.Settings) -> Iterator[socket.socket]:
    end = following.start(settings)
    try:
        yield end
    finally:
        end.close()


def test_answers_come_in_the_order_of_their_questions(settings: node_settings.Settings) -> None:
    async def scenario(end: socket.socket) -> list[tuple[int, bytes]]:
        ask = partial(front.Channel(end).ask, path=requests.LEADER, seconds=60)
        sealed = [votes.sealed_question(offer(number), key=nodes.KEY, now=0) for number in range(1, 9)]
        return list(await asyncio.gather(*(ask(data) for data in (*sealed, sealed[0]))))

    with channel(settings) as end:
        *given, beyond = asyncio.run(scenario(end))

    assert [status for status, _ in given] == [200] * 8
    for number, (_, data) in enumerate(given, 1):
        assert votes.answer(data, key=nodes.KEY, asked=offer(number)).follows == offer(number).offer
    assert beyond == (503, b"")


def test_a_question_that_nobody_answers_in_time_does_not_spoil_the_next(settings: node_settings.Settings) -> None:
    async def scenario(ours: socket.socket, theirs: socket.socket) -> tuple[tuple[int, bytes], tuple[int, bytes]]:
        asking = front.Channel(ours)
        late = await asking.ask(b"first", path=requests.LEADER, seconds=0.01)
        for text in (b"one", b"two"):
            theirs.sendall(following.LENGTH.pack(len(text)) + text)
        return late, await asking.ask(b"second", path=requests.COPY, seconds=60)

    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert asyncio.run(scenario(ours, theirs)) == ((503, b""), (200, b"two"))


def test_the_path_says_what_is_asked_and_nothing_that_is_not_signed_is_looked_into(
    settings: node_settings.Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = copies.sealed(b"{}", copies.Stamp(3, 42, 1), cluster_key=b"key")
    whole = copies.Part(nodes.UUID, "nonce", None, copies.Stamp(3, 42, 1), copies.digest(copy), len(copy), 0, copy)
    part = copies.sealed_part(whole, key=nodes.KEY, now=0)
    looked: list[str] = []
    loads = json.loads

    def noted(text: str) -> object:
        looked.append(text)
        return loads(text)

    async def scenario(end: socket.socket) -> list[int]:
        asking = front.Channel(end)
        asked = [
            (part, requests.LEADER),
            (votes.sealed_question(ASKED, key=nodes.KEY, now=0), requests.COPY),
            (copies.sealed_part(whole, key=b"x" * 64, now=0), requests.COPY),
            (b"[" * 100000, requests.COPY),
            (votes.sealed_question(ASKED, key=b"x" * 64, now=0), requests.LEADER),
        ]
        given = [await asking.ask(data, path=path, seconds=60) for data, path in asked]
        assert not (settings.root / copying.FILE).exists()
        monkeypatch.undo()
        return [status for status, _ in [*given, await asking.ask(part, path=requests.COPY, seconds=60)]]

    monkeypatch.setattr(votes, "json", types.SimpleNamespace(loads=noted, dumps=json.dumps))
    with channel(settings) as end:
        assert asyncio.run(scenario(end)) == [403, 403, 403, 403, 403, 200]
    assert (settings.root / copying.FILE).read_bytes() == copy
    assert len(looked) == 2, "those that the controller signed"


def test_what_comes_for_no_path_ends_the_channel(settings: node_settings.Settings) -> None:
    with channel(settings) as end:
        end.sendall(following.QUESTION.pack(9, 100))
        assert end.recv(following.LENGTH.size) == b""


def test_the_agent_is_asked_over_http(node: nodes.Node, settings: node_settings.Settings) -> None:
    with nodes.running(node) as agent:

        def posted(data: bytes, *, path: str = "/1/leader") -> tuple[int, bytes]:
            connection = http.client.HTTPConnection("127.0.0.1", agent.port, timeout=nodes.LIMIT)
            with contextlib.closing(connection):
                connection.request("POST", path, body=data)
                answer = connection.getresponse()
                return answer.status, answer.read()

        status, given = posted(votes.sealed_question(offer(4), key=nodes.KEY, now=0))
        assert status == 200
        assert votes.answer(given, key=nodes.KEY, asked=offer(4)).follows == offer(4).offer
        assert posted(b"anything") == (403, b"")
        assert posted(votes.sealed_question(ASKED, key=nodes.KEY, now=0), path="/1/configuration-copy") == (403, b"")
        assert posted(b"x" * (votes.LIMIT + 1))[0] == 413
        assert posted(b"anything", path="/1/report/node/diagnose")[0] == 405
        assert agent.ask("/1/leader")[0] == 405
        assert agent.ask("/")[0] == 200
    assert leader_record.load(settings.root) == offer(4).offer


def test_only_controllers_are_heard_where_they_are_known(node: nodes.Node, settings: node_settings.Settings) -> None:
    sealed = votes.sealed_question(dataclasses.replace(ASKED), key=nodes.KEY, now=0)
    with nodes.running(node, controllers=["192.0.2.1"]) as agent:
        connection = http.client.HTTPConnection("127.0.0.1", agent.port, timeout=nodes.LIMIT)
        with contextlib.closing(connection):
            connection.request("POST", "/1/leader", body=sealed)
            assert connection.getresponse().status == 403
    assert leader_record.load(settings.root) is None
