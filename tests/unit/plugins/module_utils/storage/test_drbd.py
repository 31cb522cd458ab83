from __future__ import annotations

import time

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain import errors
from ansible_collections.roundsman.cluster.plugins.module_utils.storage import (
    disks,
    drbd_roles,
    templates,
)
from ansible_collections.roundsman.cluster.plugins.module_utils.storage.disks import Disk, State

from tests.unit.plugins.module_utils.storage.copies import DATA, META, NAME, THREE, become, storage, up_to_date
from tests.unit.plugins.module_utils.storage.machine import USED_GI, Machine, Volume


@pytest.fixture
def pair(machine: Machine) -> Machine:
    """A resource that is connected, and up to date on both of its nodes."""
    return up_to_date(machine)


def test_a_copy_is_made_of_two_volumes_metadata_a_file_and_a_connection_that_is_tried(machine: Machine) -> None:
    assert become(machine, State.PRESENT) == [
        f"make the volume {DATA} of 64 MiB",
        f"make the volume {META} of 1 MiB",
        f"make the metadata of {NAME}",
        f"write {machine.root}/etc/drbd.d/roundsman-{NAME}.res with n2 as peer",
        f"adjust {NAME}",
    ]
    assert set(machine.volumes) == {DATA, META}
    assert machine.resources[NAME].state == "WFConnection"
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
    assert machine.volumes[META].metadata


def test_metadata_are_made_anew_when_their_volume_is_gone_even_if_that_is_interrupted(machine: Machine) -> None:
    become(machine, State.PRESENT)
    machine.resources.clear()
    del machine.volumes[META]
    machine.broken["drbdadm --config-file"] = "killed"
    with pytest.raises(errors.Failed, match="killed"):
        templates.done(storage(machine).steps(State.PRESENT))
    assert machine.configured(NAME) == ""
    machine.broken.clear()
    assert f"make the metadata of {NAME}" in become(machine, State.PRESENT)


def test_metadata_that_are_there_are_never_made_anew(pair: Machine) -> None:
    pair.resources.clear()
    pair.volumes[DATA].is_active = False
    assert become(pair, State.PRESENT) == [f"activate the volume {DATA}", f"adjust {NAME}"]


def test_the_first_primary_of_a_new_pair_says_that_its_data_count(machine: Machine) -> None:
    become(machine, State.PRESENT)
    machine.resources[NAME].meet(disk="Inconsistent")
    assert become(machine, State.ACTIVE) == [f"make {NAME} primary"]
    assert machine.ran[-1] == f"drbdadm primary --force {NAME}"


@pytest.mark.parametrize("peer_is_there", [False, True])
def test_nothing_is_forced_where_there_may_be_data(machine: Machine, peer_is_there: bool) -> None:
    become(machine, State.PRESENT)
    if peer_is_there:
        machine.resources[NAME].gi = USED_GI
        machine.resources[NAME].meet(disk="Inconsistent")
    with pytest.raises(errors.Failed, match="Need access to UpToDate data"):
        templates.done(storage(machine).steps(State.ACTIVE))
    assert machine.resources[NAME].role == "Secondary"


def test_a_side_that_waits_for_its_peer_is_primary_when_it_has_good_data(pair: Machine) -> None:
    pair.resources[NAME].state = "WFConnection"
    assert become(pair, State.ACTIVE) == [f"make {NAME} primary"]
    assert become(pair, State.STANDBY) == [f"make {NAME} secondary"]


def test_two_primaries_are_allowed_for_a_migration_and_no_longer_after_it(pair: Machine) -> None:
    become(pair, State.ACTIVE)
    assert become(pair, State.SHARED) == [f"allow two primaries of {NAME}"]
    pair.resources[NAME].peer_role = "Primary"
    assert become(pair, State.STANDBY) == [f"make {NAME} secondary", f"no longer allow two primaries of {NAME}"]
    pair.resources[NAME].peer_role = "Secondary"
    assert become(pair, State.SHARED) == [f"allow two primaries of {NAME}", f"make {NAME} primary"]
    assert become(pair, State.ACTIVE) == [f"no longer allow two primaries of {NAME}"]
    assert "allow-two-primaries" not in pair.configured(NAME)


@pytest.mark.parametrize(("state", "disk"), [("WFConnection", "UpToDate"), ("Connected", "Inconsistent")])
def test_copies_that_differ_are_never_written_on_both_nodes(pair: Machine, state: str, disk: str) -> None:
    pair.resources[NAME].state, pair.resources[NAME].peer_disk = state, disk
    with pytest.raises(errors.Refused, match="only one may be primary"):
        storage(pair).steps(State.SHARED)
    assert pair.ran == []


def test_a_device_that_somebody_still_looks_at_is_tried_again(pair: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    become(pair, State.ACTIVE)
    one = pair.resources[NAME]
    one.is_held = True
    with pytest.raises(errors.Failed, match="held open"):
        templates.done(storage(pair).steps(State.STANDBY))
    monkeypatch.setattr(drbd_roles, "IN_USE", 60.0)
    monkeypatch.setattr(time, "sleep", lambda _seconds: setattr(one, "is_held", False))
    become(pair, State.STANDBY)
    assert one.role == "Secondary"


def test_what_drbdadm_did_not_wait_for_is_asked_again(pair: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    act, tries = pair._drbdadm_primary, iter(["hasty", "hasty"])

    def primary(words: list[str], command: tuple[str, ...]) -> str:
        if next(tries, ""):
            raise errors.Failed("drbdadm primary: Command 'drbdsetup primary' did not terminate within 5 seconds")
        return act(words, command)

    monkeypatch.setattr(pair, "_drbdadm_primary", primary)
    become(pair, State.ACTIVE)
    assert pair.resources[NAME].role == "Primary"
    become(pair, State.STANDBY)
    tries = iter(["hasty"] * 3)
    with pytest.raises(errors.Failed, match="did not terminate within 5 seconds"):
        templates.done(storage(pair).steps(State.ACTIVE))


def test_a_new_peer_is_taken_while_the_primary_runs_on(pair: Machine) -> None:
    become(pair, State.ACTIVE)
    texts = become(pair, State.ACTIVE, peer=THREE)
    assert texts == [
        f"disconnect {NAME}",
        f"write {pair.root}/etc/drbd.d/roundsman-{NAME}.res with n3 as peer",
        f"adjust {NAME}",
    ]
    one = pair.resources[NAME]
    assert (one.role, one.state, one.peer_address) == ("Primary", "WFConnection", "192.0.2.3")


@pytest.mark.parametrize("command", ["drbdadm disconnect", "drbdadm adjust"])
def test_a_change_of_peers_that_was_interrupted_goes_on(pair: Machine, command: str) -> None:
    become(pair, State.ACTIVE)
    pair.broken[command] = "killed"
    with pytest.raises(errors.Failed, match="killed"):
        templates.done(storage(pair, peer=THREE).steps(State.PRESENT))
    pair.broken.clear()
    become(pair, State.PRESENT, peer=THREE)
    assert (pair.resources[NAME].peer_address, pair.resources[NAME].state) == ("192.0.2.3", "WFConnection")
    assert pair.resources[NAME].role == "Primary"


def test_the_peer_is_kept_while_it_alone_has_the_data(pair: Machine) -> None:
    pair.resources[NAME].disk = "Inconsistent"
    with pytest.raises(errors.Refused, match="it keeps its peer until it is up to date"):
        storage(pair, peer=THREE).steps(State.PRESENT)
    assert pair.ran == []


def test_without_a_peer_the_file_stays_as_it_is(pair: Machine) -> None:
    before = pair.configured(NAME)
    assert become(pair, State.ACTIVE, peer=None) == [f"make {NAME} primary"]
    assert pair.configured(NAME) == before
    with pytest.raises(errors.InvalidInput, match="needs `here`, `peer` and its minor"):
        storage(Machine(pair.root / "other"), peer=None).steps(State.PRESENT)


def test_where_there_is_no_whole_copy_an_instance_may_not_run(machine: Machine) -> None:
    machine.volumes[DATA] = machine.volumes[META] = Volume(64)
    for state in (State.ACTIVE, State.SHARED):
        with pytest.raises(errors.Refused, match="has no whole copy"):
            storage(machine).steps(state)
    assert become(machine, State.STANDBY) == []


def test_a_copy_that_is_down_is_brought_up_as_standby_if_its_disk_allows(pair: Machine) -> None:
    pair.resources.clear()
    pair.volumes[META].is_active = False
    assert become(pair, State.STANDBY) == [f"activate the volume {META}", f"bring {NAME} up, if its disk allows"]
    assert (pair.resources[NAME].role, pair.resources[NAME].state) == ("Secondary", "WFConnection")
    assert become(pair, State.STANDBY) == []
    pair.resources.clear()
    pair.broken["drbdadm adjust"] = "No valid meta data found"
    templates.done(storage(pair).steps(State.STANDBY))
    assert [copy.trouble for copy in storage(pair).copies()] == ["is down on this node"]


def test_a_copy_goes_with_its_file_and_its_volumes(pair: Machine) -> None:
    assert become(pair, State.ABSENT) == [
        f"take {NAME} down",
        f"remove {pair.root}/etc/drbd.d/roundsman-{NAME}.res",
        f"remove the volume {DATA}",
        f"remove the volume {META}",
    ]
    assert (pair.resources, pair.volumes, pair.configured(NAME)) == ({}, {}, "")


def test_a_copy_in_use_and_the_only_good_one_are_kept(pair: Machine) -> None:
    pair.resources[NAME].role = "Primary"
    with pytest.raises(errors.Refused, match="primary on this node, where its instance may run"):
        storage(pair).steps(State.ABSENT)
    pair.resources[NAME].role, pair.resources[NAME].peer_disk = "Secondary", "Inconsistent"
    with pytest.raises(errors.Refused, match="up to date on this node, and not on its peer: it is kept"):
        storage(pair).steps(State.ABSENT)
    assert pair.ran == []


def test_an_adopted_resource_is_used_under_its_name_and_neither_made_nor_removed(pair: Machine) -> None:
    adopted = (Disk(64, name=NAME),)
    one = pair.resources[NAME]
    assert [step.text for step in storage(pair, peer=THREE, wanted=adopted).steps(State.ACTIVE)] == [
        f"make {NAME} primary"
    ]
    assert [copy.path for copy in storage(pair, wanted=adopted).copies()] == [f"/dev/drbd{one.minor}"]
    assert [step.text for step in storage(pair, wanted=adopted).steps(State.ABSENT)] == [f"take {NAME} down"]
    with pytest.raises(errors.Failed, match="not defined in your config"):
        templates.done(storage(pair, wanted=(Disk(64, name="r7"),)).steps(State.PRESENT))


def test_two_disks_of_one_size_are_two_resources(machine: Machine) -> None:
    templates.done(storage(machine, wanted=(Disk(8, minor=1), Disk(8, minor=2))).steps(State.PRESENT))
    assert sorted(machine.resources) == ["web1-disk0", "web1-disk1"]
    assert len(machine.volumes) == 4


def test_how_equal_the_copies_are_is_told(pair: Machine) -> None:
    (copy,) = storage(pair).copies()
    assert (copy.path, copy.size, copy.is_synced, copy.progress) == ("/dev/drbd3", 64.0, True, 100.0)
    one = pair.resources[NAME]
    one.state, one.peer_disk, one.out_of_sync = "SyncSource", "Inconsistent", 16384
    (copy,) = storage(pair).copies()
    assert (copy.is_synced, copy.progress, copy.trouble) == (False, 75.0, "")
    pair.resources.clear()
    (copy,) = storage(pair).copies()
    assert (copy.path, copy.is_synced, copy.trouble) == ("/dev/drbd3", False, "is down on this node")


def test_equal_copies_are_waited_for_until_the_limit(pair: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    one = pair.resources[NAME]
    one.state, one.peer_disk = "SyncSource", "Inconsistent"
    assert not templates.until_synced(storage(pair), time_limit=0.0)[0].is_synced

    def synced(_seconds: float) -> None:
        one.meet(disk="UpToDate")

    monkeypatch.setattr(time, "sleep", synced)
    assert disks.as_result(templates.until_synced(storage(pair), time_limit=60.0))["synced"]


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"state": "StandAlone"}, "stands alone"),
        ({"peer_disk": "Diskless"}, "has no disk on its peer"),
        ({"disk": "Failed"}, "has no disk on this node"),
        ({"state": "PausedSyncS", "paused": True}, "has its resync paused"),
        ({"disk": "Outdated", "peer_disk": "Inconsistent"}, "is up to date on neither node"),
    ],
)
def test_what_waiting_does_not_mend_is_said_at_once(pair: Machine, changed: dict[str, str], text: str) -> None:
    for name, value in changed.items():
        setattr(pair.resources[NAME], name, value)
    with pytest.raises(errors.Failed, match=text):
        templates.until_synced(storage(pair), time_limit=600.0)
