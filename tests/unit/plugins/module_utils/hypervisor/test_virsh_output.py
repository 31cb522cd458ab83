from __future__ import annotations

import re

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.module_utils.hypervisor import virsh_output
from ansible_collections.roundsman.cluster.plugins.module_utils.hypervisor.virsh_output import Domain, Job, State

from . import recorded_libvirt


def test_domains_are_told_with_their_state_memory_and_time() -> None:
    assert virsh_output.domains(recorded_libvirt.STATS) == [
        Domain("i1", State.RUNNING, "running", memory=16, vcpus=1, cpu_seconds=0.56),
        Domain("churn", State.MOVING, "in migration", memory=16, vcpus=1, cpu_seconds=0.37),
        Domain("full", State.HALTED, "paused after an I/O error of a disk", memory=16, vcpus=1, cpu_seconds=0.58),
    ]
    assert virsh_output.domains("\n") == []


@pytest.mark.parametrize(
    ("state", "reason", "found", "text"),
    [
        (2, 0, State.RUNNING, "running"),
        (3, 1, State.HALTED, "paused by somebody"),
        (3, 10, State.HALTED, "crashed, and is kept paused"),
        (3, 11, State.MOVING, "in migration"),
        (3, 99, State.HALTED, "paused"),
        (4, 1, State.HALTED, "shutting down"),
        (5, 4, State.OFF, "off"),
        (6, 1, State.HALTED, "crashed"),
        (7, 0, State.HALTED, "put to sleep by its own system"),
        (9, 0, State.HALTED, "in state 9 of libvirt"),
    ],
)
def test_only_what_runs_is_running(state: int, reason: int, found: State, text: str) -> None:
    (one,) = virsh_output.domains(f"Domain: 'a'\n  state.state={state}\n  state.reason={reason}\n")
    assert (one.state, one.text) == (found, text)


@pytest.mark.parametrize(
    "text", ["error: x", "  state.state=1", "Domain: 'a'\n", "Domain: 'a'\n  state.state=1\n  cpu.time=long\n"]
)
def test_other_text_is_no_statistics(text: str) -> None:
    with pytest.raises(errors.InvalidInput, match="virsh domstats"):
        virsh_output.domains(text)


def test_a_migration_is_told_with_what_is_left() -> None:
    job = virsh_output.job(recorded_libvirt.LEAVING)
    assert job == Job("Outgoing migration", seconds=3.397, total=16.375, remaining=9.402, iteration=1)
    assert (job.leaves, job.moves, job.is_busy) == (True, True, False)


@pytest.mark.parametrize("text", [recorded_libvirt.NO_JOB, recorded_libvirt.COMPLETED])
def test_what_has_ended_is_no_job(text: str) -> None:
    job = virsh_output.job(text)
    assert (job, job.leaves, job.moves) == (Job(), False, False)


def test_sizes_have_units() -> None:
    for size, mebibytes in (("1.500 GiB", 1536.0), ("512.000 KiB", 0.5), ("0.000 B", 0.0)):
        text = re.sub("9.402 MiB", size, recorded_libvirt.LEAVING)
        assert virsh_output.job(text).remaining == mebibytes


@pytest.mark.parametrize("text", ["", "error: no", recorded_libvirt.LEAVING.replace("3397", "soon")])
def test_other_text_is_no_job(text: str) -> None:
    with pytest.raises(errors.InvalidInput, match="virsh domjobinfo"):
        virsh_output.job(text)


def test_names_and_uuids_are_listed() -> None:
    assert virsh_output.uuids(recorded_libvirt.UUIDS) == {
        "churn": "11111111-2222-3333-4444-555555555553",
        "i1": "11111111-2222-3333-4444-555555555551",
    }
    assert virsh_output.names("i1\nweb 2\n\n") == ["i1", "web 2"]
