from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import httpx
import orjson
import pytest
from ansible_collections.roundsman.cluster.daemon.api import answers
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from fastapi import FastAPI

if TYPE_CHECKING:
    from collections.abc import Callable


def answered(act: Callable[[], object], path: str = "/") -> httpx.Response:
    app = FastAPI()
    answers.install(app)

    @app.get("/")
    async def resource(number: int = 0) -> object:
        return act()

    async def ask() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://daemon") as client:
            return await client.get(path)

    return asyncio.run(ask())


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.NotFound("there is none"), 404),
        (errors.InvalidInput("it is wrong"), 400),
        (errors.LockRefused("it is held"), 423),
        (errors.Refused("never"), 409),
        (errors.StoreFailed("the disk is full"), 507),
        (errors.Failed("it broke"), 500),
        (errors.Unconfirmed("who knows"), 500),
    ],
)
def test_every_foreseen_error_is_a_problem_with_its_sentence(error: Exception, status: int) -> None:
    def fail() -> object:
        raise error

    answer = answered(fail)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["detail"] == answer.json()["explain"] == str(error)
    assert (answer.json()["code"], answer.json()["message"]) == (status, answer.json()["title"])


class Clock:
    """Each row takes `step` seconds; what was slept is kept."""

    def __init__(self, step: float) -> None:
        self.now, self.step, self.slept = 0.0, step, list[float]()

    def make(self, row: int) -> bytes | None:
        self.now += self.step
        return b"%d" % row if row % 2 else None

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    def answer(self, rows: int) -> bytes:
        return asyncio.run(answers.in_slices(range(rows), self.make, clock=lambda: self.now, sleep=self.sleep))


def test_an_answer_of_many_rows_lets_the_daemon_do_other_work_between_slices() -> None:
    clock = Clock(2.0**-8)
    assert clock.answer(10) == b"[1,3,5,7,9]"
    assert clock.slept == [3 * 2.0**-8] * 3


def test_an_answer_that_is_too_much_work_is_refused() -> None:
    clock = Clock(answers.SLICE)
    with pytest.raises(errors.InvalidInput, match="longer than 5 s: use fewer fields or operators"):
        clock.answer(10_000)
    assert sum(clock.slept) == pytest.approx(answers.MOST_WORK, abs=2 * answers.SLICE)


def test_an_unreadable_request_names_the_field() -> None:
    answer = answered(dict, "/?number=x")
    assert answer.status_code == 400
    assert answer.json()["detail"].startswith("query/number: ")
    assert "\n" not in answer.json()["detail"]


def test_an_error_with_text_that_is_no_unicode_is_still_an_answer() -> None:
    def fail() -> object:
        raise errors.Refused("file \udcff is in the way")

    answer = answered(fail)
    assert answer.status_code == 409
    assert answer.json()["detail"] == "file ? is in the way"


def test_foreign_json_passes_through_as_it_is() -> None:
    big = b'{"n":123456789012345678901234567890}'
    assert answered(lambda: answers.Json([orjson.Fragment(big)])).content == b"[" + big + b"]"


@pytest.mark.parametrize("value", [2**70, -(2**70), "half \ud800"])
def test_what_orjson_does_not_write_is_answered_all_the_same(value: object) -> None:
    told = answered(lambda: answers.Json({"value": value, "rest": [1, None]}))
    assert told.status_code == 200
    assert json.loads(told.content) == {"value": value, "rest": [1, None]}


@dataclass
class Time:
    """A clock that goes on with pauses, and what they were."""

    now: float = 100.0
    pauses: list[float] = field(default_factory=list)

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        await asyncio.sleep(0)
        self.now += seconds


def test_requests_that_come_together_share_an_answer_that_is_made_after_they_came_and_seldom() -> None:
    time, state = Time(), [0]

    def make() -> list[int]:
        time.now += 0.6
        return list(state)

    async def story() -> None:
        shared = answers.Shared(make, clock=time.clock, sleep=time.sleep)
        told = {(await shared.get()).body}
        for number in range(1, 4):
            state[0] = number
            asked = [asyncio.create_task(shared.get()) for _ in range(100)]
            asked[0].cancel()
            found = {answer.body for answer in await asyncio.gather(*asked[1:])}
            assert found == {b"[%d]" % number}, "what was made before they came answers nobody"
            told |= found
        assert told == {b"[0]", b"[1]", b"[2]", b"[3]"}

    asyncio.run(story())
    assert time.pauses == [0.0, *[pytest.approx(answers.REST * 0.6)] * 3]


def test_what_fails_for_one_fails_for_those_who_share_it_and_the_next_one_is_made_again() -> None:
    outcomes = iter([errors.StoreFailed("the disk is full"), None])

    def make() -> str:
        if (error := next(outcomes)) is not None:
            raise error
        return "made"

    async def story() -> None:
        shared = answers.Shared(make)
        failed = await asyncio.gather(shared.get(), shared.get(), return_exceptions=True)
        assert [str(error) for error in failed] == ["the disk is full"] * 2
        assert (await shared.get()).body == b'"made"'

    asyncio.run(story())


def test_answers_by_name_are_made_one_after_the_other_with_one_rest_and_none_that_nobody_waits_for() -> None:
    time, made = Time(), list[str]()

    def make(name: str) -> str:
        made.append(name)
        time.now += 0.6
        return name

    async def story() -> None:
        shared = answers.SharedByName(make, clock=time.clock, sleep=time.sleep)
        asked = {name: [asyncio.create_task(shared.get(name)) for _ in range(9)] for name in "abcd"}
        await asyncio.sleep(0)
        for gone in (asked["a"][0], *asked["c"]):
            gone.cancel()
        for name in "abd":
            told = await asyncio.gather(*asked[name][1:])
            assert set(told) == {answers.encoded(name)}
        assert await shared.get("c") == b'"c"'

    asyncio.run(story())
    assert made == ["a", "b", "d", "c"]
    assert time.pauses == [0.0, *[pytest.approx(answers.REST * 0.6)] * 3]
