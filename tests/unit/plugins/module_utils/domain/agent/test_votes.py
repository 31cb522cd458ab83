"""Questions and answers about who leads: only the right key, node and nonce count."""

from __future__ import annotations

import json

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent import signing, votes
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent.epochs import Epoch, Kept
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent.votes import Answer, Question
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors

BOOT = "0c1d2e3f-0000-4000-8000-00000000000a"
KEY, NODE, NOW = b"k" * 64, "5c8f1c4e-6d54-4bd5-a25b-0f0c0f6f8a11", 1_800_000_000
OFFER = Kept(Epoch(5, "five"), NODE, 7, goes_on=frozenset({"four"}))
QUESTION = Question(NODE, "nonce", BOOT, OFFER)


def test_a_question_and_its_answer_are_read_as_they_were_meant() -> None:
    sealed = votes.sealed_question(QUESTION, key=KEY, now=NOW)
    given = Answer(NODE, "nonce", BOOT, OFFER, 12.5, "", {"web1": "process 12, opcode 7-1"})

    assert votes.question(sealed, key=KEY, node=NODE) == QUESTION
    assert votes.answer(votes.sealed_answer(given, key=KEY, now=NOW), key=KEY, asked=QUESTION) == given


def test_a_question_tells_when_it_was_signed_and_whether_its_controller_ends() -> None:
    sealed = votes.sealed_question(Question(NODE, "nonce", BOOT, OFFER, ends=True), key=KEY, now=NOW)

    found = votes.question(sealed, key=KEY, node=NODE)

    assert (found.at, found.ends) == (NOW, True)


def test_the_notes_of_four_hundred_steps_have_room() -> None:
    steps = {f"instance{number:04d}": "x" * 500 for number in range(400)}
    answer = Answer(NODE, "n" * 32, "b" * 36, OFFER, steps=steps)

    assert len(votes.sealed_answer(answer, key=KEY, now=NOW)) < votes.LIMIT


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(votes.sealed_question(QUESTION, key=b"x" * 64, now=NOW), id="another key"),
        pytest.param(votes.sealed_question(Question("b", "nonce"), key=KEY, now=NOW), id="another node"),
        pytest.param(votes.sealed_answer(Answer(NODE, "nonce", BOOT), key=KEY, now=NOW), id="an answer"),
        pytest.param(signing.sign(json.dumps({"name": "node-diagnose"}), key=KEY, now=NOW).encode(), id="a report"),
        pytest.param(signing.sign("[" * 90_000, key=KEY, now=NOW).encode(), id="nested"),
        pytest.param(b"{}", id="nothing"),
    ],
)
def test_what_is_no_question_to_this_node_is_refused(wrong: bytes) -> None:
    with pytest.raises((errors.ReportRejected, errors.InvalidInput)):
        votes.question(wrong, key=KEY, node=NODE)


@pytest.mark.parametrize("master", ["", "node1", NODE.upper(), NODE + "\n", "x); run `rm -r /`", "\ud800"])
def test_a_master_that_is_no_uuid_is_followed_by_no_answer_and_offered_by_no_question(master: str) -> None:
    wrong = Kept(Epoch(5, "five"), master, 7)
    asked, given = Question(NODE, "nonce", BOOT, wrong), Answer(NODE, "nonce", BOOT, wrong)

    with pytest.raises(errors.InvalidInput, match=r"no UUID|surrogate"):
        votes.answer(votes.sealed_answer(given, key=KEY, now=NOW), key=KEY, asked=QUESTION)
    with pytest.raises(errors.InvalidInput, match=r"no UUID|surrogate"):
        votes.question(votes.sealed_question(asked, key=KEY, now=NOW), key=KEY, node=NODE)


@pytest.mark.parametrize("given", [Answer(NODE, "another", BOOT), Answer("b", "nonce", BOOT)])
def test_an_answer_to_another_question_is_refused(given: Answer) -> None:
    with pytest.raises(errors.InvalidInput, match="another question"):
        votes.answer(votes.sealed_answer(given, key=KEY, now=NOW), key=KEY, asked=QUESTION)


@pytest.mark.parametrize("boot", ["{{ lookup('pipe', 'id') }}", "a\nb", "x" * 200_000])
def test_a_boot_that_is_no_boot_id_is_no_answer(boot: str) -> None:
    with pytest.raises(errors.InvalidInput, match="boot"):
        votes.answer(votes.sealed_answer(Answer(NODE, "nonce", boot), key=KEY, now=NOW), key=KEY, asked=QUESTION)


@pytest.mark.parametrize(
    "change",
    [
        {"number": True},
        {"number": 0},
        {"number": 2**60},
        {"serial": "7"},
        {"serial": 2**60},
        {"id": 5},
        {"id": "x); run `rm -r /`"},
        {"id": "x" * 65},
        {"goes_on": [1]},
        {"more": 1},
    ],
)
def test_an_epoch_of_other_types_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(errors.InvalidInput):
        votes.kept({**(votes.document(OFFER) or {}), **change})


@pytest.mark.parametrize("heard", ["12", -1, True, float("inf"), float("nan"), 2**60])
def test_an_answer_that_claims_no_number_of_seconds_is_refused(heard: object) -> None:
    given = votes.sealed_answer(Answer(NODE, "nonce", BOOT, heard=heard), key=KEY, now=NOW)  # type: ignore[arg-type]

    with pytest.raises(errors.InvalidInput, match="a number of seconds"):
        votes.answer(given, key=KEY, asked=QUESTION)


@pytest.mark.parametrize(
    "given",
    [
        Answer(NODE, "nonce", BOOT, steps={"web1": "process \ud800"}),
        Answer(NODE, "nonce", BOOT, steps={"\ud800": "process 12"}),
        Answer(NODE, "nonce", "\ud800"),
        Answer(NODE, "nonce", BOOT, refusal="\ud800"),
        Answer(NODE, "nonce", BOOT, Kept(Epoch(5, "\ud800"), NODE, 7)),
    ],
)
def test_an_answer_with_a_text_that_no_file_can_hold_is_refused(given: Answer) -> None:
    """What a node says is in the reason of a refused job, which is kept in a file."""
    with pytest.raises(errors.InvalidInput, match="half of a surrogate pair"):
        votes.answer(votes.sealed_answer(given, key=KEY, now=NOW), key=KEY, asked=QUESTION)
