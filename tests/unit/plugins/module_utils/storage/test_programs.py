from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain import errors, signing
from ansible_collections.roundsman.cluster.plugins.module_utils.storage import programs

if TYPE_CHECKING:
    import pathlib

SECRET = signing.pair_secret(b"a key", "an instance", ("n1", "n2"))
RUN = programs.Programs().run
KERNEL = r"""0: State change failed: (-12) Device is held open by someone
additional info from kernel:
failed to demote
Command 'drbdsetup-84 down r0' terminated with exit code 11
"""


def test_a_program_gets_its_words_as_they_are_and_speaks_plain_english() -> None:
    assert RUN("printf", "%s|%s", "a; rm b", "$HOME") == "a; rm b|$HOME"
    assert RUN("sh", "-c", "echo $LC_ALL; pwd; cat") == "C\n/\n"


def test_a_failure_is_told_in_its_last_line() -> None:
    with pytest.raises(errors.Failed, match=r"^sh -c exit 3: status 3$"):
        RUN("sh", "-c", "exit 3")
    with pytest.raises(errors.Failed, match=r"the second$"):
        RUN("sh", "-c", "echo the first >&2; echo the second >&2; echo out; exit 1")
    with pytest.raises(errors.Failed, match=r"out$"):
        RUN("sh", "-c", "echo out; exit 1")
    assert RUN("sh", "-c", "echo x; exit 10", accepted=(0, 10)) == "x\n"


def test_what_the_kernel_said_to_drbd_is_told_and_not_who_ran_whom() -> None:
    with pytest.raises(errors.Failed) as failed:
        RUN("sh", "-c", f'echo "{KERNEL}" >&2; exit 11')
    assert str(failed.value).endswith(": 0: State change failed: (-12) Device is held open by someone failed to demote")


@pytest.mark.parametrize(
    "line",
    [
        f"Command 'drbdsetup-84 connect r0 --shared-secret={SECRET} --protocol=C' did not terminate within 5 seconds",
        f"Command 'drbdsetup new-peer r0 1 --shared-secret={SECRET}' did not terminate within 5 seconds",
        f"drbdsetup: --shared-secret '{SECRET}': too long",
        f'r0.res:2: net {{ shared-secret "{SECRET}"; }}',
        f'r0.res:2: net {{ shared-secret "{SECRET}',
        f"r0.res:2: net {{ shared-secret {SECRET}; }}",
        f"r0.res:2: Parse error: 'option' expected, but got '{SECRET}'",
        f"r0.res:2: Parse error: 'option' expected, but got '{SECRET[:20]}...'",
        f'r0.res:2: Unterminated double quoted string >>>"{SECRET[:19]}...<<<',
        f"0: Failure: (102) Local address already in use. --shared-secret={SECRET}",
    ],
)
def test_the_secret_of_a_pair_is_in_no_failure_and_in_no_output(line: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "said").write_text(line)
    for where in ("", " >&2"):
        with pytest.raises(errors.Failed) as failed:
            RUN("sh", "-c", f"cat {tmp_path}/said{where}; exit 20")
        assert SECRET[:19] not in str(failed.value)
        assert "hidden" in str(failed.value) or " ...' did not terminate within" in str(failed.value)
    if "shared-secret" in line:
        assert SECRET not in RUN("cat", str(tmp_path / "said"))


def test_what_drbdadm_did_not_wait_for_is_told_however_long_its_command_is() -> None:
    command = "drbdsetup-84 connect r0 " + "--option=value " * 40
    with pytest.raises(errors.Failed) as failed:
        RUN("sh", "-c", f"echo \"Command '{command}' did not terminate within 5 seconds\" >&2; exit 20")
    text = "Command 'drbdsetup-84 connect r0 ...' did not terminate within 5 seconds"
    assert str(failed.value).endswith(text)


def test_generations_and_names_of_devices_stay_as_they_are() -> None:
    text = "E9CB40A3D1F0B6A4:0 open(/dev/mapper/36005076801810523100000000000afe1) failed: No such file"
    with pytest.raises(errors.Failed) as failed:
        RUN("sh", "-c", f"echo '{text}'; exit 20")
    assert str(failed.value).endswith(text)
    assert RUN("echo", "36005076801810523100000000000afe1") == "36005076801810523100000000000afe1\n"


def test_a_program_that_is_not_there_is_named() -> None:
    with pytest.raises(errors.Failed, match="no-such-program does not start: No such file"):
        RUN("no-such-program")


def test_a_program_that_hangs_ends_with_all_that_it_started() -> None:
    began = time.monotonic()
    with pytest.raises(errors.Failed, match=r"is not done after 0\.2 s"):
        RUN("sh", "-c", "sleep 600 & sleep 600", time_limit=0.2)
    assert time.monotonic() - began < 300
