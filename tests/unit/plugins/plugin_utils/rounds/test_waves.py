from __future__ import annotations

from ansible_collections.roundsman.cluster.plugins.plugin_utils.rounds import unfinished, waves, work

from . import tables

FREE = waves.Admitted()


def test_the_third_move_at_a_node_waits_for_the_first_when_two_may_run() -> None:
    wave = waves.Waves(limit=2)
    admitted = [wave.admit(f"move{k}", nodes=["n"], incident="a") for k in range(4)]
    assert admitted == [FREE, FREE, waves.Admitted(("move0",)), waves.Admitted(("move1",))]


def test_moves_at_different_nodes_do_not_wait_for_each_other() -> None:
    wave = waves.Waves(limit=1)
    wave.admit("one", nodes=["n"], incident="a")
    assert wave.admit("two", nodes=["m"], incident="a") == FREE


def test_a_move_waits_once_for_a_move_that_it_meets_at_two_nodes() -> None:
    wave = waves.Waves(limit=1)
    wave.admit("one", nodes=["n", "m"], incident="a")
    assert wave.admit("two", nodes=["m", "n"], incident="a") == waves.Admitted(("one",))


def test_a_move_of_another_incident_is_waited_for_but_need_not_succeed() -> None:
    wave = waves.Waves(limit=1)
    wave.admit("one", nodes=["n"], incident="a")
    assert wave.admit("two", nodes=["n"], incident="b") == waves.Admitted(others=("one",))


def test_a_limit_below_one_still_lets_one_move_run() -> None:
    wave = waves.Waves(limit=0)
    wave.admit("one", nodes=["n"], incident="a")
    assert wave.admit("two", nodes=["n"], incident="a") == waves.Admitted(("one",))


def test_urgent_moves_wait_for_each_other_only() -> None:
    wave = waves.Waves(limit=2)
    for key in ("copy1", "copy2", "copy3"):
        wave.admit(key, nodes=["n"], incident="b")
    admitted = [wave.admit(f"move{k}", nodes=["n"], incident="a", urgent=True) for k in range(3)]
    assert admitted == [FREE, FREE, waves.Admitted(("move0",))]


def test_whatever_is_not_urgent_waits_for_the_last_urgent_moves_at_its_nodes() -> None:
    wave = waves.Waves(limit=2)
    for k in range(3):
        wave.admit(f"move{k}", nodes=["n"], incident="a", urgent=True)
    assert wave.admit("own", nodes=["n"], incident="a") == waves.Admitted(("move1", "move2"))
    assert wave.admit("other", nodes=["n", "m"], incident="b") == waves.Admitted(others=("move1", "move2"))
    assert wave.admit("third", nodes=["n"], incident="a") == waves.Admitted(("own", "move1", "move2"))
    assert wave.admit("elsewhere", nodes=["m"], incident="a") == FREE


CLUSTER = tables.read("node1 9 9 unpowered\nnode2 9 9\nnode3 9 9\ninstance1 drbd 1 1 node2 node3\n")


def _job(number: int, *depends: int, source: str = "node2", kind: str = "migrate") -> unfinished.Job:
    params = {"instance": f"u-other{number}", "source": f"u-{source}", "target": "u-node3"}
    return unfinished.Job(number, (work.Opcode(kind, params),), depends=depends)


def _counted(limit: int, *jobs: unfinished.Job) -> waves.Waves:
    wave = waves.Waves(limit=limit)
    wave.count(unfinished.claims(CLUSTER, jobs))
    return wave


def test_unfinished_jobs_have_their_places_in_chains() -> None:
    wave = _counted(2, _job(1), _job(2), _job(3, 1))
    assert wave.admit("one", nodes=["u-node3"], incident=None) == waves.Admitted(earlier=(2,))
    assert wave.admit("two", nodes=["u-node3"], incident=None) == waves.Admitted(earlier=(3,))
    assert wave.admit("three", nodes=["u-node3"], incident="a") == waves.Admitted(others=("one",))


def test_jobs_of_one_chain_do_not_stand_for_two_whatever_has_ended_of_the_other() -> None:
    wave = _counted(2, _job(1), _job(5, 3), _job(7, 5))
    assert wave.admit("one", nodes=["u-node2"], incident=None) == waves.Admitted(earlier=(1,))
    assert wave.admit("two", nodes=["u-node2"], incident=None) == waves.Admitted(earlier=(7,))


def test_where_more_run_than_the_limit_now_is_as_many_more_end_first() -> None:
    assert _counted(2, _job(1), _job(2), _job(3)).admit("one", nodes=["u-node2"], incident=None).earlier == (1, 2)


def test_unfinished_failovers_off_a_dead_node_keep_urgent_ones_in_their_slots_and_hold_others_back() -> None:
    wave = _counted(1, _job(1, source="node1", kind="failover"), _job(2))
    assert wave.admit("urgent", nodes=["u-node3"], incident="a", urgent=True).earlier == (1,)
    assert wave.admit("other", nodes=["u-node3"], incident="a") == waves.Admitted(own=("urgent",), earlier=(2,))
