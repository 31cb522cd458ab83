"""An emergency power off of a migration that has not ended, and took the guest to its target."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from . import interceptions, labs, states
from .test_dead_nodes import runs
from .test_epo import epo
from .test_world_epo import killed_by_power, powered
from .test_world_evidence import ended
from .test_world_unfinished import NAME, PAIR, SLOW, where

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.slow


def unheard(lab: Callable[..., labs.Running], tmp_path: Path) -> labs.Running:
    """A lab without a daemon whose node2 was not told that the guest arrived on node3, and keeps a note of that."""
    one = lab(nodes=4, instances=1, pairs=PAIR)
    labs.report_all(one)
    one.lab.node("node2").fail_migrations("after")
    seen = interceptions.Interception(one, tmp_path / "killed", node="node2", words=("instance_migrate",), stays=True)
    assert one.put(f"/2/instances/{NAME}/migrate").is_success
    seen.wait(seconds=SLOW)
    one.kill_with_jobs()
    one.lab.node("node3").silence(is_silent=True)
    one.start()
    one.until(states.at_rest, "it was looked for, and node3 did not say whether it runs there", seconds=SLOW)
    one.stop()
    one.lab.node("node3").silence(is_silent=False)
    assert (where(one), runs(one, "node2"), runs(one, "node3")) == (("node2", "node3"), [], [NAME])
    return one


@pytest.mark.parametrize("nodes", [("node2", "node3"), ("node2",)], ids=["both", "the source"])
def test_it_takes_the_power_of_each_node_and_the_instance_is_looked_for_before_it_is_back(
    lab: Callable[..., labs.Running], tmp_path: Path, nodes: tuple[str, ...]
) -> None:
    one = unheard(lab, tmp_path)

    off = epo(one, *nodes, "--force")

    assert off.returncode == 0, off.stdout + off.stderr
    assert powered(one) == [name for name in ("node1", "node2", "node3", "node4") if name not in nodes]
    assert runs(one, "node3") == ([] if "node3" in nodes else [NAME])
    assert killed_by_power(one) == []
    assert where(one) == ("node2", "node3"), "nobody has seen that it runs nowhere"

    on = epo(one, "--on", "--force")
    assert on.returncode == 2, on.stdout + on.stderr
    assert f"{NAME} does not run on node2, and is not started, as a migration" in on.stdout
    assert runs(one, "node2") == []

    one.start()
    started = ended(one, one.put(f"/2/instances/{NAME}/startup"))
    assert started["status"] == "success", started
    primary = "node2" if "node3" in nodes else "node3"
    assert (where(one), runs(one, primary)) == ((primary, ""), [NAME])
    on = epo(one, "--on", "--force")
    assert on.returncode == 0, on.stdout + on.stderr
    assert one.cluster().maintenance.epo is None
    one.until(states.at_rest, "nothing is left", seconds=SLOW)
    assert one.wrong() == []
