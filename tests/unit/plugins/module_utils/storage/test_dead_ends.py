"""No dead ends: from what faults and kills leave, the commands that texts name bring an instance up."""

from __future__ import annotations

import dataclasses
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest
from ansible_collections.roundsman.cluster.daemon.lab.simulator import simulated_replica, simulated_store
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks.drbd_pairs import Action
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.module_utils.storage import drbd_repairing, drbd_roles
from ansible_collections.roundsman.cluster.plugins.module_utils.storage.volumes import Volumes
from hypothesis import strategies as st

from .administration import INSTANCE, Administration, named
from .copies import NAME

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_STEPS = 5
NODES = ("n1", "n2", "n3")
LINKS = (("n1", "n2"), ("n1", "n3"), ("n2", "n3"))
START = f"roundsman instance start {INSTANCE}"
PLAYS = ("start", "failover", "replace n1", "replace n2", "replace n3", "repair")
SCENES: dict[str, tuple[tuple[str, Any], ...]] = {
    "nothing": (),
    "both wrote": (("cut", LINKS[0]), ("failover", 99), ("stray", "n1")),
    "a failover that was killed before the guest started": (
        ("cut", LINKS[0]),
        ("off", "n1"),
        ("failover", 5),
        ("boot", "n1"),
        ("stray", "n1"),
    ),
    "a secondary that was outdated": (("cut", LINKS[0]), ("rest", None), ("outdate", None)),
    "an outdated secondary whose primary is off": (("cut", LINKS[0]), ("outdate", None), ("off", "n1")),
    # The replacement broke off when the new replica was in sync, and the old one was written and outdated meanwhile.
    "a replacement that broke off beside an outdated secondary": (
        ("replace n3", 18),
        ("rest", None),
        ("stray", "n2"),
        ("outdate anyhow", "n2"),
        *(deed for _ in range(4) for deed in (("cut", LINKS[1]), ("rest", None), ("restore", LINKS[1]))),
    ),
}
DEEDS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["cut", "restore"]), st.sampled_from(LINKS)),
        st.tuples(st.sampled_from(["off", "boot", "stray"]), st.sampled_from(NODES)),
        st.tuples(st.sampled_from(["outdate", "stop", "rest"]), st.none()),
        st.tuples(st.sampled_from(PLAYS), st.integers(0, 30)),
    ),
    max_size=9,
)


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing changes by waiting: the clock of the nodes goes when a test says so."""
    for limit in ("PATIENCE", "IN_USE", "PAUSE"):
        monkeypatch.setattr(drbd_roles, limit, 0.0)


def happen(one: Administration, deed: str, about: Any) -> None:
    """One thing that happens; what cannot happen now does not."""
    acts: dict[str, Callable[[], object]] = {
        "cut": lambda: one.link(*about, is_cut=True),
        "restore": lambda: one.link(*about, is_cut=False),
        "off": lambda: one.lose_power(about),
        "boot": lambda: None if one.is_on(about) else one.boot(about),
        "stray": lambda: one.stray(about),
        "outdate": one.outdate,
        "outdate anyhow": lambda: one.at(about).drbdadm("outdate", NAME),
        "stop": lambda: one.stop() if one.is_on(one.primary) else None,
        "rest": one.rest,
    }
    act = acts.get(deed)
    if act is None:
        verb, _, node = deed.partition(" ")
        options = {"failover": " --ignore-consistency", "replace": f" --to {node}"}.get(verb, "")
        name = {"repair": "repair-disks", "replace": "replace-disks"}.get(verb, verb)
        one.kill(lambda: one.do(f"roundsman instance {name} {INSTANCE}{options}"), after=about)
    else:
        act()
    one.rest()


def follow(one: Administration, *, first: str = START, choice: int = 0) -> list[str]:
    """Follow the commands of texts blindly until the instance runs, or for the most steps; what was done and said.

    Of several that a text names the choice is which one comes first; what was done is followed by the start.
    """
    told: list[str] = []
    tried: set[str] = set()
    command = first
    for _ in range(MOST_STEPS):
        tried.add(command)
        text = one.do(command)
        told.append(f"{command}: {text or 'done'}")
        if one.guests:
            break
        fresh = [each for each in named(text) if each not in tried]
        command = fresh[choice % len(fresh)] if fresh else START
    return told


def in_peace(one: Administration, *, dead: str) -> None:
    """After a power cut links and nodes are back, but for one that is lost for good, which a person sets offline."""
    for name in sorted(one.guests):
        one.lose_power(name)
    for one_node, other in LINKS:
        one.link(one_node, other, is_cut=False)
    for name in NODES:
        if name == dead:
            if one.is_on(name):
                one.lose_power(name)
            one.offline.add(name)
        elif not one.is_on(name):
            one.boot(name)
    one.find()
    one.rest()


@pytest.mark.parametrize("choice", range(3))
@pytest.mark.parametrize("command", ["start", "failover", "replace-disks --to n3", "repair-disks"])
@pytest.mark.parametrize("scene", SCENES)
def test_each_command_works_or_names_one_that_does(scene: str, command: str, choice: int, tmp_path: Path) -> None:
    verb, *options = command.split()
    one = Administration(tmp_path)
    for deed, about in SCENES[scene]:
        happen(one, deed, about)
    in_peace(one, dead="")
    told = follow(one, first=" ".join(["roundsman instance", verb, INSTANCE, *options]), choice=choice)
    assert len(one.guests) == 1, "\n".join(told)


def replicas_that_a_comparison_found_to_differ(one: Administration) -> None:
    with simulated_store.opened(one.nodes, now=one.clock.now) as store:
        pair = store.pair("n1", NAME)
        mine, other = pair.sides
        assert mine.metadata is not None
        marked = dataclasses.replace(mine, metadata=dataclasses.replace(mine.metadata, dirty=40))
        store.keep("n1", NAME, dataclasses.replace(pair, sides=(marked, other)))


def replicas_without_data_in_common(one: Administration) -> None:
    second = one.at("n2")
    one.link("n1", "n2", is_cut=True)
    second.drbdadm("down", NAME)
    second.run("drbdadm", "create-md", "--force", NAME)
    for command in (("up",), ("primary", "--force")):
        second.run("drbdadm", *command, NAME)
    one.stray("n2")
    second.drbdadm("secondary", NAME)
    one.link("n1", "n2", is_cut=False)


def a_primary_without_its_disk_and_its_peer(one: Administration) -> None:
    one.stop()
    one.link("n1", "n2", is_cut=True)
    one.at("n1").drbdadm("detach", NAME)


def replicas_that_refuse_each_other(one: Administration) -> None:
    path = one.at("n2").root / f"etc/drbd.d/roundsman-{NAME}.res"
    path.write_text(re.sub('shared-secret "[^"]*"', 'shared-secret "another"', path.read_text()))
    if one.at("n2").resources[NAME].connection != "StandAlone":
        one.at("n2").drbdadm("disconnect", NAME)
    one.at("n2").drbdadm("connect", NAME)


def replicas_that_refuse_each_other_of_which_the_secondary_is_newer(one: Administration) -> None:
    one.stop()
    one.link("n1", "n2", is_cut=True)
    one.stray("n2")
    replicas_that_refuse_each_other(one)
    one.link("n1", "n2", is_cut=False)


def a_secondary_without_power(one: Administration) -> None:
    one.lose_power("n2")


def a_primary_without_power(one: Administration) -> None:
    one.lose_power("n1")
    one.is_loss_accepted = True


def _as_primary(device: simulated_replica.Device | None) -> simulated_replica.Device:
    assert device is not None
    return dataclasses.replace(device, role="Primary")


def primaries_of_which_neither_was_written(one: Administration) -> None:
    one.stop()
    one.link("n1", "n2", is_cut=True)
    for name in ("n1", "n2"):
        one.at(name).drbdadm("disconnect", NAME)
    with simulated_store.opened(one.nodes, now=one.clock.now) as store:
        pair = store.pair("n1", NAME)
        first, second = (dataclasses.replace(side, device=_as_primary(side.device)) for side in pair.sides)
        store.keep("n1", NAME, dataclasses.replace(pair, sides=(first, second)))
    one.link("n1", "n2", is_cut=False)


@pytest.mark.parametrize(
    ("state", "count"),
    [
        (replicas_that_a_comparison_found_to_differ, 2),
        (replicas_that_refuse_each_other, 1),
        (replicas_that_refuse_each_other_of_which_the_secondary_is_newer, 2),
        (a_secondary_without_power, 2),
        (a_primary_without_power, 2),
        (replicas_without_data_in_common, 2),
        (a_primary_without_its_disk_and_its_peer, 1),
    ],
)
def test_a_repair_that_a_person_decides_names_the_commands_and_each_is_done(
    state: Callable[[Administration], None], count: int, tmp_path: Path
) -> None:
    one = Administration(tmp_path)
    state(one)
    one.rest()
    text = one.do(f"roundsman instance repair-disks {INSTANCE}")
    assert len(named(text)) == count, text
    for command in named(text):
        assert one.do(command) == "", command
    assert one.guests == {one.primary}


def replicas_that_were_both_written(one: Administration) -> None:
    for deed, about in SCENES["both wrote"]:
        happen(one, deed, about)
    one.link("n1", "n2", is_cut=False)


def a_secondary_that_stands_alone(one: Administration) -> None:
    one.at("n2").drbdadm("disconnect", NAME)


def test_of_two_primaries_that_were_not_written_the_text_closes_one_and_discards_nothing(tmp_path: Path) -> None:
    one = Administration(tmp_path)
    primaries_of_which_neither_was_written(one)
    text = one.do(f"roundsman instance repair-disks {INSTANCE}")
    assert "both sides are primary, and not connected" in text
    assert named(text) == [f"roundsman instance repair-disks {INSTANCE}"]
    one.at("n2").drbdadm(*re.findall(r"`drbdadm ([a-z]+) ([^`]*)`", text)[0])
    assert one.do(named(text)[0]) == ""
    assert one.at("n1").resources[NAME].peer_disk == "UpToDate"


def test_a_split_brain_whose_nodes_refuse_each_other_is_ended_as_the_text_says(tmp_path: Path) -> None:
    one = Administration(tmp_path)
    replicas_that_were_both_written(one)
    replicas_that_refuse_each_other(one)
    text = one.do(f"roundsman instance repair-disks {INSTANCE} --discard {one.secondary}")
    assert "what the secondary wrote is given up, and the two do not connect" in text
    assert one.at(one.secondary).resources[NAME].disk == "Inconsistent"
    assert [name for name in one.at(one.secondary).volumes if ".discarded" in name]
    assert [one.do(command) for command in named(text)] == [""]
    assert one.at(one.primary).resources[NAME].peer_disk == "UpToDate"


@pytest.mark.parametrize(
    "state",
    [
        replicas_that_were_both_written,
        replicas_that_refuse_each_other,
        a_secondary_that_stands_alone,
        replicas_without_data_in_common,
    ],
)
def test_a_person_who_ignores_consistency_fails_over_to_a_replica_that_stands_alone(
    state: Callable[[Administration], None], tmp_path: Path
) -> None:
    one = Administration(tmp_path)
    state(one)
    one.rest()
    target = one.secondary
    assert one.at(target).resources[NAME].connection == "StandAlone"
    command = f"roundsman instance failover {INSTANCE}"
    text = one.do(command)
    assert f"the disks of {INSTANCE} on {target} cannot be used: stands alone" in text
    assert f"`roundsman instance repair-disks {INSTANCE}`" in text
    assert one.do(f"{command} --ignore-consistency") == ""
    assert (one.guests, one.primary) == ({target}, target)


def replicas_that_are_both_incomplete(one: Administration) -> None:
    one.stop()
    for name in ("n1", "n2"):
        one.at(name).drbdadm("disconnect", NAME)
        one.at(name).drbdadm("invalidate", NAME)
    for name in ("n1", "n2"):
        one.at(name).drbdadm("connect", NAME)


def test_of_two_incomplete_replicas_a_person_says_whose_data_count(tmp_path: Path) -> None:
    one = Administration(tmp_path)
    replicas_that_are_both_incomplete(one)
    one.rest()
    text = one.do(f"roundsman instance repair-disks {INSTANCE}")
    assert "neither side is up to date: Inconsistent on the primary and Inconsistent on the secondary" in text
    forced = re.findall(rf"`drbdadm ([a-z]+) (--force )?{NAME}`", text)
    assert [verb for verb, _ in forced] == ["primary", "secondary"]
    for verb, option in forced:
        one.at("n1").drbdadm(verb, NAME, *option.split())
    one.rest()
    assert one.do(f"roundsman instance repair-disks {INSTANCE}") == ""
    assert one.do(START) == ""
    assert one.at("n2").resources[NAME].disk == "UpToDate"


def test_two_replicas_that_never_had_data_are_started_as_the_text_says(tmp_path: Path) -> None:
    one = Administration(tmp_path)
    one.stop()
    for name in ("n1", "n2"):
        one.at(name).drbdadm("down", NAME)
        one.at(name).do("drbdadm", "create-md", "--force", NAME)
    for name in ("n1", "n2"):
        one.at(name).drbdadm("up", NAME)
    one.rest()
    text = one.do(f"roundsman instance repair-disks {INSTANCE}")
    assert named(text) == [START]
    assert one.do(START) == ""
    assert one.guests == {"n1"}


def older_than_the_secondary(one: Administration) -> None:
    """A resync ended on n2 and not on n1, n2 was written, and the guest was started by hand on n1."""
    one.stop()
    one.link("n1", "n2", is_cut=True)
    with simulated_store.opened(one.nodes, now=one.clock.now) as store:
        pair = store.pair("n1", NAME)
        mine, other = pair.sides
        assert mine.metadata is not None
        marked = dataclasses.replace(mine, metadata=dataclasses.replace(mine.metadata, bitmap=0x1234560))
        store.keep("n1", NAME, dataclasses.replace(pair, sides=(marked, other)))
    one.stray("n2")
    one.at("n1").drbdadm("primary", NAME)
    one._guest("n1")
    one.link("n1", "n2", is_cut=False)


@pytest.mark.parametrize(("commands", "secondary"), [(slice(2), "n2"), (slice(2, 4), "n3")])
def test_an_instance_that_runs_on_older_data_gets_those_that_a_person_chooses(
    commands: slice, secondary: str, tmp_path: Path
) -> None:
    one = Administration(tmp_path)
    older_than_the_secondary(one)
    text = one.do(f"roundsman instance repair-disks {INSTANCE}")
    assert "the instance runs on data that are older than those of its secondary" in text
    assert len(named(text)) == 4, text
    for command in (*named(text)[commands], START):
        # The old secondary, which still waits for its primary, may meet it once more: the text says to run it again.
        for again in named(one.do(command)):
            assert one.do(again) == "", again
    assert (one.guests, one.secondary) == ({"n1"}, secondary)
    assert one.at("n1").resources[NAME].peer_disk == "UpToDate"


@pytest.mark.parametrize("node", ["n1", "n2"])
def test_a_replica_that_a_full_resync_does_not_help_is_replaced_as_the_text_says(
    node: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = Administration(tmp_path)
    with simulated_store.opened(one.nodes, now=one.clock.now) as store:
        pair = store.pair(node, NAME)
        mine, other = (dataclasses.replace(side, device=side.device) for side in pair.sides)
        assert mine.device is not None
        assert other.device is not None
        mine = dataclasses.replace(mine, device=dataclasses.replace(mine.device, disk="Inconsistent"))
        other = dataclasses.replace(other, device=dataclasses.replace(other.device, peer_disk="Inconsistent"))
        store.keep(node, NAME, dataclasses.replace(pair, sides=(mine, other)))
    monkeypatch.setattr(drbd_repairing.Repairs, "_invalidate", lambda *_: [])
    text = one.do(f"roundsman instance repair-disks {INSTANCE}")
    assert "is Inconsistent, and nothing repairs it" in text
    assert len(named(text)) == (2 if node == "n1" else 1), text
    for command in named(text):
        assert one.do(command) == "", command
    assert one.guests == {one.primary} == {"n2" if node == "n1" else "n1"}
    assert one.at(one.primary).resources[NAME].peer_disk == "UpToDate"


@hypothesis.settings(
    max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(hypothesis.HealthCheck)
)
@hypothesis.given(scene=st.sampled_from(sorted(SCENES)), deeds=DEEDS, is_lost=st.booleans(), choice=st.integers(0, 3))
def test_texts_followed_blindly_bring_every_instance_up(
    scene: str, deeds: list[tuple[str, Any]], *, is_lost: bool, choice: int
) -> None:
    with tempfile.TemporaryDirectory(prefix="roundsman-dead-ends-") as folder:
        one = Administration(Path(folder))
        for deed, about in (*SCENES[scene], *deeds):
            happen(one, deed, about)
        in_peace(one, dead=one.secondary if is_lost else "")
        told = follow(one, choice=choice)
        assert one.guests, "\n".join(told)
        assert len(one.guests) == 1


def test_a_discard_that_ended_in_an_error_does_not_cost_the_whole_replica(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, tried = Administration(tmp_path), list[Action]()
    replicas_that_were_both_written(one)
    act = one._repair_step

    def broken_once(action: Action, name: str) -> None:
        tried.append(action)
        if tried.count(Action.DISCARD) == 1 and action is Action.DISCARD:
            raise errors.Failed("ssh: connection reset")
        act(action, name)

    monkeypatch.setattr(one, "_repair_step", broken_once)
    command = f"roundsman instance repair-disks {INSTANCE} --discard {one.secondary}"
    text = one.do(command)
    assert Action.GIVE_UP not in tried
    assert "could not be discarded" in text
    assert one.do(command) == ""
    assert one.at(one.primary).resources[NAME].peer_disk == "UpToDate"


def test_a_secondary_is_not_given_up_where_nothing_of_it_can_be_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = Administration(tmp_path)
    replicas_that_were_both_written(one)
    replicas_that_refuse_each_other(one)
    monkeypatch.setattr(Volumes, "room", lambda *_: 0.0)
    text = one.do(f"roundsman instance repair-disks {INSTANCE} --discard {one.secondary}")
    assert "the secondary invalidated (there, `drbdadm disconnect`" in text
    assert one.at(one.secondary).resources[NAME].disk == "UpToDate"
