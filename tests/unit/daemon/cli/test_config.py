from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import pwd
import re
import shutil
import time
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent import copies
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import tree
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import document, history, store

from tests.unit import small_cluster

if TYPE_CHECKING:
    from pathlib import Path

    from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters

    from tests.unit.daemon.cli.conftest import Run

OLDER = dataclasses.replace(small_cluster.with_uuids(small_cluster.make()), serial_no=41, mtime=1000.0)
KEY = b"0123456789abcdef0123456789abcdef01234567\n"
NEWER = dataclasses.replace(OLDER, serial_no=99)


@pytest.fixture
def where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tree.Tree:
    monkeypatch.setenv("ROUNDSMAN_ROOT", str(tmp_path / "root"))
    found = tree.Tree(tmp_path / "root")
    found.lib.mkdir(parents=True)
    for cluster in (OLDER, NEWER):
        store.write(found.config, cluster)
    return found


@pytest.mark.parametrize("damaged", [False, True])
def test_an_earlier_version_that_is_taken_over_without_the_daemon_becomes_the_newest(
    where: tree.Tree, tmp_path: Path, roundsman: Run, *, damaged: bool
) -> None:
    given = tmp_path / "edited.json"
    backup = edited(OLDER)
    given.write_bytes(document.dump(backup))
    if damaged:
        where.config.write_bytes(b"{")
    status, out, _err = roundsman("config", "import", str(given), "--yes")
    assert status == 0
    assert out.endswith(f"Maintenance is paused: {store.check_reason(backup)}.\n")
    taken = store.read(where.config)
    assert taken.serial_no == 100
    assert taken.nodes == backup.nodes
    assert taken.maintenance.settings.paused == store.check_reason(backup)
    assert [one.serial_no for one in history.versions(where.config)] == [41, 99, 100]


def test_an_import_without_the_daemon_is_in_the_audit_log(where: tree.Tree, tmp_path: Path, roundsman: Run) -> None:
    where.log.mkdir(parents=True)
    where.audit_log.touch()
    given = tmp_path / "edited.json"
    given.write_bytes(
        document.dump(changes.apply(NEWER, changes.NodePowered(small_cluster.uid("n3"), powered=False), now=1.0))
    )
    roundsman("config", "import", str(given))
    assert where.audit_log.read_text() == ""
    assert roundsman("config", "import", str(given), "--yes")[0] == 0
    line, power = where.audit_log.read_text().splitlines()
    user = f"user={pwd.getpwuid(os.getuid()).pw_name} uid={os.getuid()}"
    assert f'roundsman.audit: command {user} door=command-line text="config import: ' in line
    assert line.endswith('version 100: nodes: node3 (not powered)"')
    assert power.endswith(f" import {user}: node3 is recorded as powered off, was on")


def test_an_import_on_a_new_machine_is_in_the_audit_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, roundsman: Run
) -> None:
    where, given = tree.Tree(tmp_path / "new"), tmp_path / "backup.json"
    where.lib.mkdir(parents=True)
    monkeypatch.setenv("ROUNDSMAN_ROOT", str(where.root))
    given.write_bytes(document.dump(NEWER))
    assert roundsman("config", "import", str(given), "--yes")[0] == 0
    line, *used = where.audit_log.read_text().splitlines()
    assert 'text="config import: version 99: new: ' in line
    user = f"user={pwd.getpwuid(os.getuid()).pw_name} uid={os.getuid()}"
    assert f"import {user}: new: oob_program /bin/oob: node node3" in used[0]
    assert any("new: primary_ip 192.0.2.1: node node1" in each for each in used)


def test_the_import_says_first_what_it_would_change(where: tree.Tree, tmp_path: Path, roundsman: Run) -> None:
    given = tmp_path / "edited.json"
    given.write_bytes(document.dump(edited(NEWER)))
    _status, out, err = roundsman("config", "import", str(given))
    assert out == "nodes: node3 (not powered)\n"
    assert "add --yes" in err
    assert store.read(where.config) == NEWER
    given.write_bytes(where.config.read_bytes())
    assert roundsman("config", "import", str(given)) == (0, "nothing differs\n", "")
    assert store.read(where.config) == NEWER


def edited(cluster: clusters.Cluster) -> clusters.Cluster:
    """An export of a configuration that a person edited: its serial number is that of the export."""
    changed = changes.apply(cluster, changes.NodePowered(small_cluster.uid("n3"), powered=False), now=1.0)
    return dataclasses.replace(changed, serial_no=cluster.serial_no, mtime=cluster.mtime)


def paused(cluster: clusters.Cluster, text: str) -> clusters.Cluster:
    return changes.apply(
        cluster, changes.SettingsStand(dataclasses.replace(cluster.maintenance.settings, paused=text)), now=1.0
    )


def test_an_edited_export_of_the_present_configuration_does_not_pause(
    where: tree.Tree, tmp_path: Path, roundsman: Run
) -> None:
    given = tmp_path / "edited.json"
    given.write_bytes(document.dump(edited(NEWER)))
    status, out, _err = roundsman("config", "import", str(given), "--yes")
    assert (status, out) == (0, "nodes: node3 (not powered)\nThe configuration is version 100 now; no daemon runs.\n")
    assert store.read(where.config).maintenance.settings.paused == ""


def test_an_import_makes_no_backup_look_newer_than_it_is(where: tree.Tree, tmp_path: Path, roundsman: Run) -> None:
    """Nodes keep the number that the last master had: one that is below it leads only with `--restored`."""
    given = tmp_path / "backup.json"
    given.write_bytes(document.dump(edited(OLDER)))
    shutil.rmtree(where.lib)
    where.lib.mkdir(mode=0o750)
    status, out, _err = roundsman("config", "import", str(given), "--yes")
    assert status == 0
    assert f"The configuration is version {OLDER.serial_no} now" in out
    assert store.read(where.config).serial_no == OLDER.serial_no


def test_a_backup_says_before_the_question_that_it_pauses(where: tree.Tree, tmp_path: Path, roundsman: Run) -> None:
    given = tmp_path / "backup.json"
    given.write_bytes(document.dump(edited(OLDER)))
    _status, out, _err = roundsman("config", "import", str(given))
    assert "version 41" in out
    assert "maintenance will be paused until `roundsman resume`" in out
    assert store.read(where.config) == NEWER


def test_a_backup_of_the_same_number_from_another_time_pauses_too(
    where: tree.Tree, tmp_path: Path, roundsman: Run
) -> None:
    given = tmp_path / "backup.json"
    given.write_bytes(document.dump(dataclasses.replace(edited(NEWER), mtime=NEWER.mtime - 60)))
    assert roundsman("config", "import", str(given), "--yes")[0] == 0
    assert "serial 99" in store.read(where.config).maintenance.settings.paused


def test_a_backup_on_a_new_root_pauses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, roundsman: Run) -> None:
    monkeypatch.setenv("ROUNDSMAN_ROOT", str(tmp_path / "new"))
    found = tree.Tree(tmp_path / "new")
    found.lib.mkdir(parents=True)
    given = tmp_path / "backup.json"
    given.write_bytes(document.dump(OLDER))
    status, out, err = roundsman("config", "import", str(given), "--yes")
    assert (status, err) == (0, "")
    assert "there is no present configuration" in out
    assert store.read(found.config).maintenance.settings.paused == (
        "configuration imported from a backup (serial 41): check where instances run, then run `roundsman resume`"
    )


def copy_of(cluster: clusters.Cluster, *, cluster_key: bytes) -> bytes:
    stamp = copies.Stamp(3, cluster.serial_no, int(time.time()) - 7)
    return copies.sealed(document.seal(cluster), stamp, cluster_key=cluster_key)


def test_a_candidate_takes_over_the_copy_that_it_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, roundsman: Run
) -> None:
    monkeypatch.setenv("ROUNDSMAN_ROOT", str(tmp_path / "new"))
    where, given = tree.Tree(tmp_path / "new"), tmp_path / "configuration.copy"
    where.lib.mkdir(parents=True)
    given.write_bytes(copy_of(OLDER, cluster_key=KEY))
    assert roundsman("config", "import", str(given), "--yes")[2] == (
        f"roundsman: {where.hmac_key} cannot be read (No such file or directory): put the cluster's key there first, "
        f"by which the seal of {given} is checked\n"
    )
    where.hmac_key.write_bytes(KEY)

    status, out, _err = roundsman("config", "import", str(given), "--yes")

    assert status == 0
    said = r"A copy of version 41, made [0-9]+ s ago; what was changed after that is not in it.\n"
    assert re.match(said, out)
    taken = store.read(where.config)
    assert (taken.serial_no, taken.nodes) == (41, OLDER.nodes)
    assert taken.maintenance.settings.paused


def test_a_copy_that_no_controller_made_is_not_taken_over(where: tree.Tree, tmp_path: Path, roundsman: Run) -> None:
    where.hmac_key.write_bytes(KEY)
    given = tmp_path / "configuration.copy"
    given.write_bytes(copy_of(OLDER, cluster_key=b"what a node can make"))
    before = where.config.read_bytes()

    status, _out, err = roundsman("config", "import", str(given), "--yes")

    assert status == 1
    assert (
        err == f"roundsman: {given}: its seal is not of this cluster's key: it was damaged, or made by somebody else\n"
    )
    assert where.config.read_bytes() == before


@pytest.mark.parametrize("is_present", [True, False])
def test_the_text_of_a_person_who_paused_is_kept(
    where: tree.Tree, tmp_path: Path, roundsman: Run, *, is_present: bool
) -> None:
    given = tmp_path / "backup.json"
    backup = edited(OLDER)
    if is_present:
        store.write(where.config, paused(NEWER, "new switch"))
    else:
        backup = paused(backup, "new switch")
    given.write_bytes(document.dump(backup))
    status, out, _err = roundsman("config", "import", str(given), "--yes")
    assert status == 0
    assert store.read(where.config).maintenance.settings.paused == "new switch"
    assert "Maintenance is paused: new switch." in out
    assert "check where instances run" in out


def test_the_import_lists_the_programs_paths_definitions_and_addresses_that_are_new(
    where: tree.Tree, tmp_path: Path, roundsman: Run
) -> None:
    edit = json.loads(document.dump(NEWER))
    edit["cluster"]["file_storage_dir"] = "/etc"
    edit["maintenance"]["settings"]["diagnose_command"] = "smart"
    for uuid, address in (("n2", "192.0.2.2"), ("n3", "192.0.2.3")):
        edit["nodes"][small_cluster.uid(uuid)]["primary_ip"] = address
        edit["nodes"][small_cluster.uid(uuid)]["ndparams"]["oob_program"] = "/home/x/oob"
    xml = "<domain type='kvm' passwd='SECRET'>\n<devices/></domain>"
    digest = hashlib.sha256(xml.encode()).hexdigest()
    edit["instances"][small_cluster.uid("i1")]["hvparams"] = {"domain_xml": xml, "serial_log": "/etc/\u202ex"}
    edit["instances"][small_cluster.uid("i1")]["disks"][0]["name"] = "web"
    given = tmp_path / "edited.json"
    given.write_text(json.dumps(edit))
    _status, out, _err = roundsman("config", "import", str(given))
    assert [line for line in out.splitlines() if line.startswith("New: ")] == [
        "New: primary_ip 192.0.2.2: node node2",
        "New: primary_ip 192.0.2.3: node node3",
        "New: adopted disk web: instance inst1",
        "New: serial_log /etc/\\u202ex: instance inst1",
        f"New: domain_xml <domain type='kvm' passwd=hidden> (SHA-256 {digest}): instance inst1",
        "New: file_storage_dir /etc: the cluster",
        "New: diagnose_command smart: the cluster",
        "New: oob_program /home/x/oob: node node2, node node3",
    ]


def test_a_document_with_values_that_cannot_be_set_is_refused_as_a_whole(
    where: tree.Tree, tmp_path: Path, roundsman: Run
) -> None:
    edit = json.loads(document.dump(NEWER))
    edit["maintenance"]["settings"]["agent_port"] = 99999999
    edit["nodes"][small_cluster.uid("n3")]["name"] = "../../x"
    given = tmp_path / "edited.json"
    given.write_text(json.dumps(edit))
    status, _out, err = roundsman("config", "import", str(given), "--yes")
    assert status == 1
    assert "the settings: agent_port: 99999999 is not a whole number" in err
    assert "node ../../x: name: " in err
    assert store.read(where.config) == NEWER


def test_an_export_is_whole_and_for_its_owner_only(where: tree.Tree, tmp_path: Path, roundsman: Run) -> None:
    file = tmp_path / "before.json"
    assert roundsman("config", "export", str(file), "--version", "41")[0] == 0
    assert store.read(file) == OLDER
    assert file.stat().st_mode & 0o777 == 0o600
    assert sorted(tmp_path.iterdir()) == [file, where.root]


@pytest.mark.parametrize("words", [[], ["-"]])
def test_an_export_without_a_file_is_printed(where: tree.Tree, roundsman: Run, words: list[str]) -> None:
    status, out, _err = roundsman("config", "export", *words)
    assert (status, out.encode()) == (0, where.config.read_bytes())


def test_an_export_replaces_a_file_only_when_it_is_told_to(where: tree.Tree, tmp_path: Path, roundsman: Run) -> None:
    file = tmp_path / "before.json"
    file.write_text("mine")
    file.chmod(0o644)
    status, _out, err = roundsman("config", "export", str(file))
    assert (status, file.read_text()) == (1, "mine")
    assert "use --force" in err
    assert roundsman("config", "export", str(file), "--force")[0] == 0
    assert file.read_bytes() == where.config.read_bytes()
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.usefixtures("where")
def test_an_export_never_takes_the_place_of_what_is_no_file(tmp_path: Path, roundsman: Run) -> None:
    status, _out, err = roundsman("config", "export", str(tmp_path), "--force")
    assert (status, tmp_path.is_dir()) == (1, True)
    assert "it is no file" in err


@pytest.fixture
def versions(where: tree.Tree) -> tree.Tree:
    """Versions 41, 99, 100 and 102: of each the changes that it has over the one before."""
    stated: list[list[changes.Change]] = [
        [changes.NodePowered(small_cluster.uid("n3"), powered=False)],
        [changes.InstanceState(small_cluster.uid("i1"), "down"), changes.RoundStands(4, ())],
    ]
    cluster = NEWER
    for one in stated:
        cluster = changes.apply_all(cluster, one, now=1.0)
        store.write(where.config, cluster)
    return where


@pytest.mark.usefixtures("versions")
def test_the_history_tells_what_each_version_changed(roundsman: Run) -> None:
    lines = roundsman("config", "history")[1].splitlines()
    assert [line.split()[0] for line in lines] == ["Version", "41", "99", "100", "102"]
    assert [line.rpartition("  ")[2] for line in lines] == [
        "Changes",
        "-",
        "none",
        "nodes: node3 (not powered)",
        "instances: inst1 (admin_state down); maintenance (round 4, jobs)",
    ]


@pytest.mark.usefixtures("versions")
def test_the_history_as_json_tells_the_same_and_as_much_as_is_asked_for(roundsman: Run) -> None:
    rows = json.loads(roundsman("config", "history", "-o", "json")[1])
    assert [one["serial_no"] for one in rows] == [41, 99, 100, 102]
    assert [one["changes"] for one in rows[:2]] == [None, []]
    assert rows[2]["changes"] == [
        {"kind": "nodes", "added": [], "removed": [], "changed": {"node3": ["not powered"]}},
    ]
    for count in (1, 2, 4, 9):
        assert json.loads(roundsman("config", "history", "-o", "json", "--last", str(count))[1]) == rows[-count:]


def test_a_version_that_is_damaged_is_named_and_the_others_are_listed(versions: tree.Tree, roundsman: Run) -> None:
    history.get(versions.config, 99).path.write_bytes(b"{")
    rows = json.loads(roundsman("config", "history", "-o", "json")[1])
    assert [(one["changes"] is None, bool(one["problem"])) for one in rows] == [
        (True, False),
        (True, True),
        (True, False),
        (False, False),
    ]
    assert "damaged: " in roundsman("config", "history")[1]


def test_of_many_objects_the_history_tells_how_many(where: tree.Tree, roundsman: Run) -> None:
    stated: list[changes.Change] = [changes.NodePowered(one, powered=False) for one in NEWER.nodes]
    store.write(where.config, changes.apply_all(NEWER, stated, now=1.0))
    assert "nodes: 4 changed" in roundsman("config", "history", "--last", "1")[1]
