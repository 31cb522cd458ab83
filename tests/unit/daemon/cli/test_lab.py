from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.daemon.cli import lab as lab_commands
from ansible_collections.roundsman.cluster.daemon.lab import building, checker, losses, processes
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters

from tests.unit import other_users

if TYPE_CHECKING:
    from ansible_collections.roundsman.cluster.daemon.lab import world

    from tests.unit.daemon.cli.conftest import Run


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder without labs, and no processes of labs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ROUNDSMAN_ROOT", raising=False)
    for name in ("start_bmcs", "start_agents", "start_daemon", "down"):
        monkeypatch.setattr(processes, name, lambda _: None)
    return tmp_path


def lab_in(folder: str) -> world.Lab:
    settings = clusters.Settings(diagnose_command="lab-diagnose")
    return building.build(Path(folder), nodes=3, instances=3, ports={"http": 1, "bmc": 2}, settings=settings)


@pytest.mark.parametrize("means", [".lab/b", ".lab/b/controller"])
def test_the_global_folder_is_the_one_that_is_removed(means: str, roundsman: Run) -> None:
    lab_in(".lab/default")
    lab_in(".lab/b")
    code, out, err = roundsman("--dir", means, "lab", "down", "--remove")
    assert (code, err) == (0, "")
    assert re.fullmatch(r"The processes of the lab in \S+/\.lab/b have ended, and the folder is removed\.\n", out)
    assert [str(one) for one in Path(".lab").iterdir()] == [".lab/default"]


def test_the_environment_names_the_lab_too(roundsman: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    lab_in(".lab/default")
    lab_in(".lab/b")
    monkeypatch.setenv("ROUNDSMAN_ROOT", ".lab/b")
    assert roundsman("lab", "down", "--remove")[0] == 0
    assert [str(one) for one in Path(".lab").iterdir()] == [".lab/default"]


def test_inside_a_controller_its_lab_is_meant(roundsman: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = lab_in(".lab/b")
    monkeypatch.chdir(lab.controller)
    assert roundsman("--dir", ".", "lab", "cut", "node1")[0] == 0
    assert not lab.node("node1").wire.exists()


def test_the_commands_own_folder_goes_before_the_global_one(roundsman: Run) -> None:
    lab_in(".lab/a")
    lab_in(".lab/b")
    assert roundsman("--dir", ".lab/a", "lab", "down", "--remove", "--dir", ".lab/b")[0] == 0
    assert [str(one) for one in Path(".lab").iterdir()] == [".lab/a"]


def test_a_global_folder_without_a_lab_is_refused(roundsman: Run) -> None:
    lab_in(".lab/default")
    code, _, err = roundsman("--dir", ".lab/b", "lab", "down", "--remove")
    assert code == 1
    assert err.startswith("roundsman: there is no lab in .lab/b:")
    assert Path(".lab/default/lab.json").exists()


def test_without_a_folder_the_only_lab_is_meant_and_of_several_none(roundsman: Run) -> None:
    assert roundsman("lab", "status")[2].startswith("roundsman: there is no lab below .lab: ")
    lab_in(".lab/b")
    assert roundsman("lab", "status")[0] == 0
    lab_in(".lab/a")
    code, out, err = roundsman("lab", "down", "--remove")
    assert (code, out) == (1, "")
    assert err == "roundsman: there are several labs: choose one with --dir: .lab/a, .lab/b\n"


@other_users.only_root
def test_root_starts_and_removes_no_lab_of_somebody_else_that_it_was_not_told_of(roundsman: Run) -> None:
    lab_in(".lab/default")
    os.chown(".lab", 65534, 65534)
    told = ".lab/default does not count without --dir, because .lab is owned by uid 65534\n"
    for words in (("lab", "down", "--remove"), ("lab", "break", "node3"), ("lab", "up")):
        code, _, err = roundsman(*words)
        assert (code, err.endswith(told), err.count("\n")) == (1, True, 1)
    assert Path(".lab/default/lab.json").exists()
    assert roundsman("lab", "down", "--remove", "--dir", ".lab/default")[0] == 0


def test_of_several_labs_the_only_live_one_is_meant_but_never_for_down(
    roundsman: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped, live = lab_in(".lab/demo"), lab_in(".lab/default")
    monkeypatch.setattr(processes, "is_running", lambda one, _: one.folder == live.folder)
    assert roundsman("lab", "break", "node3")[0] == roundsman("lab", "cut", "node2")[0] == 0
    assert "evacuate" in live.node("node3").diagnosis.read_text()
    assert "evacuate" not in stopped.node("node3").diagnosis.read_text()
    assert roundsman("lab", "fix", "node3")[0] == roundsman("lab", "status")[0] == 0
    assert "there are several labs" in roundsman("lab", "down", "--remove")[2]


def test_of_several_live_labs_none_is_meant(roundsman: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    lab_in(".lab/a")
    lab_in(".lab/b")
    monkeypatch.setattr(processes, "is_running", lambda *_: True)
    assert "there are several labs" in roundsman("lab", "break", "node3")[2]


@pytest.mark.parametrize(
    ("words", "folder"), [((), ".lab/default"), (("--dir", "x"), "x"), (("--dir", "y/controller"), "y")]
)
def test_a_new_lab_goes_where_it_was_told_to(words: tuple[str, ...], folder: str, roundsman: Run) -> None:
    code, out, err = roundsman(*words, "lab", "up", "--nodes", "2", "--instances", "1")
    assert (code, err) == (0, "")
    port = json.loads(Path(folder, "lab.json").read_text())["ports"]["http"]
    first, second = out.splitlines()
    assert first == f"http://127.0.0.1:{port}"
    assert second.endswith(f" http://127.0.0.1:{port}/ui")


@pytest.mark.parametrize(
    ("option", "other"),
    [
        ("--nodes", "9"),
        ("--instances", "9"),
        ("--port", "9"),
        ("--bmc-port", "9"),
        ("--diagnose-interval", "9"),
        ("--migration-seconds", "9"),
    ],
)
def test_a_lab_that_is_there_takes_no_other_options(option: str, other: str, roundsman: Run) -> None:
    lab_in(".lab/default")
    code, out, err = roundsman("lab", "up", option, other)
    assert (code, out) == (1, "")
    assert err.startswith("roundsman: there is a lab in .lab/default already: bring it down with --remove, or leave ")
    assert err.endswith(f" these options out: {option}\n")


def test_a_lab_has_agents_unless_it_is_told_otherwise_or_has_too_many_nodes(roundsman: Run) -> None:
    assert roundsman("lab", "up", "--nodes", "2", "--instances", "1", "--dir", "with")[0] == 0
    assert json.loads(Path("with/lab.json").read_text())["ports"]["agent"]
    assert roundsman("lab", "up", "--nodes", "2", "--instances", "1", "--dir", "without", "--no-agents")[0] == 0
    assert "agent" not in json.loads(Path("without/lab.json").read_text())["ports"]
    code, _, err = roundsman("lab", "up", "--nodes", "101", "--instances", "0", "--dir", "large")
    assert (code, err) == (1, "roundsman: agents of more than 100 nodes take too much memory: add --no-agents\n")
    code, _, err = roundsman("lab", "break", "node1", "--agent", "--dir", "without")
    assert (code, err.startswith("roundsman: the nodes of this lab have no agents")) == (1, True)


def test_a_lab_that_is_there_starts_again_without_options_or_with_its_own(roundsman: Run) -> None:
    lab_in(".lab/default")
    assert roundsman("lab", "up")[0] == 0
    same = ("--nodes", "3", "--instances", "3", "--port", "0", "--bmc-port", "2", "--migration-seconds", "0")
    assert roundsman("lab", "up", *same)[1].startswith("http://127.0.0.1:1\n")


def test_a_folder_that_cannot_be_made_is_one_line(roundsman: Run) -> None:
    Path("file").touch()
    code, out, err = roundsman("lab", "up", "--dir", "file/lab")
    assert (code, out) == (1, "")
    assert err.startswith("roundsman: ")
    assert err.endswith(": Not a directory\n")
    assert "file/lab" in err
    assert err.count("\n") == 1


def test_break_and_cut_say_what_is_so_now(roundsman: Run) -> None:
    lab = lab_in(".lab/default")
    said = roundsman("lab", "break", "node3", "--details", '{"disk": 2}')[1]
    printed = '{"status": "evacuate", "details": {"disk": 2}}'
    assert said == f"node3: its diagnose command prints {printed}; the daemon sees it at its next poll\n"
    assert lab.node("node3").diagnosis.read_text() == printed + "\n"
    assert roundsman("lab", "cut", "node3")[1].startswith("node3: its links are cut")


def test_any_other_word_of_break_is_called_a_problem(roundsman: Run) -> None:
    said = " ".join(roundsman("lab", "break", "--help")[1].replace("│", " ").split())
    assert "anything else is a problem of the node" in said


@pytest.mark.parametrize("harm", ["removed", "without folder", "without modes", "overwritten", "elsewhere"])
def test_mend_gives_a_node_its_commands_back(harm: str, roundsman: Run) -> None:
    node = lab_in(".lab/default").node("node1")
    commands = node.root / "etc/roundsman"
    for path in (commands / "node-diagnose-commands/lab-diagnose", commands / "node-repair-commands/lab-repair"):
        if harm == "removed":
            path.unlink()
        elif harm == "without folder":
            shutil.rmtree(path.parent)
        elif harm == "without modes":
            path.chmod(0)
            path.parent.chmod(0o777)
        elif harm == "overwritten":
            path.write_text("#!/bin/sh\nexit 1\n")
        else:
            path.unlink()
            path.symlink_to("/bin/false")
    node.say('{"status": "evacuate"}')
    assert roundsman("lab", "fix", "node1")[1].startswith('node1: its diagnose command prints {"status": "Ok"}; ')
    for path in (commands / "node-diagnose-commands/lab-diagnose", commands / "node-repair-commands/lab-repair"):
        assert not path.is_symlink()
        assert [stat.S_IMODE(one.stat().st_mode) for one in (path, path.parent)] == [0o755, 0o755]
        assert subprocess.run([path], input=b"", capture_output=True, check=False).returncode == 0
    assert node.repairs() == 1


FAULTS = {
    ("--link", "node2"): "--link node2",
    ("--disk", "instance1"): "--disk instance1",
    ("--hang",): "--hang",
    ("--silent",): "--silent",
    ("--garbage", "instead"): "--garbage instead",
    ("--late", "2.5"): "--late 2.5",
    ("--slow-stop", "instance1=60"): "--slow-stop instance1=60",
    ("--slow-stop", "instance1"): "--slow-stop instance1=30",
    ("--ignore-stop", "instance1"): "--ignore-stop instance1",
    ("--autostart", "instance1"): "--autostart instance1",
    ("--migration", "during"): "--migration during",
    ("--bmc", "stale-off"): "--bmc stale-off",
    ("--bmc", "late=7"): "--bmc late=7",
    ("--reboot", "--boot-seconds", "600"): "--reboot",
    ("--power",): "--power",
}


@pytest.mark.parametrize(("words", "shown"), FAULTS.items())
def test_each_fault_is_shown_while_it_stands_and_ends_by_its_option_or_with_all(
    words: tuple[str, ...], shown: str, roundsman: Run
) -> None:
    lab_in(".lab/default")
    for option in ((words[0], *(words[1:2] if words[0] not in VALUELESS else ())), ()):
        code, out, err = roundsman("lab", "break", "node1", *words)
        assert (code, err, out.startswith("node1: ")) == (0, "", True)
        assert "diagnose command" not in out
        assert standing(roundsman)["node1"] == [shown]
        assert shown in roundsman("lab", "status")[1]
        assert roundsman("lab", "fix", "node1", *[word.partition("=60")[0] for word in option])[0] == 0
        assert standing(roundsman) == {}


VALUELESS = {"--garbage", "--late", "--migration", "--reboot"}


def standing(roundsman: Run) -> dict[str, list[str]]:
    rows = json.loads(roundsman("lab", "status", "-o", "json")[1])["nodes"]
    return {row["node"]: row["faults"] for row in rows if row["faults"]}


def test_fix_without_a_node_fixes_all_and_leaves_off_what_was_powered_off_on_purpose(roundsman: Run) -> None:
    lab = lab_in(".lab/default")
    roundsman("lab", "break", "node1", "--power", "--hang")
    roundsman("lab", "break", "node2", "--silent", "--status", "evacuate")
    lab.node("node3").set_power(False)
    code, out, _ = roundsman("lab", "fix")
    assert (code, len(out.splitlines())) == (0, 3)
    assert standing(roundsman) == {}
    assert [node.is_powered() for node in lab.nodes()] == [True, True, False]
    assert "its power is off" in out.splitlines()[2]
    assert {node.diagnosis.read_text() for node in lab.nodes()} == {'{"status": "Ok"}\n'}


def test_fix_by_an_option_leaves_the_other_faults(roundsman: Run) -> None:
    lab = lab_in(".lab/default")
    roundsman("lab", "break", "node1", "--late", "1", "--bmc", "slow", "--bmc", "strict", "--status", "evacuate")
    assert roundsman("lab", "fix", "node1", "--bmc", "slow")[1].startswith("node1: ended --bmc slow; ")
    assert standing(roundsman) == {"node1": ["--late 1", "--bmc strict"]}
    assert "evacuate" in lab.node("node1").diagnosis.read_text()
    assert roundsman("lab", "fix", "node1", "--status")[0] == 0
    assert "Ok" in lab.node("node1").diagnosis.read_text()


@pytest.mark.parametrize(("option", "why"), [("--crash", "crash"), ("--user-shutdown", "user")])
def test_an_instance_ends_at_once_and_only_where_it_runs(option: str, why: str, roundsman: Run) -> None:
    node = lab_in(".lab/default").node("node1")
    assert roundsman("lab", "break", "node1", option, "instance1")[0] == 0
    assert (node.journal()[-1]["event"], node.journal()[-1]["why"]) == ("stopped", why)
    code, _, err = roundsman("lab", "break", "node1", option, "instance1")
    assert (code, err.startswith("roundsman: instance1 does not run on node1")) == (1, True)


def plain(text: str) -> str:
    """What a person reads of a text in a frame."""
    return " ".join(text.replace("│", " ").split())


USAGE: dict[tuple[str, ...], str] = {
    ("--details", "{disk"): "--details: not JSON",
    ("--link", "node1"): "node1 has no link to itself",
    ("--slow-stop", "instance1=soon"): "--slow-stop instance1=soon: expected a number of seconds",
    ("--slow-stop", "instance1=0"): "--slow-stop instance1=0: must be > 0 and <= 86400 seconds",
    ("--slow-stop", "instance1=inf"): "must be > 0 and <= 86400 seconds",
    ("--slow-stop", "instance1=nan"): "must be > 0 and <= 86400 seconds",
    ("--slow-stop", "instance1=-3"): "must be > 0 and <= 86400 seconds",
    ("--slow-stop", "instance1=3", "--ignore-stop", "instance1"): "choose one of --slow-stop and --ignore-stop",
    ("--slow-stop", "instance1=3", "--slow-stop", "instance1=4"): "instance1 is named twice by --slow-stop",
    ("--crash", "instance1", "--user-shutdown", "instance1"): "choose one of --crash and --user-shutdown",
    ("--late", "0"): "--late 0: must be > 0 and <= 86400 seconds",
    ("--late", "inf"): "must be > 0 and <= 86400 seconds",
    ("--boot-seconds", "3"): "--boot-seconds needs --reboot",
    ("--reboot", "--boot-seconds", "nan"): "--boot-seconds nan: must be >= 0 and <= 86400 seconds",
    ("--reboot", "--power"): "choose one of --panic, --reboot, --power and --rack",
    ("--garbage", "much"): "--garbage much: use one of before, instead, cut",
    ("--garbage", ""): "use one of before, instead, cut",
    ("--migration", "never"): "--migration never: use one of before, during, after, paused",
    ("--status", ""): "--status: expected a word",
    ("--bmc", "rude"): "'rude' is not a fault of a BMC: use one of dead, ",
    ("--bmc", "late", "--bmc", "late=4"): "--bmc late has two values: choose one",
    ("--slow-stop", "=5"): "--slow-stop =5: expected INSTANCE[=SECONDS]",
    ("--bmc", "Fan1=loud"): "'Fan1=loud' is not a fault of a BMC",
}
NOT_THERE: dict[tuple[str, ...], str] = {
    ("--link", "node9"): "there is no node 'node9'",
    ("--slow-stop", "web1"): "there is no instance 'web1'",
    ("--crash", "web1"): "there is no instance 'web1'",
    ("--crash", "instance2"): "instance2 does not run on node1",
    ("--disk", "instance2"): "node1 has no replica of instance2",
}


@pytest.mark.parametrize("words", [*USAGE, *NOT_THERE])
def test_a_fault_that_cannot_be_is_refused_before_anything_breaks(words: tuple[str, ...], roundsman: Run) -> None:
    node = lab_in(".lab/default").node("node1")
    every = ("--hang", "--silent", "--bmc", "dead", "--autostart", "instance1", "--status", "evacuate")
    code, out, err = roundsman("lab", "break", "node1", *every, *words)
    assert (code, out) == (2 if words in USAGE else 1, "")
    assert {**USAGE, **NOT_THERE}[words] in plain(err)
    assert standing(roundsman) == {}
    assert "evacuate" not in node.diagnosis.read_text()
    assert node.journal()[-1]["event"] == "started"


def test_a_node_without_power_neither_reboots_nor_loses_its_power(roundsman: Run) -> None:
    node = lab_in(".lab/default").node("node1")
    node.set_power(False)
    for option in ("--reboot", "--power"):
        code, _, err = roundsman("lab", "break", "node1", option)
        assert (code, err) == (1, f"roundsman: node1 is off: power it on before `lab break node1 {option}`\n")
    roundsman("lab", "fix", "node1")
    assert not node.is_powered()


def test_a_guest_has_one_fault_at_its_stop_wherever_it_was_given(roundsman: Run) -> None:
    lab_in(".lab/default")
    roundsman("lab", "break", "node2", "--slow-stop", "instance1=60")
    out = roundsman("lab", "break", "node1", "--ignore-stop", "instance1")[1]
    assert "this replaces --slow-stop instance1=60 of node2" in out
    assert standing(roundsman) == {"node1": ["--ignore-stop instance1"]}


def test_a_link_that_no_replica_uses_is_cut_and_the_command_says_so(
    roundsman: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = {"node1": ["instance1"], "node2": ["instance1", "instance2"], "node3": ["instance2"]}
    monkeypatch.setattr(type(lab_in(".lab/default").node("node1")), "replicas", lambda node: held.get(node.name, []))
    assert "its replication link to node2 is cut;" in roundsman("lab", "break", "node1", "--link", "node2")[1]
    unused = "its replication link to node3 is cut (no replica uses it);"
    assert unused in roundsman("lab", "break", "node1", "--link", "node3")[1]


def test_a_cut_link_is_shown_and_fixed_at_either_end(roundsman: Run) -> None:
    lab_in(".lab/default")
    for words in (("node2",), ("node2", "--link", "node1"), ("node1",)):
        roundsman("lab", "break", "node1", "--link", "node2")
        assert standing(roundsman) == {"node1": ["--link node2"], "node2": ["--link node1"]}
        roundsman("lab", "fix", *words)
        assert standing(roundsman) == {}


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("--link", "node9"), 1, "there is no node 'node9'"),
        (("--disk", "web1"), 1, "there is no instance 'web1'"),
        (("--bmc", "rude"), 2, "'rude' is not a fault of a BMC"),
    ],
)
def test_fix_refuses_a_fault_that_cannot_be(words: tuple[str, ...], status: int, said: str, roundsman: Run) -> None:
    lab_in(".lab/default")
    roundsman("lab", "break", "node1", "--hang")
    code, out, err = roundsman("lab", "fix", "node1", "--hang", *words)
    assert (code, out) == (status, "")
    assert said in plain(err)
    assert standing(roundsman) == {"node1": ["--hang"]}


@pytest.mark.parametrize("shown", ["--slow-stop instance1=60", "--bmc late=7"])
def test_fix_takes_a_fault_as_status_shows_it(shown: str, roundsman: Run) -> None:
    lab_in(".lab/default")
    roundsman("lab", "break", "node1", *shown.split())
    assert roundsman("lab", "fix", "node1", *shown.split())[1].startswith(f"node1: ended {shown};")
    assert standing(roundsman) == {}


def test_check_counts_every_write_that_is_gone_and_says_that_none_was_only_where_that_is_so(
    roundsman: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab_in(".lab/default")
    rest = "; no instance was lost or ran twice, and each opcode ran once\n"
    assert roundsman("lab", "check")[:2] == (0, f"no acknowledged write was lost{rest}{lab_commands.NOT_ASKED}\n")
    lost = losses.Lost("web1", "node3", "1/0", "started", 80, 100, 6.0, 120.0, None, is_given_up=False)
    monkeypatch.setattr(checker, "lost", lambda _: [lost])
    code, out, _ = roundsman("lab", "check")
    assert (code, out) == (
        0,
        f"{lost.text}\n20 acknowledged writes are gone, all as allowed{rest}{lab_commands.NOT_ASKED}\n",
    )
    monkeypatch.setattr(checker, "check", lambda *_, **__: [lost.text])
    code, out, _ = roundsman("lab", "check")
    assert (code, "acknowledged writes are gone" in out) == (1, False)
