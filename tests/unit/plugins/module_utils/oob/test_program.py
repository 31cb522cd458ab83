from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain import errors, health, power
from ansible_collections.roundsman.cluster.plugins.module_utils.oob import drivers, program

if TYPE_CHECKING:
    from pathlib import Path

ON, OFF, UNKNOWN = power.State.ON, power.State.OFF, power.State.UNKNOWN


def target(folder: Path, script: str) -> power.Target:
    """A node behind a program that counts its calls in `calls` and keeps the power in `power`."""
    path = folder / "oob"
    (folder / "power").write_text("true")
    path.write_text(f'#!/bin/sh\ncd {folder}\necho "$1 $2" >>calls\nexport POWER=$(cat power)\n{script}\n')
    path.chmod(0o755)
    return power.Target(name="node1", driver=str(path))


WELL = """case $1 in
power-status) echo "{\\"powered\\": $POWER}" ;;
power-on) echo true >power ;;
power-off) echo false >power ;;
power-cycle) echo false >power; (sleep 0.3; echo true >power) & ;;
health) echo '[["PS", "OK"], ["FAN 1 RPM", "WARNING"]]' ;;
esac"""


def run(one: power.Target, command: power.Command, *, deadline: float = 20.0) -> power.Outcome:
    [outcome] = drivers.run([one], command=command, deadline=deadline)
    return outcome


def test_a_node_is_switched_off_and_read_back(tmp_path: Path) -> None:
    outcome = run(target(tmp_path, WELL), power.Command.OFF)
    assert (outcome.confirmed, outcome.before, outcome.after) == (True, ON, OFF)
    assert (tmp_path / "calls").read_text().split("\n")[:2] == ["power-status node1", "power-off node1"]


def test_the_state_read_back_overrules_the_exit_status(tmp_path: Path) -> None:
    script = WELL.replace("echo false >power ;;", "echo false >power; echo already off >&2; exit 1 ;;", 1)
    outcome = run(target(tmp_path, script), power.Command.OFF)
    assert (outcome.confirmed, outcome.after) == (True, OFF)


def test_a_failure_is_told_as_the_seed_wants_it(tmp_path: Path) -> None:
    script = WELL.replace("power-off) echo false >power", "power-off) echo no breaker >&2; exit 1")
    outcome = run(target(tmp_path, script), power.Command.OFF)
    assert (outcome.confirmed, outcome.reason) == (False, "refused")
    assert outcome.text == "OOB program execution failed (no breaker)"


def test_a_program_that_hangs_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    one = target(tmp_path, "(sleep 60; echo late >late) & echo $! >child; wait")
    bmc = program.Bmc(one, seconds=0.3)
    with pytest.raises(errors.PowerFailed) as caught:
        asyncio.run(bmc.state())
    assert str(caught.value) == "OOB program execution timeout exceeded, OOB program execution aborted"
    child = int((tmp_path / "child").read_text())
    with pytest.raises(ProcessLookupError):
        _alive(child)


def _alive(pid: int) -> None:
    from pathlib import Path  # noqa: PLC0415

    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        raise ProcessLookupError from None
    if state == "Z":
        raise ProcessLookupError


@pytest.mark.parametrize("said", ["", "powered", '{"powered": 1}', "[]", '{"on": true}'])
def test_a_status_that_is_none_is_unknown_and_never_off(tmp_path: Path, said: str) -> None:
    outcome = run(target(tmp_path, f"printf '%s' '{said}'"), power.Command.OFF)
    assert (outcome.confirmed, outcome.after, outcome.sent, outcome.reason) == (False, UNKNOWN, False, "driver")


def test_health_is_a_list_of_items(tmp_path: Path) -> None:
    items = asyncio.run(program.Bmc(target(tmp_path, WELL)).health())
    assert items == [health.Item("PS", health.Status.OK), health.Item("FAN 1 RPM", health.Status.WARNING)]


def test_a_program_gets_nothing_of_our_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BMC_PASSWORD", "s3cret")
    one = target(tmp_path, 'env >seen; echo "{\\"powered\\": true}"')
    run(one, power.Command.STATUS)
    assert "s3cret" not in (tmp_path / "seen").read_text()


@pytest.mark.parametrize("mode", [0o644, None])
def test_a_program_that_is_not_there_or_not_executable_is_refused_first(tmp_path: Path, mode: int | None) -> None:
    one = target(tmp_path, WELL)
    path = tmp_path / "oob"
    if mode is None:
        path.unlink()
    else:
        path.chmod(mode)
    with pytest.raises(errors.InvalidInput, match="node1: the helper program"):
        drivers.run([one], command=power.Command.STATUS)
