from __future__ import annotations

from ansible_collections.roundsman.cluster.plugins.plugin_utils.rounds import waves


def test_the_third_move_at_a_node_waits_for_the_first_when_two_may_run() -> None:
    wave = waves.Waves(limit=2)
    admitted = [wave.admit(f"move{k}", nodes=["n"], incident="a") for k in range(4)]
    assert admitted == [((), ()), ((), ()), (("move0",), ()), (("move1",), ())]


def test_moves_at_different_nodes_do_not_wait_for_each_other() -> None:
    wave = waves.Waves(limit=1)
    wave.admit("one", nodes=["n"], incident="a")
    assert wave.admit("two", nodes=["m"], incident="a") == ((), ())


def test_a_move_waits_once_for_a_move_that_it_meets_at_two_nodes() -> None:
    wave = waves.Waves(limit=1)
    wave.admit("one", nodes=["n", "m"], incident="a")
    assert wave.admit("two", nodes=["m", "n"], incident="a") == (("one",), ())


def test_a_move_of_another_incident_is_waited_for_but_need_not_succeed() -> None:
    wave = waves.Waves(limit=1)
    wave.admit("one", nodes=["n"], incident="a")
    assert wave.admit("two", nodes=["n"], incident="b") == ((), ("one",))


def test_a_limit_below_one_still_lets_one_move_run() -> None:
    wave = waves.Waves(limit=0)
    wave.admit("one", nodes=["n"], incident="a")
    assert wave.admit("two", nodes=["n"], incident="a") == (("one",), ())


def test_urgent_moves_wait_for_each_other_only() -> None:
    wave = waves.Waves(limit=2)
    for key in ("copy1", "copy2", "copy3"):
        wave.admit(key, nodes=["n"], incident="b")
    admitted = [wave.admit(f"move{k}", nodes=["n"], incident="a", urgent=True) for k in range(3)]
    assert admitted == [((), ()), ((), ()), (("move0",), ())]


def test_whatever_is_not_urgent_waits_for_the_last_urgent_moves_at_its_nodes() -> None:
    wave = waves.Waves(limit=2)
    for k in range(3):
        wave.admit(f"move{k}", nodes=["n"], incident="a", urgent=True)
    assert wave.admit("own", nodes=["n"], incident="a") == (("move1", "move2"), ())
    assert wave.admit("other", nodes=["n", "m"], incident="b") == ((), ("move1", "move2"))
    assert wave.admit("third", nodes=["n"], incident="a") == (("own", "move1", "move2"), ())
    assert wave.admit("elsewhere", nodes=["m"], incident="a") == ((), ())
