from __future__ import annotations

import asyncio
import base64
import contextlib
from typing import TYPE_CHECKING

import argon2
import pytest
from ansible_collections.roundsman.cluster.daemon.remote import authentication, users

if TYPE_CHECKING:
    from pathlib import Path


class Counting(argon2.PasswordHasher):
    """A cheap hasher that counts its verifications."""

    verified = 0

    def verify(self, hash: str | bytes, password: str | bytes) -> bool:  # type: ignore[override]  # noqa: A002 - argon2's own name
        self.verified += 1
        return super().verify(hash, password)


class World:
    def __init__(self, path: Path, hasher: Counting) -> None:
        self.path, self.hasher = path, hasher
        self.now = 1000.0
        self.told: dict[bytes, bytes] = {}
        self.waited = 0.0
        self.authenticator = authentication.Authenticator(path, clock=lambda: self.now, sleep=self.sleep)

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.waited += seconds
        await asyncio.sleep(0)

    def ask(self, name: str, password: str, *, address: str = "192.0.2.1") -> str:
        """Who it is, or the status of the refusal."""
        return self.send(b"Basic " + base64.b64encode(f"{name}:{password}".encode()), address=address)

    def send(self, header: bytes | None, *, address: str = "192.0.2.1") -> str:
        try:
            asker = asyncio.run(self.authenticator.asker(header, address=address))
        except authentication.Denied as denied:
            self.told = dict(denied.headers)
            return str(denied.status)
        return f"{asker.name} {asker.access.value}"


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    hasher = Counting(time_cost=1, memory_cost=8, parallelism=1)
    monkeypatch.setattr(users, "HASHER", hasher)
    users.add(tmp_path / "users", "rita", password="a: ümläut", access=users.Access.READ)
    return World(tmp_path / "users", hasher)


def test_a_user_is_known_by_name_and_password(world: World) -> None:
    assert world.ask("rita", "a: ümläut") == "rita read"
    assert [world.ask("rita", "b"), world.ask("eve", "a: ümläut"), world.ask("rita", "")] == ["401"] * 3


@pytest.mark.parametrize(
    "header",
    [
        None,
        b"",
        b"Basic",
        b"Basic %%%",
        b"Basic cml0YQ==",
        b"Bearer cml0YTph",
        b"Basic /////w==",
        b"Basic " + b"A" * 9999,
    ],
)
def test_a_header_without_name_and_password_lets_nobody_in_and_costs_nothing(
    world: World, header: bytes | None
) -> None:
    assert world.send(header) == "401"
    assert world.told[b"www-authenticate"].startswith(b"Basic realm=")
    assert world.hasher.verified == 0


def test_an_unknown_user_costs_one_verification_as_a_known_one_does(world: World) -> None:
    world.ask("eve", "x")
    assert world.hasher.verified == 1
    world.ask("rita", "x")
    assert world.hasher.verified == 2


def test_what_was_right_is_remembered_for_some_hours_and_only_that(world: World) -> None:
    for _ in range(3):
        assert world.ask("rita", "a: ümläut") == "rita read"
    assert world.hasher.verified == 1
    assert world.ask("rita", "other") == "401"
    world.now += authentication.REMEMBERED_SECONDS + 1
    assert world.ask("rita", "a: ümläut") == "rita read"
    assert world.hasher.verified == 3


def test_a_change_of_the_file_counts_at_once(world: World) -> None:
    assert world.ask("rita", "a: ümläut") == "rita read"
    users.change(world.path, "rita", password="new", access=users.Access.WRITE)
    assert (world.ask("rita", "a: ümläut"), world.ask("rita", "new")) == ("401", "rita write")
    world.path.unlink()
    assert world.ask("rita", "new") == "401"


def test_a_damaged_file_lets_nobody_in_and_the_log_says_so_once(world: World, caplog: pytest.LogCaptureFixture) -> None:
    assert world.ask("rita", "a: ümläut") == "rita read"
    right = world.path.read_bytes()
    world.path.write_bytes(right[:-5])
    assert [world.ask("rita", "a: ümläut") for _ in range(2)] == ["401"] * 2
    assert [one.levelname for one in caplog.records if f"everybody is refused: {world.path} is" in one.message] == [
        "ERROR"
    ]
    world.path.write_bytes(right)
    assert world.ask("rita", "a: ümläut") == "rita read"


RIGHT = "a: ümläut"


def test_ten_wrong_passwords_do_not_lock_out_the_right_one(world: World) -> None:
    burst = authentication.OF_USER.burst
    assert [world.ask("rita", str(n)) for n in range(burst)] == ["401"] * burst
    assert world.ask("rita", RIGHT) == "rita read"
    assert world.waited == authentication.OF_USER.interval


def test_who_guesses_at_one_name_delays_nobody_elses(world: World) -> None:
    for number in range(authentication.OF_USER.burst):
        world.ask("eve", str(number))
    assert (world.ask("rita", RIGHT), world.waited) == ("rita read", 0)


def test_a_password_that_was_right_is_never_delayed_while_its_own_address_guesses_on(world: World) -> None:
    assert world.ask("rita", RIGHT) == "rita read"
    waited = 0.0
    for number in range(100):
        world.ask(("rita", "eve")[number % 2], str(number))
        before, verified = world.waited, world.hasher.verified
        assert world.ask("rita", RIGHT) == "rita read"
        assert world.hasher.verified == verified
        waited += world.waited - before
    assert waited == 0


def test_the_right_password_gets_in_while_others_of_its_address_try_wrong_ones_all_the_time(world: World) -> None:
    async def attack(number: int, stop: asyncio.Event, guessed: asyncio.Event) -> None:
        guess = 0
        while not stop.is_set():
            guess += 1
            if guess > authentication.OF_USER.burst:
                guessed.set()
            header = b"Basic " + base64.b64encode(f"rita:{number} {guess}".encode())
            with pytest.raises(authentication.Denied):
                await world.authenticator.asker(header, address="192.0.2.1")

    async def scenario() -> str:
        stop, guessed = asyncio.Event(), asyncio.Event()
        attackers = [asyncio.create_task(attack(number, stop, guessed)) for number in range(4)]
        async with asyncio.timeout(60):
            await guessed.wait()
            header = b"Basic " + base64.b64encode(f"rita:{RIGHT}".encode())
            asker = await world.authenticator.asker(header, address="192.0.2.1")
        stop.set()
        await asyncio.gather(*attackers)
        return asker.name

    assert asyncio.run(scenario()) == "rita"


def test_guesses_are_paced_and_their_line_is_short(world: World) -> None:
    async def guess(number: int) -> int:
        header = b"Basic " + base64.b64encode(f"rita:{number}".encode())
        with pytest.raises(authentication.Denied) as denied:
            await world.authenticator.asker(header, address="192.0.2.1")
        return denied.value.status

    async def guess_all() -> list[int]:
        return await asyncio.gather(*(guess(number) for number in range(100)))

    # Nobody waits for real: the clock stands still until all have asked.
    world.authenticator._sleep = lambda _: asyncio.sleep(0)
    most = authentication.OF_USER.burst + authentication.LONGEST_WAIT / authentication.OF_USER.interval
    assert asyncio.run(guess_all()).count(401) == world.hasher.verified == most


def test_names_that_are_guessed_at_bound_the_work_for_an_address_but_not_for_others(world: World) -> None:
    world.authenticator._sleep = lambda _: asyncio.sleep(0)
    given = [world.ask(f"eve{number}", "x") for number in range(200)]
    most = authentication.OF_ORIGIN.burst + authentication.LONGEST_WAIT / authentication.OF_ORIGIN.interval
    assert given.count("401") == world.hasher.verified == most
    assert int(world.told[b"retry-after"]) >= 1
    assert world.ask("rita", RIGHT, address="192.0.2.2") == "rita read"


def test_origins_take_turns_at_hashing(world: World) -> None:
    hashed: list[str] = []
    verify = world.hasher.verify

    def noted(hash: str | bytes, password: str | bytes) -> bool:  # noqa: A002 - argon2's own name
        hashed.append(str(password))
        return verify(hash, password)

    world.hasher.verify = noted  # type: ignore[method-assign]

    async def ask(name: str, password: str, address: str) -> None:
        header = b"Basic " + base64.b64encode(f"{name}:{password}".encode())
        with contextlib.suppress(authentication.Denied):
            await world.authenticator.asker(header, address=address)

    async def scenario() -> None:
        many = [ask(f"eve{number}", "x", "192.0.2.1") for number in range(30)]
        await asyncio.gather(*many, ask("rita", RIGHT, "192.0.2.2"))

    asyncio.run(scenario())
    assert RIGHT in hashed[:3]


def test_the_same_wrong_password_again_is_refused_without_work(world: World) -> None:
    assert [world.ask("rita", "old") for _ in range(50)] == ["401"] * 50
    assert (world.hasher.verified, world.waited) == (1, 0)
    users.change(world.path, "rita", password="old", access=None)
    assert world.ask("rita", "old") == "rita read"


def test_right_passwords_are_not_counted_as_tries(world: World) -> None:
    for _ in range(2 * authentication.OF_USER.burst):
        world.authenticator._right.clear()
        assert world.ask("rita", RIGHT) == "rita read"
    assert world.waited == 0


def test_many_requests_at_once_of_one_user_are_one_try(world: World) -> None:
    header = b"Basic " + base64.b64encode("rita:a: ümläut".encode())

    async def ask_all() -> list[authentication.Asker]:
        asking = [
            world.authenticator.asker(header, address="192.0.2.1") for _ in range(3 * authentication.OF_USER.burst)
        ]
        return await asyncio.gather(*asking)

    assert {one.name for one in asyncio.run(ask_all())} == {"rita"}
    assert world.hasher.verified == 1


def test_a_password_that_changes_while_it_is_checked_counts_no_more(world: World) -> None:
    hashed = users.HASHER.hash("new")

    def verify(_hash: object, _password: object) -> bool:
        known = world.authenticator._users["rita"]
        world.authenticator._users = {"rita": known.model_copy(update={"hash": hashed})}
        return True

    world.hasher.verify = verify  # type: ignore[method-assign, assignment]
    assert world.ask("rita", "a: ümläut") == "401"


def test_what_is_remembered_is_bounded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authentication, "MOST_REMEMBERED", 5)
    for number in range(20):
        world.ask("rita", "x", address=f"192.0.2.{number}")
    assert len(world.authenticator._paces) == len(world.authenticator._wrong) == 5


def test_no_password_stands_in_the_log(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(0)
    world.ask("rita", "guess-me")
    assert "wrong password for rita from 192.0.2.1" in caplog.text
    assert "guess-me" not in caplog.text
