from __future__ import annotations

import time

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain import errors
from ansible_collections.roundsman.cluster.plugins.module_utils.storage import programs

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


def test_a_program_that_is_not_there_is_named() -> None:
    with pytest.raises(errors.Failed, match="no-such-program does not start: No such file"):
        RUN("no-such-program")


def test_a_program_that_hangs_ends_with_all_that_it_started() -> None:
    began = time.monotonic()
    with pytest.raises(errors.Failed, match=r"is not done after 0\.2 s"):
        RUN("sh", "-c", "sleep 600 & sleep 600", time_limit=0.2)
    assert time.monotonic() - began < 300
