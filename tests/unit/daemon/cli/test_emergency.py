from __future__ import annotations

import ast
import dataclasses
import json
import sys
import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import tree
from ansible_collections.roundsman.cluster.plugins.plugin_utils import ansible_runs
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import epo as epo_rules
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import store
from ansible_collections.roundsman.cluster.plugins.plugin_utils.rounds import epo as planning

from tests.unit import other_users, small_cluster
from tests.unit.daemon.cli import terminal

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.unit.daemon.cli.conftest import Run


@pytest.fixture(autouse=True)
def where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tree.Tree:
    monkeypatch.setenv("ROUNDSMAN_ROOT", str(tmp_path / "root"))
    found = tree.Tree(tmp_path / "root")
    found.lib.mkdir(parents=True)
    store.write(found.config, small_cluster.make())
    return found


def test_a_dry_run_shows_what_would_be_done_in_order(roundsman: Run) -> None:
    status, out, _err = roundsman("cluster", "epo", "--all", "--dry-run")
    assert status == 0
    assert [line.split()[0] for line in out.splitlines()[2:]] == ["node2", "node3", "node10", "node1"]
    assert "inst1" in out.splitlines()[2]


@pytest.mark.parametrize(("words", "power"), [((), "off"), (("--on",), "on")])
def test_a_node_whose_helper_program_would_not_be_run_is_named_before_anything_is_done(
    roundsman: Run, words: tuple[str, ...], power: str
) -> None:
    """Its instances would be stopped, and then it would stay on; or it would stay off."""
    status, _out, err = roundsman("cluster", "epo", *words, "--all", "--dry-run")
    assert status == 0
    (line,) = (line for line in err.splitlines() if "node3" in line)
    assert f"node3 would not be powered {power}: the helper program /bin/oob" in line


def test_programs_read_the_preview_as_json(roundsman: Run) -> None:
    _status, out, _err = roundsman("cluster", "epo", "node2", "--dry-run", "-o", "json")
    told = json.loads(out)
    # Nobody types it, so it is the whole.
    assert (told["on"], [step["name"] for step in told["steps"]], len(told["code"])) == (False, ["node2"], 64)


def test_the_preview_tells_who_loses_its_copy(roundsman: Run) -> None:
    assert "Go on without their secondary replica: inst1" in roundsman("cluster", "epo", "node3", "--dry-run")[1]


@pytest.mark.parametrize("answer", ["yes\n", "\n", ""])
def test_only_the_code_of_the_preview_goes_on(
    roundsman: Run, monkeypatch: pytest.MonkeyPatch, where: tree.Tree, answer: str
) -> None:
    monkeypatch.setattr(sys, "stdin", terminal.Terminal(answer))
    status, _out, err = roundsman("cluster", "epo", "--all")
    assert (status, "nothing was done" in err) == (1, True)
    assert store.read(where.config).maintenance.epo is None


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "name the nodes, or say --all"),
        (["--groups"], "name the node groups"),
        (["--all", "node1"], "name neither nodes nor groups"),
        (["nobody"], "nobody"),
        (["--on"], "no emergency power off stands"),
    ],
)
def test_what_is_not_clear_is_refused_in_one_line(roundsman: Run, words: list[str], told: str) -> None:
    status, _out, err = roundsman("cluster", "epo", *words, "--dry-run")
    assert status != 0
    assert told in err
    assert len(err.splitlines()) == 1


@other_users.only_root
def test_without_the_daemon_who_cannot_read_the_configuration_is_told_who_may(
    roundsman: Run, monkeypatch: pytest.MonkeyPatch, where: tree.Tree
) -> None:
    with other_users.open_folder() as folder:
        found = tree.Tree(folder)
        other_users.make_folder(found.lib, owner=0, group=0, mode=0o755)
        found.config.write_bytes(where.config.read_bytes())
        found.config.chmod(0o600)
        monkeypatch.setenv("ROUNDSMAN_ROOT", str(folder))
        assert roundsman("cluster", "epo", "--all", "--dry-run")[0] == 0
        with other_users.acting_as(other_users.DAEMON):
            status, _out, err = roundsman("cluster", "epo", "--all", "--dry-run")
    assert (status, len(err.splitlines())) == (1, 1)
    assert err.startswith(f"roundsman: no daemon answers at {found.socket}: start it with ")
    assert err.endswith(f"; only root and the user of roundsmand can read {found.config}\n")


PLAYBOOK = """#!{python}
import json, os, signal, sys
inventory = json.load(open(sys.argv[sys.argv.index("-i") + 1]))
told = {{"root": inventory["root"], "home": os.environ["ANSIBLE_HOME"], "config": os.environ.get("ANSIBLE_CONFIG")}}
told["cwd"] = os.getcwd()
told["settings"] = open(told["config"]).read() if told["config"] else None
json.dump(told, open({told!r}, "w"))
{last}
"""


@pytest.fixture
def plays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Put a stand-in for ansible-playbook, whose last line is given, and return where it writes what it was told."""
    program, told = tmp_path / "bin" / "ansible-playbook", tmp_path / "told.json"
    program.parent.mkdir()
    python = sys.executable

    def stand(last: str) -> Path:
        program.write_text(PLAYBOOK.format(python=python, told=str(told), last=last))
        program.chmod(0o700)
        monkeypatch.setattr(sys, "executable", str(program.with_name("python")))
        return told

    return stand


def test_the_play_gets_all_of_the_code_of_which_a_person_types_the_beginning(
    roundsman: Run, plays: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Whoever names instances may know two previews whose codes begin alike."""
    preview = planning.preview(small_cluster.make(), [], on=False, by_group=False, everything=True)
    variables = tmp_path / "variables.json"
    plays(f"open({str(variables)!r}, 'w').write(open(sys.argv[sys.argv.index('-e') + 1][1:]).read())")
    monkeypatch.setattr(sys, "stdin", terminal.Terminal(f"{preview.code}\n"))
    assert roundsman("cluster", "epo", "--all")[0] == 0
    assert preview.digest in variables.read_text()


KILLED = "os.kill(os.getpid(), signal.SIGKILL)"


def test_the_play_finds_a_lab_that_was_named_from_the_working_folder(
    roundsman: Run, plays: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ROUNDSMAN_ROOT", "root")
    told = plays("")
    assert roundsman("cluster", "epo", "--all", "--force")[0] == 0
    assert json.loads(told.read_text())["root"] == str(tmp_path / "root")


def test_no_configuration_of_ansible_that_lies_where_somebody_stands_steers_the_play(
    roundsman: Run, plays: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("ANSIBLE_CONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    (tmp_path / "ansible.cfg").write_text("[defaults]\nlibrary = /tmp/evil\n")
    monkeypatch.chdir(tmp_path)
    told = plays("")
    assert roundsman("cluster", "epo", "--all", "--force")[0] == 0
    # The machine's own counts, where there is one.
    found = json.loads(told.read_text())
    assert found["config"] in {"/etc/ansible/ansible.cfg", str(ansible_runs.NO_CONFIGURATION)}
    assert "evil" not in found["settings"]


def test_the_play_stands_in_a_folder_of_its_own_where_nobody_else_can_put_plugins(
    roundsman: Run, plays: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    told = plays("")
    assert roundsman("cluster", "epo", "--all", "--force")[0] == 0
    found = json.loads(told.read_text())
    assert found["cwd"] == str(Path(found["home"]).parent)


def test_no_temporary_folder_is_taken_for_a_number(
    roundsman: Run, plays: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "_get_candidate_names", lambda: iter(["5in_4abc"]))
    told = plays("")
    assert roundsman("cluster", "epo", "--all", "--force")[0] == 0
    home = json.loads(told.read_text())["home"]
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        # As Ansible does it with the paths among its settings.
        with pytest.raises(SyntaxError):
            ast.literal_eval(home)
    assert [str(one.message) for one in seen] == []


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--all"], "`roundsman cluster epo` goes on, and `roundsman cluster epo --on` returns"),
        (["--on"], "`roundsman cluster epo --on` goes on, and `roundsman cluster epo` powers off again"),
    ],
)
def test_what_was_stopped_half_way_says_what_goes_on_and_what_turns_round(
    roundsman: Run, plays: Callable[[str], Path], where: tree.Tree, words: list[str], told: str
) -> None:
    cluster = small_cluster.make()
    stands = epo_rules.Epo(by="ops", since=50.0, nodes=("n2",), instances=("i1",))
    held = dataclasses.replace(cluster, maintenance=dataclasses.replace(cluster.maintenance, epo=stands))
    store.write(where.config, held)
    plays(KILLED)
    status, _out, err = roundsman("cluster", "epo", *words, "--force")
    assert (status, err.strip().endswith(told)) == (137, True)


def test_what_was_stopped_before_the_hold_does_not_say_that_something_is_held(
    roundsman: Run, plays: Callable[[str], Path]
) -> None:
    plays(KILLED)
    status, _out, err = roundsman("cluster", "epo", "--all", "--force")
    assert (status, err.splitlines()[-1]) == (137, "roundsman: this was stopped, and no emergency power off stands")
