from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent import signing
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.module_utils.storage import (
    drbd_node,
    found_disks,
    program_output,
    programs,
    volumes,
)

if TYPE_CHECKING:
    import pathlib

SECRET = signing.pair_secret(b"a key", "an instance", ("n1", "n2"))
NAME = "vault-shared-secret"
"""Of a volume, a volume group or a resource; DRBD has an option of that name."""
SHOWN = f"""resource {NAME} {{
    net {{
        shared-secret       "{SECRET}";
        allow-two-primaries yes;
    }}
}}
"""
DUMP = f"""<config file="/etc/drbd.conf">
    <resource name="{NAME}" conf-file-line="/etc/drbd.d/vault.res:1">
        <host name="node1">
            <volume vnr="0"><device minor="7">/dev/drbd7</device><disk>/dev/{NAME}/{NAME}</disk></volume>
            <address family="ipv4" port="7788">192.0.2.1</address>
        </host>
        <section name="net"><option name="shared-secret" value="{SECRET}"/></section>
    </resource>
</config>
"""
BAITS = (
    *("Command '", "Command 'a b c ", "Command '' did not terminate within ", "' did not terminate within "),
    *("Command 'a' terminated with exit code ", "additional info", "Failure: (", "failed: (\n", "\n\t", "\n but got '"),
    *("but got '", ">>>", "shared-secret", "shared-secret ", 'shared-secret="', "shared-secret\\", 'shared-secret \\"'),
    *("password=", "password='", "a_", "a-", "://", "://a:", "://a:1", "0", "/0", "a", " ", "'", "\\"),
)
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
def test_the_secret_of_a_pair_is_in_no_failure(line: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "said").write_text(line)
    for where in ("", " >&2"):
        with pytest.raises(errors.Failed) as failed:
            RUN("sh", "-c", f"cat {tmp_path}/said{where}; exit 20")
        assert SECRET[:19] not in str(failed.value)
        assert "hidden" in str(failed.value) or " ...' did not terminate within" in str(failed.value)


@pytest.mark.parametrize(
    ("said", "text"),
    [
        (
            "r0.res:2: Parse error: 'an option keyword' expected,\n\tbut got 'Passw0rdX' (TK 281)\n",
            "r0.res:2: Parse error: 'an option keyword' expected, but got hidden",
        ),
        (
            "r0.res:2: Parse error: ';' expected,\n\tbut got 'It's \"Passw0rdX...'\n",
            "r0.res:2: Parse error: ';' expected, but got hidden",
        ),
        (
            "r0.res:2: Unterminated double quoted string\n  we don't allow embedded newlines\n  >>>\"Passw0rdX...<<<\n",
            "r0.res:2: Unterminated double quoted string we don't allow embedded newlines >>>hidden",
        ),
        ("r0.res:2: Token too long >>>Passw0rdX...<<<\n", "r0.res:2: Token too long >>>hidden"),
    ],
)
def test_what_drbdadm_did_not_expect_in_a_file_may_be_any_secret_and_the_line_is_told(said: str, text: str) -> None:
    assert program_output.failure_text(said.encode()) == text


class Printing(programs.Programs):
    """The programs of a node that print a text, whatever they are asked."""

    def __init__(self, folder: pathlib.Path, text: str) -> None:
        self._file = folder / "printed"
        self._file.write_text(text)

    def run(self, *_: str, **options: Any) -> str:
        return super().run("cat", str(self._file), **options)


def test_what_a_program_prints_is_read_as_it_is(tmp_path: pathlib.Path) -> None:
    text = f"{SHOWN}{DUMP}--shared-secret={SECRET} password=x http://a:b@c {SECRET}\n"
    assert Printing(tmp_path, text).run() == text


def test_names_may_look_like_the_option_of_a_secret(tmp_path: pathlib.Path) -> None:
    row = {"vg_name": NAME, "lv_name": NAME, "lv_size": "64.00", "lv_active": "active", "lv_device_open": "open"}
    lvs = Printing(tmp_path, json.dumps({"report": [{"lv": [row]}]}))
    assert volumes.Volumes(lvs).found() == {f"{NAME}/{NAME}": volumes.Volume(64.0, is_active=True, is_open=True)}
    vgs = json.dumps({"report": [{"vg": [{"vg_name": NAME, "vg_free": "64.00", "vg_size": "128.00"}]}]})
    assert volumes.Volumes(Printing(tmp_path, vgs)).room(NAME) == 64.0
    assert found_disks.groups(Printing(tmp_path, vgs).run()) == {NAME: 128.0}
    proc = tmp_path / "drbd"
    proc.write_text("version: 8.4.11 (api:1/proto:86-101)\n")
    assert drbd_node.DrbdNode(Printing(tmp_path, SHOWN), proc=proc).allowing_two() == {NAME}


def test_nothing_that_is_read_of_a_configuration_has_its_secret(tmp_path: pathlib.Path) -> None:
    (found,) = found_disks.resources(Printing(tmp_path, DUMP).run())
    assert (found["name"], found["hosts"]["node1"]["volumes"][0]["disk"]) == (NAME, f"/dev/{NAME}/{NAME}")
    assert SECRET not in str(found)
    for wrong in (DUMP[: DUMP.index(SECRET) + 20], DUMP.replace("minor=", "major="), DUMP.replace('"7"', '"seven"')):
        with pytest.raises(errors.Failed) as failed:
            found_disks.resources(Printing(tmp_path, wrong).run())
        assert SECRET[:10] not in str(failed.value)


@pytest.mark.parametrize("bait", BAITS)
def test_the_work_for_a_failure_grows_with_its_text_and_not_with_the_square(bait: str) -> None:
    times = 8
    small, large = (_work(bait * (size // len(bait))) for size in (16 * 1024, times * 16 * 1024))
    assert large < times * 3 * small + 0.05, "the time grows with the square of the text"


def _work(text: str) -> float:
    """The seconds that the processor works for a text, however busy the machine is."""
    spent = []
    for _ in range(3):
        began = time.process_time()
        program_output.failure_text(text.encode())
        spent.append(time.process_time() - began)
    return min(spent)


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
