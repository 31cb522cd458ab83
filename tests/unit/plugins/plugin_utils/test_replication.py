from __future__ import annotations

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils import replication


class Twin:
    """A replica in memory, which fails for as long as it is told to."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.fails = False

    def put(self, path: str, data: bytes) -> None:
        self._look()
        self.files[path] = data

    def remove(self, path: str) -> None:
        self._look()
        self.files = {
            name: data for name, data in self.files.items() if name != path and not name.startswith(path + "/")
        }

    def _look(self) -> None:
        if self.fails:
            raise errors.StoreFailed("it does not answer")


def test_what_is_committed_and_what_is_gone_is_so_there_too() -> None:
    twin = Twin()
    one = replication.Replication(twin)
    one.committed("config.data", b"1")
    one.committed("queue/1/job.json", b"job")
    one.committed("config.data", b"2")
    one.gone("queue/1")
    assert twin.files == {"config.data": b"2"}


def test_what_a_replica_missed_is_handed_over_with_the_next_success(caplog: pytest.LogCaptureFixture) -> None:
    twin = Twin()
    one = replication.Replication(twin)
    one.committed("queue/1/job.json", b"old")
    twin.fails = True
    one.committed("config.data", b"1")
    one.committed("config.data", b"2")
    one.gone("queue/1/job.json")
    assert one.missed == ["config.data", "queue/1/job.json"]
    assert len(caplog.records) == 1
    twin.fails = False
    one.committed("queue/2/job.json", b"new")
    assert (twin.files, one.missed) == ({"config.data": b"2", "queue/2/job.json": b"new"}, [])


@pytest.mark.parametrize("path", ["hmac.key", "etc/bmc.json"])
def test_a_secret_never_leaves(path: str) -> None:
    twin = Twin()
    with pytest.raises(errors.InvalidInput, match="is a secret, and stays here"):
        replication.Replication(twin).committed(path, b"x")
    assert twin.files == {}


def test_without_another_place_nothing_is_missed() -> None:
    one = replication.Replication(replication.NoReplica())
    one.committed("config.data", b"1")
    one.gone("config.data")
    assert one.missed == []
