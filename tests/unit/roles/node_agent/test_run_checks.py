from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent import diagnosis
from hypothesis import given
from hypothesis import strategies as st

FILE = Path(__file__).resolve().parents[4] / "roles/node_agent/files/run_checks.py"
OK = {"status": "Ok"}


def loaded() -> Any:
    specification = importlib.util.spec_from_file_location("run_checks", FILE)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


run_checks = loaded()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "checks.d"
    path.mkdir(mode=0o755)
    return path


def check(folder: Path, name: str, script: str, *, mode: int = 0o755) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(mode)


def says(folder: Path, name: str, value: dict[str, Any]) -> None:
    check(folder, name, f"echo '{json.dumps(value)}'")


def test_a_node_on_which_every_check_is_well_is_ok(folder: Path) -> None:
    says(folder, "raid.py", OK)
    says(folder, "link.py", {**OK, "details": "nobody reads this"})
    assert run_checks.diagnosis(folder) == OK


def test_the_most_invasive_finding_is_the_action_and_all_are_told(folder: Path) -> None:
    says(folder, "raid", {"status": "live-repair", "command": "mend", "details": {"md0": "is degraded"}})
    says(folder, "smart", {"status": "evacuate", "details": ["sda"]})
    says(folder, "link", OK)
    found = run_checks.diagnosis(folder)
    assert found["status"] == "evacuate"
    assert "command" not in found
    assert set(found["details"]["findings"]) == {"raid", "smart"}


def test_of_several_repair_commands_the_first_by_name_is_run(folder: Path) -> None:
    for name in ("b", "a", "c"):
        says(folder, name, {"status": "live-repair", "command": f"mend-{name}"})
    assert run_checks.diagnosis(folder)["command"] == "mend-a"


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("exit 3", "it ends with 3"),
        ("kill -9 $$", "it ends with -9"),
        ("echo Ok", "it prints no JSON"),
        ('echo \'{"status": "ok"}\'', "it prints no status"),
        ("echo '[]'", "it prints no status"),
        ('echo \'{"status": ["Ok"]}\'', "it prints no status"),
        ("exec sleep 60", "it is not done after 2 s"),
        ("sleep 60 & echo '{}'", "it is not done after 2 s"),
    ],
)
def test_a_check_that_does_not_say_how_things_are_asks_for_a_person(folder: Path, script: str, why: str) -> None:
    check(folder, "broken", script)
    says(folder, "link", OK)
    found = run_checks.diagnosis(folder, seconds=2.0)
    assert found == {"status": "live-repair", "details": {"broken-checks": {"broken": why}, "findings": {}}}


def test_a_broken_check_hides_no_finding(folder: Path) -> None:
    check(folder, "broken", "exit 1")
    says(folder, "smart", {"status": "evacuate-failover"})
    found = run_checks.diagnosis(folder)
    assert found["status"] == "evacuate-failover"
    assert found["details"]["broken-checks"] == {"broken": "it ends with 1"}


def test_a_check_that_others_may_write_is_not_run(folder: Path) -> None:
    check(folder, "open", f"touch {folder}/ran; echo '{json.dumps(OK)}'", mode=0o777)
    found = run_checks.diagnosis(folder)
    assert found["details"]["broken-checks"] == {"open": "others may write it"}
    assert not (folder / "ran").exists()
    folder.chmod(0o777)
    with pytest.raises(run_checks.Broken):
        run_checks.diagnosis(folder)


def test_files_that_are_no_programs_are_no_checks(folder: Path) -> None:
    check(folder, "README", "exit 1", mode=0o644)
    assert run_checks.diagnosis(folder) == OK


def test_the_output_is_the_same_as_long_as_the_findings_are(folder: Path) -> None:
    for name in "dbca":
        says(folder, name, {"status": "evacuate", "details": {"y": 1, "x": 2}})
    command = [sys.executable, str(FILE), str(folder)]
    printed = {subprocess.run(command, capture_output=True, check=True).stdout for _ in range(3)}
    assert len(printed) == 1
    assert diagnosis.parse(printed.pop().decode()).status is diagnosis.Status.EVACUATE


def test_a_folder_that_is_not_there_is_a_failure(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, str(FILE), str(tmp_path / "x")], capture_output=True, check=False)
    assert done.returncode == 1
    assert b"Traceback" not in done.stderr


@given(
    st.dictionaries(
        st.text("abc", min_size=1, max_size=3),
        st.tuples(
            st.fixed_dictionaries(
                {"status": st.sampled_from(run_checks.STATUSES)}, optional={"command": st.text(max_size=3)}
            ),
            st.sampled_from(["", "", "it ends with 1"]),
        ),
    )
)
def test_what_is_merged_is_a_diagnosis_no_better_than_its_worst_check(
    said: dict[str, tuple[dict[str, Any], str]],
) -> None:
    found = diagnosis.parse(json.dumps(run_checks.merged(said)))
    told = [diagnosis.Status.LIVE_REPAIR if why else diagnosis.Status(one["status"]) for one, why in said.values()]
    assert found.status is max(told, default=diagnosis.Status.OK)
