"""The whole daemon on virtual time: fixed seeds, the same trace for each, and bugs of the past that are found."""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
import pkgutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.daemon import maintenance
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils import durable_files

from tests.simulation import case, frequent, mutants, patches, shrink, trial

if TYPE_CHECKING:
    from tests.chaos.mutants.mutant import Mutant

ROOT = Path(__file__).resolve().parents[2]
FAST = ("lost_is_repeated", "start_not_durable", "slot_kept")
"""The bugs that the default suite puts back; `make slowtest` puts all of them back."""
OTHERS = [mutant for mutant in mutants.MUTANTS if mutant.name not in {*FAST, *frequent.FREQUENT}]
MOST_SEEDS = 60


@pytest.mark.parametrize("seed", range(1, 4))
def test_nothing_is_violated_and_everything_settles(seed: int) -> None:
    outcome = trial.play(case.of_seed(seed, steps=20))
    assert outcome.violations == ()
    assert outcome.settled


@pytest.mark.parametrize("seed", [1, 3, 4])
def test_nothing_is_violated_where_few_kinds_of_steps_and_faults_are_frequent(seed: int) -> None:
    made = case.shaped(seed)
    assert len({step.do for step in made.steps}) <= 5
    assert trial.play(made).violations == ()


TRACED = ("case.of_seed(3, steps=15)", "frequent.FREQUENT['compared_before_lock'].of_seed(2)")


@pytest.fixture(scope="module")
def traces() -> list[dict[str, str]]:
    """The trace of each case, in two processes with hash seeds of their own."""
    cases = ", ".join(f"{made!r}: str(trial.play({made}).trace)" for made in TRACED)
    program = f"import json; from tests.simulation import case, frequent, trial; print(json.dumps({{{cases}}}))"
    paths = os.pathsep.join((str(ROOT), str(ROOT / "playbooks/collections")))
    return [
        json.loads(
            subprocess.run(
                [sys.executable, "-c", program],
                env={**os.environ, "PYTHONPATH": paths, "PYTHONHASHSEED": hash_seed},
                check=True,
                capture_output=True,
                text=True,
            ).stdout
        )
        for hash_seed in ("1", "2")
    ]


@pytest.mark.parametrize("made", TRACED)
def test_a_seed_has_one_trace_under_any_hash_seed(traces: list[dict[str, str]], made: str) -> None:
    first, second = (one[made] for one in traces)
    assert first == second


def test_each_patch_has_a_reason_and_is_taken_back() -> None:
    before = os.fsync
    trial.play(case.of_seed(1, steps=1))
    assert os.fsync is before
    assert all(patch.reason for patch in patches.PATCHES)


def test_no_part_of_maintenance_goes_by_the_clock_of_the_machine() -> None:
    patched = {patch.owner for patch in patches.PATCHES if patch.name == "monotonic"}
    found = set()
    for module in pkgutil.iter_modules(maintenance.__path__, f"{maintenance.__name__}."):
        for owner in vars(importlib.import_module(module.name)).values():
            defaults = getattr(getattr(owner, "__init__", None), "__kwdefaults__", None) or {}
            if time.monotonic in defaults.values():
                found.add(f"{owner.__module__}:{owner.__qualname__}.__init__")
    assert found
    assert found <= patched


def test_a_case_does_not_know_that_the_disk_failed_in_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durable_files, "_DISK", durable_files.Disk(errors.StateUnknown("the disk failed")))
    assert trial.play(case.of_seed(1, steps=1)).violations == ()


def test_a_case_is_kept_as_it_is(tmp_path: Path) -> None:
    made = case.of_seed(5)
    made.save(tmp_path / "case")
    assert case.load(tmp_path / "case") == made


CASES = sorted(path.parent for path in (Path(__file__).parent / "cases").glob("*/case.json"))


@pytest.mark.parametrize("folder", CASES, ids=lambda folder: folder.name)
def test_what_once_failed_does_not_fail_any_more_and_finds_its_bug_where_that_is_put_back(folder: Path) -> None:
    made = case.load(folder)
    assert trial.play(made).violations == ()
    if made.finds:
        # A change of the world, as one more sync, has its faults happen elsewhere: the seeds beside it find it then.
        beside = (dataclasses.replace(made, seed=made.seed + more) for more in range(30))
        with mutants.put_back(mutants.find(made.finds)):
            assert any(trial.play(each).violations for each in beside)


def test_a_failing_case_is_shrunk_to_what_it_needs() -> None:
    def fails(made: case.Case) -> bool:
        return {3, 17} <= {step.number for step in made.steps} and "process-killed" in made.faults

    made = dataclasses.replace(case.of_seed(1), faults=case.FAULTS)
    smaller = shrink.shrink(made, fails)
    assert [step.number for step in smaller.steps] == [3, 17]
    assert list(smaller.faults) == ["process-killed"]


@pytest.mark.parametrize("mutant", mutants.MUTANTS, ids=lambda mutant: mutant.name)
def test_a_bug_of_the_past_fits_the_code_that_it_breaks(mutant: Mutant) -> None:
    for edit in mutant.edits:
        assert mutant.text(edit.path)
    assert mutants.changed(mutant)


def _is_found(mutant: Mutant) -> bool:
    with mutants.put_back(mutant):
        return any(trial.play(case.of_seed(seed)).violations for seed in range(1, MOST_SEEDS))


@pytest.mark.parametrize("name", FAST)
def test_a_bug_of_the_past_is_found(name: str) -> None:
    assert _is_found(mutants.find(name))


@pytest.mark.parametrize("name", frequent.FREQUENT)
def test_a_bug_that_seeds_find_seldom_is_found_where_its_faults_are_frequent(name: str) -> None:
    often = frequent.FREQUENT[name]
    cases = (often.of_seed(seed) for seed in range(often.first, often.first + MOST_SEEDS))
    with mutants.put_back(mutants.find(name)):
        found = next((each for each in cases if trial.play(each).violations), None)
    assert found is not None
    assert not trial.play(found).violations


@pytest.mark.slow
@pytest.mark.parametrize("mutant", OTHERS, ids=lambda mutant: mutant.name)
def test_every_other_bug_of_the_past_is_found(mutant: Mutant) -> None:
    assert _is_found(mutant)
