from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import shutil
import sys
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.power import health, power
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.module_utils.oob import drivers, program

from tests.unit import other_users

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
power-status) [ -e cycled ] && rm cycled && POWER=false; echo "{\\"powered\\": $POWER}" ;;
power-on) echo true >power ;;
power-off) echo false >power ;;
power-cycle) touch cycled ;;
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


@pytest.mark.parametrize("where", ["1", "2"])
def test_a_program_that_prints_without_end_is_ended(tmp_path: Path, where: str) -> None:
    bmc = program.Bmc(target(tmp_path, f"echo $$ >child; exec yes >&{where}"), seconds=30.0)
    with pytest.raises(errors.PowerFailed, match="OOB program printed more than 1048576 bytes"):
        asyncio.run(bmc.state())
    with pytest.raises(ProcessLookupError):
        _alive(int((tmp_path / "child").read_text()))


def test_a_program_that_hangs_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    one = target(tmp_path, "(sleep 60; echo late >late) & echo $! >child; wait")
    bmc = program.Bmc(one, seconds=2.0)
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


def test_a_soft_off_is_not_in_the_contract_and_never_becomes_a_hard_one(tmp_path: Path) -> None:
    outcome = run(target(tmp_path, WELL), power.Command.SOFT_OFF)
    assert (outcome.confirmed, outcome.reason, outcome.after) == (False, "refused", ON)
    assert outcome.text == "OOB programs know no soft_off"
    assert "power-off" not in (tmp_path / "calls").read_text()


def test_what_a_program_leaves_running_at_its_end_is_left_running(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "late")
    script = WELL.replace("echo false >power", "(echo false >power; echo done >late) >/dev/null 2>&1 &", 1)
    asyncio.run(program.Bmc(target(tmp_path, script)).send(power.Command.OFF))
    assert (tmp_path / "late").read_text() == "done\n"


def test_a_cycle_is_started_once(tmp_path: Path) -> None:
    outcome = run(target(tmp_path, WELL), power.Command.CYCLE)
    assert (outcome.confirmed, outcome.attempts) == (True, 1)
    assert (tmp_path / "calls").read_text().count("power-cycle") == 1


def test_many_nodes_are_asked_side_by_side_in_the_order_asked_for(tmp_path: Path) -> None:
    folders = [tmp_path / f"node{number}" for number in range(5)]
    for folder in folders:
        folder.mkdir()
    several = [dataclasses.replace(target(folder, WELL), name=folder.name) for folder in folders]
    outcomes = drivers.run(several, command=power.Command.OFF)
    assert [(one.name, one.confirmed) for one in outcomes] == [(folder.name, True) for folder in folders]


@pytest.mark.parametrize(
    ("script", "reason", "text"),
    [
        ("echo no fans >&2; exit 1", "refused", "OOB program execution failed (no fans)"),
        ("exit 7", "refused", "OOB program execution failed (exit status 7)"),
        ("echo fine", "driver", "OOB program said no JSON: 'fine\\n'"),
        ('echo "[[1, 2]]"', "driver", "OOB program said health: [1, 2] is no pair of item and status"),
        ('echo "{}"', "driver", "OOB program said health is no list"),
    ],
)
def test_a_health_that_is_none_is_unknown_with_its_reason(tmp_path: Path, script: str, reason: str, text: str) -> None:
    [told] = drivers.health([target(tmp_path, script)])
    assert (told.status, told.reason, told.text) == (health.Status.UNKNOWN, reason, text)


def test_a_health_that_takes_too_long_is_unknown(tmp_path: Path) -> None:
    [told] = drivers.health([target(tmp_path, "sleep 60")], deadline=0.5)
    assert (told.status, told.reason) == (health.Status.UNKNOWN, "timeout")


def test_a_program_that_is_no_program_is_told_so(tmp_path: Path) -> None:
    one = target(tmp_path, WELL)
    (tmp_path / "oob").write_bytes(b"\x7fnothing that runs")
    outcome = run(one, power.Command.STATUS)
    assert (outcome.reason, outcome.text) == ("driver", "OOB program execution failed (Exec format error)")


def test_without_a_deadline_each_call_of_a_program_has_a_minute() -> None:
    assert program.SECONDS == 60
    assert drivers.PROGRAM.health_seconds > program.SECONDS
    assert drivers.PROGRAM.describe_seconds > program.SECONDS
    assert drivers.PROGRAM.run_seconds(power.Command.STATUS) > program.SECONDS
    for command in (power.Command.ON, power.Command.OFF, power.Command.CYCLE):
        assert drivers.PROGRAM.run_seconds(command) > 3 * program.SECONDS


SHORT = 1.5
"""Seconds for one call in the tests below, so that nobody waits for a minute."""


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each call a few seconds; all deadlines follow from that."""
    monkeypatch.setattr(program, "SECONDS", SHORT)
    monkeypatch.setattr(program, "SLACK", 1.0)
    monkeypatch.setattr(program.Bmc.__init__, "__kwdefaults__", {"seconds": SHORT})
    changed = dataclasses.replace(drivers.PROGRAM, health_seconds=program.deadline(1))
    monkeypatch.setattr(drivers, "PROGRAM", changed)


@pytest.mark.usefixtures("short")
def test_a_program_that_needs_most_of_its_time_for_each_call_switches_off_and_confirms(tmp_path: Path) -> None:
    [outcome] = drivers.run([target(tmp_path, f"sleep {SHORT / 2}\n{WELL}")], command=power.Command.OFF)
    assert (outcome.confirmed, outcome.before, outcome.after) == (True, ON, OFF)


ABORTED = "OOB program execution timeout exceeded, OOB program execution aborted"


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("command", [power.Command.STATUS, power.Command.OFF])
def test_a_program_that_hangs_is_aborted_in_the_seeds_words(tmp_path: Path, command: power.Command) -> None:
    [outcome] = drivers.run([target(tmp_path, "exec sleep 60")], command=command)
    assert (outcome.confirmed, outcome.reason, outcome.text) == (False, "timeout", ABORTED)


@pytest.mark.usefixtures("short")
def test_a_program_that_hangs_at_the_command_only_is_aborted_in_the_seeds_words(tmp_path: Path) -> None:
    script = WELL.replace("power-off) echo false >power", "power-off) exec sleep 60")
    [outcome] = drivers.run([target(tmp_path, script)], command=power.Command.OFF)
    assert (outcome.confirmed, outcome.reason) == (False, "timeout")
    assert outcome.text is not None
    assert outcome.text.endswith(ABORTED)


@pytest.mark.usefixtures("short")
def test_health_of_a_program_that_hangs_is_aborted_in_the_seeds_words(tmp_path: Path) -> None:
    [told] = drivers.health([target(tmp_path, "exec sleep 60")])
    assert (told.reason, told.text) == ("timeout", ABORTED)


@pytest.mark.slow
def test_a_helper_of_35_seconds_a_call_confirms_a_power_off(tmp_path: Path) -> None:
    [outcome] = drivers.run([target(tmp_path, f"sleep 35\n{WELL}")], command=power.Command.OFF)
    assert (outcome.confirmed, outcome.before, outcome.after) == (True, ON, OFF)
    assert outcome.seconds > 100


def test_a_program_whose_pipe_stays_open_after_it_was_killed_is_waited_for_no_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "REAP_SECONDS", 0.5)
    # In another session it survives its group, and keeps the pipe: as a process stuck in the kernel does.
    one = target(tmp_path, "setsid sh -c 'echo $$ >child; exec sleep 60' & while true; do sleep 1; done")
    with pytest.raises(errors.PowerFailed, match=ABORTED):
        asyncio.run(asyncio.wait_for(program.Bmc(one, seconds=1.0).state(), 30))
    os.kill(int((tmp_path / "child").read_text()), 9)


@pytest.mark.parametrize("start", ["sleep 300 &", "setsid sleep 300 &"])
def test_a_program_that_leaves_a_process_with_its_pipes_open_has_answered_once_it_exited(
    tmp_path: Path, start: str
) -> None:
    os.mkfifo(tmp_path / "pids")
    opened = os.open(tmp_path / "pids", os.O_RDWR)
    started = f"{start} echo $! >pids"
    try:
        status = program.Bmc(target(tmp_path, f"{started}\n{WELL}"), seconds=15.0)
        assert asyncio.run(status.state()) is ON
        refusing = program.Bmc(target(tmp_path, f"{started}\necho no breaker >&2; exit 3"), seconds=15.0)
        with pytest.raises(errors.PowerFailed, match="no breaker"):
            asyncio.run(refusing.send(power.Command.OFF))
        flooding = program.Bmc(target(tmp_path, f"yes & echo $! >pids\n{WELL}"), seconds=15.0)
        with pytest.raises(errors.PowerFailed, match="OOB program printed more than 1048576 bytes"):
            asyncio.run(flooding.state())
    finally:
        for pid in os.read(opened, 4096).split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), 9)
        os.close(opened)


def refusal(one: power.Target) -> str:
    with pytest.raises(errors.InvalidInput) as refused:
        drivers.run([one], command=power.Command.STATUS)
    told = str(refused.value)
    assert told.startswith(f"{one.name}: ")
    assert "\n" not in told
    return told


@other_users.only_root
@pytest.mark.parametrize("is_file", [True, False])
def test_root_runs_no_program_of_somebody_else(tmp_path: Path, is_file: bool) -> None:
    one = target(tmp_path, WELL)
    place = tmp_path / "oob" if is_file else tmp_path
    os.chown(place, 65534, 65534)
    assert f"{place} is owned by uid 65534: it must be owned by root: `chown root:root {place}`" in refusal(one)
    assert not (tmp_path / "calls").exists()


def test_a_program_that_others_may_write_is_not_run(tmp_path: Path) -> None:
    one = target(tmp_path, WELL)
    (tmp_path / "oob").chmod(0o775)
    assert f"{tmp_path}/oob has the mode 0775, so others than its owner can write it" in refusal(one)
    (tmp_path / "oob").chmod(0o755)
    tmp_path.chmod(0o777)
    assert f"{tmp_path} has the mode 0777, so others than its owner can write it" in refusal(one)
    assert not (tmp_path / "calls").exists()


@pytest.mark.parametrize("path", ["/bin/true", "/usr/bin/env", "/usr/bin/../bin/env", "/sbin/sysctl"])
def test_a_command_of_the_system_is_no_helper_program(tmp_path: Path, path: str) -> None:
    if not os.path.exists(path):  # noqa: PTH110 - a text with dots in it
        pytest.skip(f"there is no {path} here")
    (tmp_path / "link").symlink_to(path)
    for driver in (path, str(tmp_path / "link")):
        told = refusal(power.Target(name="node1", driver=driver))
        assert f"{driver} is a command of the system, in " in told
        assert "such as /opt/roundsman-oob" in told


def test_a_node_s_name_never_becomes_an_option(tmp_path: Path) -> None:
    one = dataclasses.replace(target(tmp_path, WELL), name="--force")
    assert refusal(one) == "--force: a helper program would take this name for an option"
    with pytest.raises(errors.PowerFailed, match="would take this name for an option"):
        asyncio.run(program.Bmc(one).state())
    assert not (tmp_path / "calls").exists()


def test_the_program_that_was_checked_is_run_though_it_is_replaced_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, start = target(tmp_path, WELL), asyncio.create_subprocess_exec
    swaps = []

    async def swapped(*arguments: str, **options: object) -> asyncio.subprocess.Process:
        (tmp_path / "other").write_text(f"#!/bin/sh\necho swapped >>{tmp_path}/calls\n")
        (tmp_path / "other").chmod(0o755)
        (tmp_path / "other").rename(tmp_path / "oob")
        swaps.append(arguments)
        return await start(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", swapped)
    assert asyncio.run(program.Bmc(one).state()) is ON
    assert (len(swaps), (tmp_path / "calls").read_text()) == (1, "power-status node1\n")


def test_a_program_that_stops_being_trusted_between_two_calls_is_not_run_again(tmp_path: Path) -> None:
    one = target(tmp_path, f"chmod 0777 {tmp_path}/oob\n{WELL}")
    outcome = run(one, power.Command.OFF)
    assert (outcome.confirmed, outcome.reason) == (False, "unconfigured")
    assert "has the mode 0777, so others than its owner can write it" in (outcome.text or "")
    assert (tmp_path / "calls").read_text() == "power-status node1\n"


@pytest.mark.parametrize("interpreter", ["/usr/bin/env python3", sys.executable])
def test_interpreters_find_the_program_by_its_descriptor(tmp_path: Path, interpreter: str) -> None:
    (tmp_path / "oob").write_text(
        f"#!{interpreter}\nimport sys\nprint('[[\"%s\", \"OK\"]]' % ' '.join(sys.argv[1:]))\n"
    )
    (tmp_path / "oob").chmod(0o755)
    one = power.Target(name="node1", driver=str(tmp_path / "oob"))
    assert asyncio.run(program.Bmc(one).health()) == [health.Item("health node1", health.Status.OK)]


def test_a_compiled_program_is_run_by_its_descriptor_under_its_own_name(tmp_path: Path) -> None:
    shutil.copy("/bin/sh", tmp_path / "oob")
    one = power.Target(name="node1", driver=str(tmp_path / "oob"))
    # A shell looks for a script called power-status, and complains under the name it was started by.
    with pytest.raises(errors.PowerFailed, match=f"{tmp_path}/oob: .*power-status"):
        asyncio.run(program.Bmc(one).state())
