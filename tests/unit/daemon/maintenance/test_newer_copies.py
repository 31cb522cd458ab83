"""Whether nodes keep a newer copy than a restored configuration, by the agents' own code on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.daemon.maintenance import newer_copies
from ansible_collections.roundsman.cluster.plugins.module_utils import leader_record
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent import copies
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent.epochs import Epoch, Kept
from ansible_collections.roundsman.cluster.plugins.module_utils.monitoring import copying as agents
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes

from tests.unit.daemon import twins
from tests.unit.daemon.maintenance import voters

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from ansible_collections.roundsman.cluster.daemon import service

NAMES = ("node2", "node3")


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(newer_copies, "SECONDS", 0.5)


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> service.Service:
    return twins.assemble(twins.lab(tmp_path, nodes=3, instances=1), monkeypatch)[0]


def root_of(running: service.Service, name: str) -> Path:
    return voters.node_settings_of(running)[name].root


def keep(running: service.Service, name: str, serial: int) -> Path:
    """Have a node keep a copy of a version."""
    path = root_of(running, name) / agents.FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    key = running.where.hmac_key.read_bytes()
    path.write_bytes(copies.sealed(b"{}", copies.Stamp(3, serial, 1), cluster_key=key))
    return path


@contextlib.asynccontextmanager
async def answering(running: service.Service, *, silent: str = "") -> AsyncIterator[None]:
    keepers = {name: agents.Keeper(found) for name, found in voters.node_settings_of(running).items()}

    async def answer(name: str, data: bytes) -> tuple[int, bytes]:
        if name == silent:
            await asyncio.sleep(3600)
        return 200, keepers[name].answer(data)

    async with voters.answering(running, answer, path="/1/configuration-copy "):
        yield


def look(running: service.Service, *, silent: str = "", names: tuple[str, ...] = NAMES) -> newer_copies.Found:
    async def inner() -> newer_copies.Found:
        async with answering(running, silent=silent):
            return await newer_copies.look(running.where, running.configuration.current, names)

    return asyncio.run(inner())


@pytest.mark.parametrize("is_led", [False, True])
def test_a_copy_that_is_newer_is_found_with_its_version_and_nothing_is_changed(
    running: service.Service, *, is_led: bool
) -> None:
    if is_led:
        leader_record.keep(root_of(running, "node2"), Kept(Epoch(5, "theirs"), voters.ELSEWHERE, 500))
    path = keep(running, "node2", 500)
    before = path.read_bytes()

    assert look(running) == newer_copies.Found({"node2": 500}, ())

    assert path.read_bytes() == before
    assert not (root_of(running, "node3") / agents.FILE).exists()
    assert sorted(each.name for each in path.parent.glob(".configuration*")) == []


def test_a_copy_of_this_version_or_an_earlier_one_is_none_and_who_does_not_answer_is_named(
    running: service.Service,
) -> None:
    keep(running, "node2", 1)
    assert look(running, silent="node3") == newer_copies.Found({}, ("node3",))


def test_a_candidate_that_the_restored_configuration_does_not_have_yet_is_named(running: service.Service) -> None:
    keep(running, "node2", 1)
    assert look(running, names=("node9", *NAMES)) == newer_copies.Found({}, ("node9",))
    assert look(running, names=("node9",)) == newer_copies.Found({}, ("node9",))


def test_without_agents_nobody_is_asked(running: service.Service) -> None:
    settings = dataclasses.replace(running.configuration.current.maintenance.settings, agent_port=0)
    asyncio.run(running.configuration.commit(lambda _: [changes.SettingsStand(settings)]))
    found = asyncio.run(newer_copies.look(running.where, running.configuration.current, NAMES))
    assert found == newer_copies.Found({}, NAMES)


def test_the_text_names_node_and_versions_and_what_to_do() -> None:
    found = newer_copies.Found({"node3": 42, "node2": 43}, ())
    assert newer_copies.text(found, serial=41) == (
        "node2 keeps a copy of version 43, newer than the configuration here (version 41): copy "
        "/var/lib/roundsman/configuration.copy from there and import it with `roundsman config import FILE`; or, if "
        "what was changed since is lost on purpose, add `--discard-copies` to `--restored`"
    )
    assert newer_copies.text(newer_copies.Found({}, ("node3",)), serial=41) == ""
