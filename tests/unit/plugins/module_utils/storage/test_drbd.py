from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.daemon.lab.simulator import simulated_replica, simulated_world
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks import replacements
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks.drbd_generations import (
    Relation,
    is_noted,
    relation,
)
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.module_utils.storage import (
    disks,
    drbd,
    drbd_node,
    drbd_roles,
    templates,
)
from ansible_collections.roundsman.cluster.plugins.module_utils.storage.disks import Disk, State

from tests.unit.plugins.module_utils.storage.copies import (
    DATA,
    META,
    NAME,
    ONE,
    THREE,
    TWO,
    become,
    new_pair,
    storage,
    up_to_date,
)

if TYPE_CHECKING:
    from tests.unit.plugins.module_utils.storage.machine import Machine

DEVICE = "/dev/drbd3"


@pytest.fixture
def pair(machine: Machine) -> Machine:
    """A resource that is connected, and up to date on both of its nodes."""
    return up_to_date(machine)


def resync(pair: Machine, *, of: Machine, speed: int = 0) -> None:
    """All of a node's replica is copied anew, at so many KiB per second."""
    pair.set_resync_speed(speed)
    of.drbdadm("invalidate", NAME)


def test_a_copy_is_made_of_two_volumes_metadata_a_file_and_a_connection_that_is_tried(machine: Machine) -> None:
    assert become(machine, State.PRESENT) == [
        f"make the volume {DATA} of 64 MiB",
        f"make the volume {META} of 1 MiB",
        f"make the metadata of {NAME}",
        f"write {machine.root}/etc/drbd.d/roundsman-{NAME}.res with n2 as peer",
        f"adjust {NAME}",
    ]
    assert set(machine.volumes) == {DATA, META}
    assert machine.resources[NAME].connection == "WFConnection"
    assert [path.name for path in (machine.root / "etc/drbd.d").iterdir()] == [f"roundsman-{NAME}.res"]
    assert (machine.root / f"etc/drbd.d/roundsman-{NAME}.res").stat().st_mode & 0o777 == 0o600


def test_the_steps_are_known_before_any_is_done(machine: Machine) -> None:
    storage(machine).steps(State.PRESENT)
    assert (machine.volumes, machine.resources, machine.ran) == ({}, {}, ["modprobe drbd"])


@pytest.mark.parametrize("command", ["lvcreate", "drbdadm --config-file", "drbdadm adjust"])
def test_what_was_interrupted_goes_on_where_it_was(machine: Machine, command: str) -> None:
    machine.broken[command] = "killed"
    with pytest.raises(errors.Failed, match="killed"):
        templates.done(storage(machine).steps(State.PRESENT))
    machine.broken.clear()
    become(machine, State.PRESENT)
    assert machine.resources[NAME].disk == "Inconsistent"
    assert machine.metadata(NAME).current == simulated_replica.FRESH


def test_metadata_are_made_anew_when_their_volume_is_gone_even_if_that_is_interrupted(machine: Machine) -> None:
    become(machine, State.PRESENT)
    machine.drbdadm("down", NAME)
    machine.do("lvremove", "--yes", META)
    machine.broken["drbdadm --config-file"] = "killed"
    with pytest.raises(errors.Failed, match="killed"):
        templates.done(storage(machine).steps(State.PRESENT))
    assert machine.configured(NAME) == ""
    machine.broken.clear()
    assert f"make the metadata of {NAME}" in become(machine, State.PRESENT)


def test_metadata_that_are_there_are_never_made_anew(pair: Machine) -> None:
    before = pair.metadata(NAME)
    pair.drbdadm("down", NAME)
    pair.do("lvchange", "--activate", "n", DATA)
    assert become(pair, State.PRESENT) == [f"activate the volume {DATA}", f"adjust {NAME}"]
    assert pair.metadata(NAME) == before


def test_the_first_primary_of_a_new_pair_says_that_its_data_count(machine: Machine) -> None:
    new_pair(machine)
    assert become(machine, State.ACTIVE) == [f"make {NAME} primary"]
    assert machine.ran[-1] == f"drbdadm primary --force {NAME}"


@pytest.mark.parametrize("peer_is_there", [False, True])
def test_nothing_is_forced_where_there_may_be_data(machine: Machine, peer_is_there: bool) -> None:
    if peer_is_there:
        # Both replicas were told to be copied anew while they stood alone: they are not new, and none has all data.
        for verb in ("disconnect", "invalidate", "connect"):
            for node in (up_to_date(machine) if verb == "disconnect" else machine, machine.peer()):
                node.drbdadm(verb, NAME)
        assert machine.resources[NAME].peer_disk == "Inconsistent"
    else:
        become(machine, State.PRESENT)
    with pytest.raises(errors.Failed, match="Need access to UpToDate data"):
        templates.done(storage(machine, alone=True).steps(State.ACTIVE))
    assert machine.resources[NAME].role == "Secondary"


@pytest.mark.parametrize("state", ["WFConnection", "StandAlone"])
def test_a_replica_without_its_peer_is_promoted_only_by_who_knows_that_it_is_the_newest(
    pair: Machine, state: str
) -> None:
    # DRBD leaves a secondary up to date whose link is cut while its primary writes on.
    pair.set_link(is_cut=True)
    if state == "StandAlone":
        pair.drbdadm("disconnect", NAME)
    assert pair.resources[NAME].connection == state
    with pytest.raises(errors.Refused, match="its peer may have newer data: it is not made primary"):
        templates.done(storage(pair).steps(State.ACTIVE))
    assert pair.resources[NAME].role == "Secondary"
    become(pair, State.ACTIVE, alone=True)
    assert pair.resources[NAME].role == "Primary"
    assert become(pair, State.ACTIVE) == []
    assert become(pair, State.STANDBY) == [f"make {NAME} secondary"]


def test_an_outdated_replica_without_its_peer_is_promoted_only_by_force_and_check_mode_says_so(pair: Machine) -> None:
    pair.set_link(is_cut=True)
    pair.drbdadm("outdate", NAME)
    with pytest.raises(errors.Failed, match="Need access to UpToDate data") as refused:
        templates.done(storage(pair, alone=True).steps(State.ACTIVE))
    assert "`roundsman instance start NAME --discard NODE`" in str(refused.value)
    assert become(pair, State.ACTIVE, alone=True, force=True) == [
        f"make {NAME} primary by force, because it is Outdated and its peer is gone"
    ]
    assert (pair.ran[-1], pair.resources[NAME].disk) == (f"drbdadm primary --force {NAME}", "UpToDate")


@pytest.mark.parametrize("case", ["inconsistent", "syncing", "connected", "up to date"])
def test_no_other_replica_is_promoted_by_force(pair: Machine, case: str) -> None:
    if case == "inconsistent":
        pair.set_link(is_cut=True)
        pair.drbdadm("disconnect", NAME)
        pair.drbdadm("invalidate", NAME)
    elif case == "syncing":
        resync(pair, of=pair)
    elif case == "up to date":
        pair.set_link(is_cut=True)
    with contextlib.suppress(errors.Failed):
        become(pair, State.ACTIVE, alone=True, force=True)
    assert not any("--force" in command for command in pair.ran)


@pytest.mark.parametrize("is_old", [False, True])
def test_a_replica_that_may_be_promoted_as_it_is_waits_for_nobody(
    pair: Machine, monkeypatch: pytest.MonkeyPatch, is_old: bool
) -> None:
    pair.set_link(is_cut=True)
    if is_old:
        pair.drbdadm("outdate", NAME)
    monkeypatch.setattr(drbd_roles, "PATIENCE", 60.0)
    monkeypatch.setattr(time, "sleep", lambda _seconds: pytest.fail("it waits"))
    become(pair, State.ACTIVE, alone=True, force=is_old)
    assert pair.resources[NAME].role == "Primary"


def test_an_old_replica_waits_for_its_peer_and_is_not_forced_once_it_is_there(
    pair: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair.set_link(is_cut=True)
    pair.drbdadm("outdate", NAME)
    monkeypatch.setattr(drbd_roles, "PATIENCE", 60.0)
    monkeypatch.setattr(time, "sleep", lambda _seconds: pair.set_link(is_cut=False))
    become(pair, State.ACTIVE, alone=True)
    assert (pair.ran[-1], pair.resources[NAME].disk) == (f"drbdadm primary {NAME}", "UpToDate")


def test_an_old_replica_whose_peer_comes_back_before_it_is_promoted_is_not_forced(pair: Machine) -> None:
    pair.set_link(is_cut=True)
    pair.drbdadm("outdate", NAME)
    steps = storage(pair, alone=True, force=True).steps(State.ACTIVE)
    pair.set_link(is_cut=False)
    templates.done(steps)
    assert (pair.ran[-1], pair.resources[NAME].disk) == (f"drbdadm primary {NAME}", "UpToDate")


def test_what_may_not_be_alone_is_not_promoted_by_force(pair: Machine) -> None:
    pair.set_link(is_cut=True)
    pair.drbdadm("outdate", NAME)
    with pytest.raises(errors.Refused, match="it is not made primary"):
        templates.done(storage(pair, force=True).steps(State.ACTIVE))


def test_a_replica_that_gets_its_peer_back_in_time_is_promoted(pair: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    pair.set_link(is_cut=True)
    monkeypatch.setattr(drbd_roles, "PATIENCE", 60.0)
    monkeypatch.setattr(time, "sleep", lambda _seconds: pair.set_link(is_cut=False))
    assert become(pair, State.ACTIVE) == [f"make {NAME} primary"]


def test_two_primaries_are_allowed_for_a_migration_and_no_longer_after_it(pair: Machine) -> None:
    become(pair, State.ACTIVE)
    assert become(pair, State.SHARED) == [f"allow two primaries of {NAME}"]
    assert become(pair.peer(), State.SHARED, peer=ONE) == [f"make {NAME} primary"]
    assert become(pair, State.STANDBY) == [f"make {NAME} secondary", f"no longer allow two primaries of {NAME}"]
    assert become(pair.peer(), State.STANDBY, peer=ONE) == [f"make {NAME} secondary"]
    assert become(pair, State.SHARED) == [f"allow two primaries of {NAME}", f"make {NAME} primary"]
    assert become(pair, State.ACTIVE) == [f"no longer allow two primaries of {NAME}"]
    assert "allow-two-primaries" not in pair.configured(NAME)


@pytest.mark.parametrize("is_cut", [False, True])
def test_copies_that_differ_are_never_written_on_both_nodes(pair: Machine, is_cut: bool) -> None:
    if is_cut:
        pair.set_link(is_cut=True)
    else:
        resync(pair, of=pair.peer())
        assert pair.resources[NAME].peer_disk == "Inconsistent"
    with pytest.raises(errors.Refused, match="only one may be primary"):
        storage(pair).steps(State.SHARED)
    assert pair.ran == []


def test_a_device_that_somebody_still_looks_at_is_tried_again(pair: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    become(pair, State.ACTIVE)
    pair.open("web1", DEVICE)
    with pytest.raises(errors.Failed, match="held open"):
        templates.done(storage(pair).steps(State.STANDBY))
    monkeypatch.setattr(drbd_roles, "IN_USE", 60.0)
    monkeypatch.setattr(time, "sleep", lambda _seconds: pair.close("web1"))
    become(pair, State.STANDBY)
    assert pair.resources[NAME].role == "Secondary"


def test_what_drbdadm_did_not_wait_for_is_asked_again(pair: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    run, tries = pair.run, iter(["hasty", "hasty"])

    def hasty(*command: str, **options: Any) -> str:
        if command[:2] == ("drbdadm", "primary") and next(tries, ""):
            raise errors.Failed("drbdadm primary: Command 'drbdsetup primary' did not terminate within 5 seconds")
        return run(*command, **options)

    monkeypatch.setattr(pair, "run", hasty)
    become(pair, State.ACTIVE)
    assert pair.resources[NAME].role == "Primary"
    become(pair, State.STANDBY)
    tries = iter(["hasty"] * 3)
    with pytest.raises(errors.Failed, match="did not terminate within 5 seconds"):
        templates.done(storage(pair).steps(State.ACTIVE))


@pytest.mark.parametrize("is_nine", [False, True])
def test_a_busy_node_does_not_tell_the_secret_of_a_pair(machine: Machine, *, is_nine: bool) -> None:
    if is_nine:
        machine.use_version_9()
    one = up_to_date(machine)
    secret = "n1-and-n2"
    assert f'shared-secret "{secret}"' in one.configured(NAME)
    simulated_world.set_busy(one.root, is_busy=True)
    for command in (("adjust", NAME), ("net-options", "--allow-two-primaries=yes", NAME)):
        with pytest.raises(errors.Failed, match=drbd_node.HASTY) as failed:
            one.do("drbdadm", *command)
        assert secret not in str(failed.value)
    simulated_world.set_busy(one.root, is_busy=False)
    one.drbdadm("adjust", NAME)


def test_a_new_peer_is_taken_while_the_primary_runs_on(pair: Machine) -> None:
    become(pair, State.ACTIVE)
    assert become(pair.peer(), State.DISCONNECTED, peer=ONE) == [f"disconnect {NAME}"]
    texts = become(pair, State.ACTIVE, peer=THREE)
    assert texts == [
        f"disconnect {NAME}",
        f"write {pair.root}/etc/drbd.d/roundsman-{NAME}.res with n3 as peer",
        f"adjust {NAME}",
    ]
    one = pair.resources[NAME]
    assert (one.role, one.connection, one.peer) == ("Primary", "WFConnection", "n3")
    assert "address ipv4 192.0.2.3:11003;" in pair.configured(NAME)


@pytest.mark.parametrize("command", ["drbdadm disconnect", "drbdadm adjust"])
def test_a_change_of_peers_that_was_interrupted_goes_on(pair: Machine, command: str) -> None:
    become(pair, State.ACTIVE)
    become(pair.peer(), State.DISCONNECTED, peer=ONE)
    pair.broken[command] = "killed"
    with pytest.raises(errors.Failed, match="killed"):
        templates.done(storage(pair, peer=THREE).steps(State.PRESENT))
    pair.broken.clear()
    become(pair, State.PRESENT, peer=THREE)
    assert (pair.resources[NAME].peer, pair.resources[NAME].connection) == ("n3", "WFConnection")
    assert "address ipv4 192.0.2.3:11003;" in pair.configured(NAME)
    assert pair.resources[NAME].role == "Primary"


def test_an_old_peer_that_still_waits_is_not_taken_for_the_new_one(pair: Machine) -> None:
    # DRBD 8.4 looks at no address: without a secret of the pair the old one would be connected, and seem in sync.
    become(pair, State.ACTIVE)
    templates.done(storage(pair, peer=THREE).steps(State.ACTIVE))
    assert pair.resources[NAME].connection == "StandAlone"
    assert pair.peer().resources[NAME].connection == "StandAlone"
    become(pair, State.ACTIVE, peer=THREE)
    assert pair.resources[NAME].connection == "WFConnection"


def test_what_a_secondary_has_is_older_once_its_peer_replicates_to_another_one(pair: Machine) -> None:
    # Two secondaries part without a new generation, and a primary that has its peer begins none.
    become(pair.peer(), State.DISCONNECTED, peer=ONE)
    assert become(pair, State.PRESENT, peer=THREE) == [
        f"disconnect {NAME}",
        f"begin a generation of {NAME}, which the old peer has not",
        f"write {pair.root}/etc/drbd.d/roundsman-{NAME}.res with n3 as peer",
        f"adjust {NAME}",
    ]
    assert pair.resources[NAME].role == "Secondary"
    old, new = (storage(one, generations=True).local_disks()[0].generation for one in (pair.peer(), pair))
    assert old is not None
    assert new is not None
    assert relation(new, old) is Relation.OURS_NEWER


def pair_with_another_secret(machine: Machine) -> tuple[Machine, Machine]:
    """Both nodes of a pair whose secret is not the one that they are given now, as after the cluster's key changed."""
    other = machine.peer()
    for node, peer in ((machine, TWO), (other, ONE)):
        templates.done(storage(node, peer=peer, secret="the-one-from-before").steps(State.PRESENT))
    machine.drbdadm("new-current-uuid", f"{NAME}/0", "--clear-bitmap")
    return machine, other


def test_a_pair_keeps_the_secret_that_it_has(machine: Machine) -> None:
    # What is written on one node only parts the two, and neither takes the other one any more.
    one, two = pair_with_another_secret(machine)
    for node, peer, state in ((one, TWO, State.ACTIVE), (one, TWO, State.SHARED), (two, ONE, State.SHARED)):
        become(node, state, peer=peer)
        assert (node.resources[NAME].connection, node.resources[NAME].role) == ("Connected", "Primary")
        assert "the-one-from-before" in node.configured(NAME)


def test_a_pair_gets_a_new_secret_with_the_disks_of_its_secondary(machine: Machine) -> None:
    one, two = pair_with_another_secret(machine)
    become(one, State.ACTIVE)
    become(two, State.ABSENT, peer=ONE, last=True)
    templates.done(storage(two, peer=ONE).steps(State.PRESENT))
    become(two, State.DISCONNECTED, peer=ONE)
    templates.done(storage(one, new_secret=True, alone=True).steps(State.ACTIVE))
    become(two, State.PRESENT, peer=ONE)
    one.clock.wait(60)
    assert {node.resources[NAME].connection for node in (one, two)} == {"Connected"}
    assert [disk.is_synced for disk in storage(one).local_disks()] == [True]
    assert "n1-and-n2" in one.configured(NAME)
    assert storage(one, new_secret=True).steps(State.ACTIVE) == []


def resyncing_with_another_secret(machine: Machine) -> Machine:
    """n2, to which n1 copies, while the two have another secret than the one that they are given now."""
    other = machine.peer()
    other.set_resync_speed(1)
    wanted = (Disk(10**6, minor=3),)
    for node, peer, state in ((machine, TWO, State.PRESENT), (other, ONE, State.PRESENT), (machine, TWO, State.ACTIVE)):
        templates.done(storage(node, peer=peer, secret="the-one-from-before", wanted=wanted).steps(state))
    assert (other.resources[NAME].connection, other.resources[NAME].disk) == ("SyncTarget", "Inconsistent")
    return other


def test_a_replacement_that_broke_off_in_its_resync_goes_on_under_another_secret(machine: Machine) -> None:
    other = resyncing_with_another_secret(machine)
    wanted = (Disk(10**6, minor=3),)
    other.set_link("n1", is_cut=True)

    for node, peer, state in (
        (other, ONE, State.PRESENT),
        (other, ONE, State.DISCONNECTED),
        (machine, TWO, State.ACTIVE),
    ):
        templates.done(storage(node, peer=peer, wanted=wanted, new_secret=True, alone=True).steps(state))
    other.set_link("n1", is_cut=False)
    templates.done(storage(other, peer=ONE, wanted=wanted, new_secret=True).steps(State.PRESENT))

    assert [node.resources[NAME].connection for node in (machine, other)] == ["SyncSource", "SyncTarget"]
    assert [node.configured(NAME).count("n1-and-n2") for node in (machine, other)] == [1, 1]
    other.set_resync_speed(10**8)
    other.clock.wait(600)
    assert [disk.is_synced for disk in storage(machine, wanted=wanted).local_disks()] == [True]


def test_a_replica_in_its_resync_gets_no_other_peer(machine: Machine) -> None:
    other = resyncing_with_another_secret(machine)
    with pytest.raises(errors.Refused, match="is Inconsistent on this node: it keeps its peer"):
        storage(other, peer=THREE, new_secret=True).steps(State.PRESENT)


def test_a_primary_in_its_resync_keeps_its_secret(pair: Machine) -> None:
    # It reads from its peer what it does not have yet.
    pair.set_resync_speed(1)
    become(pair, State.ACTIVE)
    pair.drbdadm("invalidate", NAME)
    assert (pair.resources[NAME].role, pair.resources[NAME].disk) == ("Primary", "Inconsistent")
    with pytest.raises(errors.Refused, match="is Inconsistent on this node: it keeps its peer"):
        storage(pair, secret="another", new_secret=True).steps(State.ACTIVE)


def test_a_replica_is_disconnected_where_nothing_but_drbd_works(pair: Machine) -> None:
    pair.broken["lvs"] = "Volume group not found"
    templates.done(storage(pair).steps(State.DISCONNECTED))
    assert pair.resources[NAME].connection == "StandAlone"


def test_the_generation_is_asked_again_where_drbdadm_did_not_wait_for_it(
    pair: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    (known,) = storage(pair, generations=True).local_disks()
    run, tries = pair.run, iter(["hasty", "hasty"])

    def hasty(*command: str, **options: Any) -> str:
        if command[:2] == ("drbdadm", "get-gi") and next(tries, ""):
            raise errors.Failed("drbdadm get-gi: Command 'drbdsetup' did not terminate within 5 seconds")
        return run(*command, **options)

    monkeypatch.setattr(pair, "run", hasty)
    assert storage(pair, generations=True).local_disks()[0].generation == known.generation is not None


def test_a_generation_is_begun_only_on_a_replica_that_drbd_takes_for_whole_at_that_moment(pair: Machine) -> None:
    become(pair.peer(), State.DISCONNECTED, peer=ONE)
    disconnect, *others = storage(pair, peer=THREE).steps(State.PRESENT)
    templates.done([disconnect])
    pair.drbdadm("outdate", NAME)
    outdated = pair.metadata(NAME).text()
    with pytest.raises(errors.Failed, match="Need access to UpToDate data"):
        templates.done(others)
    assert pair.resources[NAME].role == "Secondary"
    assert pair.metadata(NAME).text() == outdated, "by force it would be up to date, with a generation of its own"


def test_a_replica_that_never_had_data_changes_its_peer_without_a_generation(machine: Machine) -> None:
    become(new_pair(machine), State.DISCONNECTED, peer=ONE)
    assert become(machine, State.PRESENT, peer=THREE) == [
        f"disconnect {NAME}",
        f"write {machine.root}/etc/drbd.d/roundsman-{NAME}.res with n3 as peer",
        f"adjust {NAME}",
    ]
    assert machine.resources[NAME].disk == "Inconsistent"


def test_an_old_secondary_that_dials_is_disconnected_though_nobody_answers(pair: Machine) -> None:
    old = pair.peer()
    pair.drbdadm("down", NAME)
    assert old.resources[NAME].connection == "WFConnection"
    assert become(old, State.DISCONNECTED, peer=ONE) == [f"disconnect {NAME}"]
    assert old.resources[NAME].connection == "StandAlone"


def replicas(machine: Machine) -> replacements.Node:
    """What a play learns of the replica on a node."""
    (found,) = storage(machine, peer=None, generations=True).local_disks()
    told = replacements.Replica(
        found.text,
        found.disk,
        found.peer_disk,
        found.is_connected,
        found.generation,
        found.size is not None,
        found.role,
    )
    return replacements.Node(machine.root.name, (told,))


def replace_and_break_off(pair: Machine) -> tuple[str, ...]:
    """Have the primary copy to n3 and end there, before that is recorded; returns what was recorded before."""
    third = pair.peer("n3")
    recorded = replacements.judged(replicas(pair), replicas(pair.peer()))
    become(third, State.PRESENT, peer=ONE)
    become(third, State.DISCONNECTED, peer=ONE)
    become(pair.peer(), State.DISCONNECTED, peer=ONE)
    become(pair, State.ACTIVE, peer=THREE, alone=True)
    become(third, State.PRESENT, peer=ONE)
    pair.clock.wait(600)
    return recorded


def blip(pair: Machine) -> None:
    """The link to n3 is cut for a while, in which the instance writes."""
    for is_cut in (True, False):
        pair.set_link("n3", is_cut=is_cut)
        pair.clock.wait(30)


def test_an_old_secondary_that_drbd_has_forgotten_is_known_by_what_a_broken_off_replacement_recorded(
    pair: Machine,
) -> None:
    become(pair, State.ACTIVE)
    pair.open("web1", DEVICE)
    pair.clock.wait(3)
    recorded = replace_and_break_off(pair)
    blip(pair)
    primary, old = replicas(pair), replicas(pair.peer())
    assert "may have data that n1 has not" in replacements.objection("web1", primary, old)
    assert replacements.objection("web1", primary, old, recorded) == ""
    assert replacements.judged(primary, old, recorded) == recorded, "for the replacement that ends the first"
    pair.peer().drbdadm("down", NAME)
    assert replacements.objection("web1", primary, replicas(pair.peer()), recorded) == ""


@pytest.mark.parametrize("is_up", [True, False])
def test_an_old_secondary_that_was_primary_since_is_not_what_was_recorded(pair: Machine, is_up: bool) -> None:
    become(pair, State.ACTIVE)
    pair.open("web1", DEVICE)
    pair.clock.wait(3)
    recorded = replace_and_break_off(pair)
    blip(pair)
    other = pair.peer()
    other.drbdadm("primary", NAME, "--force")
    other.open("web1", DEVICE)
    other.clock.wait(3)
    other.close("web1")
    other.drbdadm("secondary", NAME)
    if not is_up:
        other.drbdadm("down", NAME)
    assert "may have data that n1 has not" in replacements.objection("web1", replicas(pair), replicas(other), recorded)
    assert replacements.judged(replicas(pair), replicas(other), recorded) == ()


def test_what_a_split_brain_gives_up_of_a_side_that_had_another_peer_is_invalidated_and_replaced(pair: Machine) -> None:
    # The old secondary was started with its older data, and the side that is given up still names n3 as its peer.
    become(pair, State.ACTIVE)
    replace_and_break_off(pair)
    become(pair, State.STANDBY)
    other = pair.peer()
    become(other, State.ACTIVE, peer=ONE, alone=True)
    ours, theirs = (storage(node, generations=True).local_disks()[0].generation for node in (other, pair))
    assert ours is not None
    assert theirs is not None
    assert not is_noted(ours, theirs)
    assert "may have data that n2 has not" in replacements.objection("web1", replicas(other), replicas(pair))

    pair.drbdadm("disconnect", NAME)
    pair.drbdadm("invalidate", NAME)

    assert replacements.objection("web1", replicas(other), replicas(pair)) == ""
    become(pair, State.ABSENT, last=True)
    templates.done(storage(pair, new_secret=True).steps(State.PRESENT))
    become(pair, State.DISCONNECTED)
    templates.done(storage(other, peer=ONE, new_secret=True, alone=True).steps(State.ACTIVE))
    templates.done(storage(pair, new_secret=True).steps(State.PRESENT))
    pair.clock.wait(600)
    assert [disk.is_synced for disk in storage(other, peer=ONE).local_disks()] == [True]
    assert other.resources[NAME].peer == "n1"


def test_a_primary_is_not_disconnected_and_what_is_down_stays_so(pair: Machine) -> None:
    become(pair, State.ACTIVE)
    with pytest.raises(errors.Refused, match="is primary on this node: it keeps its peer"):
        storage(pair).steps(State.DISCONNECTED)
    pair.peer().drbdadm("down", NAME)
    assert become(pair.peer(), State.DISCONNECTED, peer=ONE) == []


def test_the_peer_is_kept_while_it_alone_has_the_data(pair: Machine) -> None:
    resync(pair, of=pair)
    with pytest.raises(errors.Refused, match="it keeps its peer until it is up to date"):
        storage(pair, peer=THREE).steps(State.PRESENT)
    assert pair.ran == []


def test_without_a_peer_the_file_stays_as_it_is(pair: Machine) -> None:
    before = pair.configured(NAME)
    assert become(pair, State.ACTIVE, peer=None) == [f"make {NAME} primary"]
    assert pair.configured(NAME) == before
    with pytest.raises(errors.InvalidInput, match="needs `here`, `peer` and its minor"):
        storage(pair.peer("n3"), peer=None).steps(State.PRESENT)


def test_where_there_is_no_whole_copy_an_instance_may_not_run(machine: Machine) -> None:
    for name, size in ((DATA, 64), (META, 4)):
        machine.make_volume(name, size)
    for state in (State.ACTIVE, State.SHARED):
        with pytest.raises(errors.Refused, match="has no whole replica"):
            storage(machine).steps(state)
    assert become(machine, State.STANDBY) == []


def test_a_copy_that_is_down_is_brought_up_as_standby_if_its_disk_allows(pair: Machine) -> None:
    pair.drbdadm("down", NAME)
    pair.do("lvchange", "--activate", "n", META)
    assert become(pair, State.STANDBY) == [f"activate the volume {META}", f"bring {NAME} up, if its disk allows"]
    assert (pair.resources[NAME].role, pair.resources[NAME].connection) == ("Secondary", "Connected")
    assert become(pair, State.STANDBY) == []
    pair.drbdadm("down", NAME)
    pair.broken["drbdadm adjust"] = "No valid meta data found"
    templates.done(storage(pair).steps(State.STANDBY))
    assert [disk.trouble for disk in storage(pair).local_disks()] == ["is down on this node"]


def test_a_replica_that_is_down_still_says_which_data_it_has(pair: Machine) -> None:
    (known,) = storage(pair, generations=True).local_disks()
    pair.drbdadm("down", NAME)
    (down,) = storage(pair, generations=True).local_disks()
    assert (down.disk, down.generation) == ("", known.generation)
    assert down.generation is not None
    assert storage(pair).local_disks()[0].generation is None
    pair.broken["drbdadm get-gi"] = "No valid meta data found"
    assert storage(pair, generations=True).local_disks()[0].generation is None


def test_a_copy_goes_with_its_file_and_its_volumes(pair: Machine) -> None:
    assert become(pair, State.ABSENT) == [
        f"take {NAME} down",
        f"remove {pair.root}/etc/drbd.d/roundsman-{NAME}.res",
        f"remove the volume {DATA}",
        f"remove the volume {META}",
    ]
    assert (pair.resources, pair.volumes, pair.configured(NAME)) == ({}, {}, "")


def test_a_copy_in_use_and_the_only_good_one_are_kept(pair: Machine) -> None:
    pair.drbdadm("primary", NAME)
    with pytest.raises(errors.Refused, match="primary on this node, where its instance may run"):
        storage(pair).steps(State.ABSENT)
    pair.drbdadm("secondary", NAME)
    resync(pair, of=pair.peer())
    with pytest.raises(errors.Refused, match="is UpToDate on this node, and its peer is Inconsistent: it is kept"):
        storage(pair).steps(State.ABSENT)
    assert pair.ran == []


@pytest.mark.parametrize(
    ("verb", "text"),
    [
        ("", "is UpToDate on this node, and its peer is not connected"),
        ("disconnect", "is UpToDate on this node, and its peer is not connected"),
        ("outdate", "is Outdated on this node, and its peer is not connected"),
        ("down", "is down on this node: whether its peer is up to date is not known"),
    ],
)
def test_a_replica_that_may_be_the_last_is_kept_unless_the_caller_knows_better(
    pair: Machine, verb: str, text: str
) -> None:
    pair.set_link(is_cut=True)
    if verb:
        pair.drbdadm(verb, NAME)
    with pytest.raises(errors.Refused, match=text):
        storage(pair).steps(State.ABSENT)
    assert (pair.ran, set(pair.volumes)) == ([], {DATA, META})
    become(pair, State.ABSENT, last=True)
    assert (pair.resources, pair.volumes) == ({}, {})


@pytest.mark.parametrize(("verb", "disk"), [("detach", "Diskless"), ("invalidate", "Inconsistent")])
def test_what_is_no_replica_is_removed(pair: Machine, verb: str, disk: str) -> None:
    pair.set_resync_speed(0)
    pair.drbdadm(verb, NAME)
    pair.set_link(is_cut=True)
    assert (pair.resources[NAME].disk, pair.resources[NAME].connection) == (disk, "WFConnection")
    become(pair, State.ABSENT)
    assert pair.volumes == {}


def test_an_adopted_resource_is_used_under_its_name_and_neither_made_nor_removed(pair: Machine) -> None:
    adopted = (Disk(64, name=NAME),)
    one = pair.resources[NAME]
    assert [step.text for step in storage(pair, peer=THREE, wanted=adopted).steps(State.ACTIVE)] == [
        f"make {NAME} primary"
    ]
    assert [disk.path for disk in storage(pair, wanted=adopted).local_disks()] == [f"/dev/drbd{one.minor}"]
    assert [step.text for step in storage(pair, wanted=adopted).steps(State.ABSENT)] == [f"take {NAME} down"]
    with pytest.raises(errors.Failed, match="not defined in your config"):
        templates.done(storage(pair, wanted=(Disk(64, name="r7"),)).steps(State.PRESENT))


def test_two_disks_of_one_size_are_two_resources(machine: Machine) -> None:
    templates.done(storage(machine, wanted=(Disk(8, minor=1), Disk(8, minor=2))).steps(State.PRESENT))
    assert sorted(machine.resources) == ["web1-disk0", "web1-disk1"]
    assert len(machine.volumes) == 4


def test_how_equal_the_copies_are_is_told(pair: Machine) -> None:
    (disk,) = storage(pair).local_disks()
    assert (disk.path, disk.size, disk.is_synced, disk.progress) == ("/dev/drbd3", 64.0, True, 100.0)
    resync(pair, of=pair.peer(), speed=16384)
    pair.clock.wait(3)
    (disk,) = storage(pair).local_disks()
    assert (disk.is_synced, disk.progress, disk.trouble) == (False, 75.0, "")
    pair.drbdadm("down", NAME)
    (disk,) = storage(pair).local_disks()
    assert (disk.path, disk.is_synced, disk.trouble) == ("/dev/drbd3", False, "is down on this node")


def test_equal_copies_are_waited_for_until_the_limit(pair: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    resync(pair, of=pair.peer(), speed=16384)
    assert not templates.until_synced(storage(pair), time_limit=0.0)[0].is_synced
    monkeypatch.setattr(time, "sleep", pair.clock.wait)
    assert disks.as_result(templates.until_synced(storage(pair), time_limit=60.0))["synced"]


@pytest.mark.parametrize(
    ("node", "verbs", "text"),
    [
        ("n1", ["disconnect"], "stands alone"),
        ("n2", ["detach"], "has no disk on its peer"),
        ("n1", ["detach"], "has no disk on this node"),
        ("n1", ["invalidate", "pause-sync"], "has its resync paused"),
    ],
)
def test_what_waiting_does_not_mend_is_said_at_once(pair: Machine, node: str, verbs: list[str], text: str) -> None:
    pair.set_resync_speed(1024)
    for verb in verbs:
        (pair if node == "n1" else pair.peer()).drbdadm(verb, NAME)
    with pytest.raises(errors.Failed, match=text):
        templates.until_synced(storage(pair), time_limit=600.0)


def test_two_replicas_without_all_data_never_become_equal(machine: Machine) -> None:
    new_pair(machine)
    with pytest.raises(errors.Failed, match="is up to date on neither node"):
        templates.until_synced(storage(machine), time_limit=600.0)


def test_the_replica_of_a_namesake_is_left_alone_and_only_the_own_volumes_are_removed(pair: Machine) -> None:
    before = pair.configured(NAME)
    for name in ("vg/older.disk0", "vg/older.meta0"):
        pair.make_volume(name, 64)
    older = disks.Disks("web1", "older", (Disk(64, minor=3),), vg="vg", here=ONE, peer=None, last=True)
    removed = drbd.Template(older, runner=pair, root=pair.root, node=pair.node, nodename=pair.root.name)
    templates.done(removed.steps(State.ABSENT))
    assert set(pair.volumes) == {DATA, META}
    assert pair.configured(NAME) == before
    assert pair.resources[NAME].connection == "Connected"
