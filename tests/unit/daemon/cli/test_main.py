from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import typer.main
from ansible_collections.roundsman.cluster.daemon.cli import client, main

from tests import child_signals
from tests.unit.daemon.cli import canned, stand_in

if TYPE_CHECKING:
    from tests.unit.daemon.cli.conftest import Run

COLLECTIONS = Path(__file__).parents[4] / "playbooks/collections"
COMMAND = [
    sys.executable,
    "-c",
    "from ansible_collections.roundsman.cluster.daemon.cli.main import main; main()",
]


def every_command() -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []

    def walk(command: object, path: tuple[str, ...]) -> None:
        children = getattr(command, "commands", None)
        if not children:
            found.append(path)
        for name, child in (children or {}).items():
            if (*path, name) != ("lab",):
                walk(child, (*path, name))

    walk(typer.main.get_command(main.app), ())
    return found


@pytest.mark.parametrize("path", every_command(), ids=" ".join)
def test_the_help_of_every_command_has_a_sentence_and_an_example(path: tuple[str, ...], roundsman: Run) -> None:
    code, out, _ = roundsman(*path, "--help")
    assert code == 0
    assert f"Example: roundsman {' '.join(path)}" in " ".join(out.split())
    assert any(line.strip().endswith(".") for line in out.splitlines()[2:8])


@pytest.mark.parametrize("words", ["status", "node list", "node power off", "jobs list", "incident list", "cluster"])
def test_a_command_that_asks_the_daemon_imports_neither_planner_nor_ansible_nor_lab(words: str) -> None:
    heavy = "{'numpy', 'ansible', 'ansible_runner', 'watchdog', 'fastapi'}"
    program = f"""
import sys
from ansible_collections.roundsman.cluster.daemon.cli import main
try:
    main.main({[*words.split(), "--help"]})
except SystemExit:
    names = {{name.split(".")[0] for name in sys.modules}} & {heavy}
    rooms = (".plugin_utils.rounds.rounds", ".daemon.lab")
    print(*sorted(names), *sorted(name for name in sys.modules if any(room in name for room in rooms)))
"""
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.splitlines()[-1] == ""


def test_a_daemon_that_is_not_there_is_one_line_and_exit_status_1(tmp_path: Path, roundsman: Run) -> None:
    (tmp_path / "etc").mkdir()
    code, out, err = roundsman("--dir", str(tmp_path), "status")
    assert (code, out) == (1, "")
    assert err == (
        f"roundsman: no daemon answers at {tmp_path}/run/roundsman/socket/roundsmand.sock: "
        f"start it with `roundsmand --root {tmp_path}`\n"
    )


def test_a_folder_with_neither_controller_nor_lab_is_refused(tmp_path: Path, roundsman: Run) -> None:
    found = roundsman("--dir", str(tmp_path), "status")
    assert found == (1, "", f"roundsman: there is neither a controller nor a lab in {tmp_path}\n")


def test_labs_that_do_not_run_are_named_with_the_way_to_start_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, roundsman: Run
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ROUNDSMAN_ROOT", raising=False)
    for name, starts in (
        ("b", "`roundsman lab up --dir .lab/b`"),
        ("a", "`roundsman lab up --dir .lab/a`, or `roundsman lab up --dir .lab/b`"),
    ):
        (tmp_path / ".lab" / name).mkdir(parents=True)
        (tmp_path / ".lab" / name / "lab.json").touch()
        assert roundsman("status")[2].endswith(f": start a lab with {starts}\n")


def test_an_error_of_the_system_is_one_line_with_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, roundsman: Run
) -> None:
    def refuse(_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(tmp_path))

    monkeypatch.setattr(client, "find_daemon", refuse)
    assert roundsman("status") == (1, "", f"roundsman: {tmp_path}: Permission denied\n")


def test_the_version_is_that_of_the_distribution(roundsman: Run) -> None:
    assert roundsman("--version") == (0, f"roundsman {metadata.version('roundsman-cluster')}\n", "")


def test_a_socket_that_nobody_serves_any_more_is_no_daemon(tmp_path: Path, roundsman: Run) -> None:
    with stand_in.serve(tmp_path / "root"):
        pass
    code, _, err = roundsman("--dir", str(tmp_path / "root"), "status")
    assert code == 1
    assert err.startswith("roundsman: no daemon answers at ")
    assert err.count("\n") == 1


def test_the_lab_that_a_dead_daemon_belongs_to_is_named(tmp_path: Path, roundsman: Run) -> None:
    (tmp_path / "controller").mkdir()
    (tmp_path / "lab.json").write_text("{}")
    _, _, err = roundsman("--dir", str(tmp_path), "status")
    assert f"`roundsman lab up --dir {tmp_path}`" in err


def test_a_refusal_of_the_daemon_is_one_line_and_exit_status_1(daemon: stand_in.StandIn, roundsman: Run) -> None:
    code, out, err = roundsman("incident", "ack", "3f2a")
    assert (code, out) == (1, "")
    assert err == "roundsman: there is nothing at /2/incidents/3f2a/ack\n"


def test_a_socket_path_of_any_length_works(tmp_path: Path, roundsman: Run) -> None:
    root = tmp_path / ("long" * 30) / ("er" * 60)
    with stand_in.serve(root) as server:
        server.answers.update(canned.answers())
        code, out, _ = roundsman("--dir", str(root), "incident", "list", "-o", "json")
    assert code == 0
    assert len(json.loads(out)) == 3


def test_a_lab_folder_means_its_controller(tmp_path: Path, roundsman: Run) -> None:
    with stand_in.serve(tmp_path / "controller") as server:
        server.answers.update(canned.answers())
        code, out, _ = roundsman("--dir", str(tmp_path), "status")
    assert (code, out.splitlines()[0].partition(";")[0]) == (0, "Cluster north, master node1")


def test_without_a_choice_the_only_live_lab_is_meant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".lab/dead/controller/run/roundsman").mkdir(parents=True)
    with stand_in.serve(tmp_path / ".lab/live/controller"):
        assert client.located(None).root == Path(".lab/live/controller")


def test_of_several_live_labs_none_is_meant_and_all_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, roundsman: Run
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ROUNDSMAN_ROOT", raising=False)
    with stand_in.serve(tmp_path / ".lab/a/controller"), stand_in.serve(tmp_path / ".lab/b/controller"):
        code, _, err = roundsman("status")
    assert code == 1
    assert err.endswith("or choose one of the labs with --dir: .lab/a, .lab/b\n")


def test_names_and_ids_complete_from_the_daemon(daemon: stand_in.StandIn) -> None:
    assert complete("roundsman node info node") == ["node1", "node2", "node3", "node4", "node5", "node6"]
    assert complete("roundsman incident ack 3") == ["3f2a91c0"]
    assert complete("roundsman jobs watch 1") == ["10", "11", "12"]


def test_completion_without_a_daemon_is_silent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROUNDSMAN_ROOT", str(tmp_path))
    assert complete("roundsman node info node") == []


def complete(line: str) -> list[str]:
    environment = {
        **os.environ,
        "PYTHONPATH": str(COLLECTIONS),
        "_ROUNDSMAN_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(line.split()) - 1),
    }
    done = subprocess.run(COMMAND, env=environment, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize(
    ("command", "resource"), [(("jobs", "watch", "11"), "log"), (("node", "power", "status", "node3"), "wait")]
)
def test_control_c_ends_with_130_and_says_that_the_job_goes_on(
    tmp_path: Path, command: tuple[str, ...], resource: str
) -> None:
    with stand_in.serve(tmp_path) as server:
        server.put("PUT", "/2/power", {"id": 11})
        server.put("GET", f"/2/jobs/11/{resource}", {"status": "running", "final": False, "entries": []})
        child = subprocess.Popen(
            child_signals.reset([*COMMAND, "--dir", str(tmp_path), *command]),
            env={**os.environ, "PYTHONPATH": str(COLLECTIONS)},
            stderr=subprocess.PIPE,
            text=True,
        )
        assert server.first_look.wait(60)
        child.send_signal(signal.SIGINT)
        _, err = child.communicate(timeout=60)
    assert child.returncode == 130
    ways = "follow it with `roundsman jobs watch 11`, or end it with `roundsman jobs cancel 11`"
    assert err == f"roundsman: job 11 goes on: {ways}\n"
