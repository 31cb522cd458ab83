from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.module_utils.hypervisor import virsh

from . import recorded_libvirt

if TYPE_CHECKING:
    from pathlib import Path


def client(folder: Path, script: str) -> virsh.Virsh:
    program = folder / "virsh"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return virsh.Virsh("qemu+tcp://[::1]/system", program=str(program))


def test_a_command_is_called_in_one_language_with_its_uri_and_input(tmp_path: Path) -> None:
    one = client(tmp_path, 'echo "$LC_ALL $*"; cat /dev/stdin')
    assert one.run("create", "/dev/stdin", given="<domain/>\n") == (
        "C --quiet --connect qemu+tcp://[::1]/system create /dev/stdin\n<domain/>\n"
    )
    assert one.run("list").endswith("list\n")


def test_a_complaint_is_one_line(tmp_path: Path) -> None:
    one = client(tmp_path, f'cat >&2 <<"END"\nlibrary: no log\n{recorded_libvirt.COMPLAINT}END\nexit 1')
    with pytest.raises(errors.Failed) as raised:
        one.run("create", "/dev/stdin")
    assert str(raised.value) == (
        "virsh create: Failed to create domain from /shared/i1.xml: "
        "Requested operation is not valid: domain 'i1' is already active"
    )


@pytest.mark.parametrize(
    ("script", "text"), [("exit 3", "it exited with status 3 and printed nothing"), ("echo no >&2; exit 1", "no")]
)
def test_a_failure_without_the_usual_words_is_told(tmp_path: Path, script: str, text: str) -> None:
    with pytest.raises(errors.Failed, match=f"^virsh list: {text}$"):
        client(tmp_path, script).run("list")


def test_a_command_that_hangs_is_killed_with_what_it_started(tmp_path: Path) -> None:
    one = client(tmp_path, "sleep 1000 & wait")
    with one.started("domstats") as process:
        assert virsh.ended(process, time_limit=0.3) == ("", "")
        assert process.returncode is None
    # Leaving reads to the end of what the other process writes to: it is gone.
    with pytest.raises(errors.Failed, match=r"^virsh domstats: no answer of qemu\+tcp://\[::1\]/system in 0.1 s$"):
        one.run("domstats", time_limit=0.1)


def test_a_node_without_virsh_says_what_it_needs(tmp_path: Path) -> None:
    with pytest.raises(errors.Failed, match="does not start: No such file or directory; instances of kvm take libvirt"):
        virsh.Virsh(program=str(tmp_path / "virsh")).run("list")
