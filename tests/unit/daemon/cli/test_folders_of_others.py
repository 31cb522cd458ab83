"""What root's commands do in folders of the daemons' users, who may put links in every place of them at any time."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import argon2
import pytest
from ansible_collections.roundsman.cluster.daemon.remote import users
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import tree
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import document, store

from tests.unit import other_users, others_folders, small_cluster
from tests.unit.others_folders import LESSER

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.daemon.cli.conftest import Run

pytestmark = other_users.only_root
FRONT = LESSER + 1
"""The uid of the remote API's user."""
COMMANDS = {
    "init": ("cluster", "init", "example", "--node", "node1:192.0.2.1"),
    "import": ("config", "import", "GIVEN", "--yes"),
    "export": ("config", "export"),
    "history": ("config", "history"),
    "add": ("rapi", "user", "add", "wim"),
    "passwd": ("rapi", "user", "passwd", "rita"),
    "remove": ("rapi", "user", "remove", "rita"),
    "list": ("rapi", "user", "list"),
}


class World:
    """A controller as the role makes it, each folder with its owner, and victims of root's beside it."""

    def __init__(self, place: Path, *, has_cluster: bool) -> None:
        self.victims = others_folders.make_victims(place / "victims")
        self.given = place / "given.json"
        self.where = tree.Tree(place / "root")
        for folder in (self.where.lib, self.where.log):
            folder.mkdir(parents=True)
        self.where.audit_log.touch(mode=0o600)
        if has_cluster:
            cluster = small_cluster.with_uuids(small_cluster.make())
            store.write(self.where.config, cluster)
            self.given.write_bytes(document.dump(cluster))
        users.add(self.where.rapi_users, "rita", password="reads", access=users.Access.READ)
        others_folders.give(self.where.lib)
        others_folders.give(self.where.log)
        others_folders.give(self.where.rapi_users.parent, FRONT)

    def run(self, roundsman: Run, command: str, monkeypatch: pytest.MonkeyPatch) -> int:
        """Run a command as root; returns its exit status."""
        monkeypatch.setenv("ROUNDSMAN_ROOT", str(self.where.root))
        monkeypatch.setattr("sys.stdin", io.StringIO("password\n"))
        words = [word.replace("GIVEN", str(self.given)) for word in COMMANDS[command]]
        return roundsman(*words)[0]


@pytest.fixture(autouse=True)
def cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(users, "HASHER", argon2.PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))


@pytest.mark.parametrize("command", COMMANDS)
def test_root_leaves_files_of_the_owner_and_follows_no_link_at_any_path(
    command: str, roundsman: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    with other_users.open_folder() as place:
        world = World(place, has_cluster=command != "init")
        with others_folders.watched(world.where.root) as touched:
            assert world.run(roundsman, command, monkeypatch) == 0
        owners = {str(path.relative_to(world.where.lib)): path.stat().st_uid for path in world.where.lib.rglob("*")}
        assert owners == {name: FRONT if name.startswith("rapi") else LESSER for name in owners}
        lesser = {path for path in touched for top in (world.where.lib, world.where.log) if top in path.parents}
        traps = sorted(path.relative_to(world.where.root) for path in lesser)
    assert traps
    for trap in traps:
        with other_users.open_folder() as place:
            world = World(place, has_cluster=command != "init")
            before = others_folders.look(world.victims)
            with other_users.acting_as(LESSER):
                (world.where.root / trap).parent.mkdir(parents=True, exist_ok=True)
            others_folders.plant(world.where.root / trap, world.victims)
            world.run(roundsman, command, monkeypatch)
            assert others_folders.look(world.victims) == before, trap
