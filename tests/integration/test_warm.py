"""Ansible kept warm does what the plain command does."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.plugins.plugin_utils import ansible_runs

from . import warming

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PLAY = f"""{warming.HEAD}
    - name: A module
      ansible.builtin.command: printf '%s' "{{{{ lookup('env', 'WORD') }}}} {{{{ word | default('') }}}}"
      register: said
      changed_when: false
    - name: What it said
      ansible.builtin.debug: {{msg: "{{{{ said.stdout | default('') }}}}"}}
    - name: A failure that is looked over
      ansible.builtin.fail: {{msg: no}}
      ignore_errors: true
    - name: A tag
      ansible.builtin.debug: {{msg: tagged}}
      tags: [never, extra]
"""
SSH = """
- hosts: all
  gather_facts: false
  vars: {ansible_ssh_executable: "{{ playbook_dir }}/ssh", ansible_python_interpreter: /usr/bin/python3}
  tasks: [{ansible.builtin.raw: "true"}]
"""
SEEN = f"""{warming.HEAD}
    - ansible.builtin.set_fact: {{cacheable: true, colour: red}}
    - ansible.builtin.debug: {{msg: "{{{{ ansible_forks }}}} {{{{ inventory_hostname }}}} {{{{ word | d('') }}}}"}}
"""


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[warming.Warm]:
    made = warming.Warm(tmp_path_factory.mktemp("warm"))
    made.succeed()
    ssh = made.folder / "ssh"
    ssh.write_text(
        "#!/bin/sh\necho no route >&2\n"
        'echo "$*" | grep -oE "ConnectTimeout=[0-9]+|StrictHostKeyChecking=no|/sockets/"'
        f" >> {made.folder}/ssh.log\nexit 255\n"
    )
    ssh.chmod(0o755)
    yield made
    made.keeper.stop()


@pytest.mark.parametrize(
    ("arguments", "more"),
    [
        (("-e", "word=two", "--tags", "all,extra"), {"WORD": "three", "TZ": "Asia/Tokyo"}),
        (("--check", "--diff"), {"ANSIBLE_FORKS": "2"}),
        (("--start-at-task", "What it said"), {}),
        (("--syntax-check",), {}),
        (("--list-tasks",), {}),
        (("--nonsense",), {}),
        (("--vault-password-file", "/does/not/exist"), {}),
    ],
)
def test_a_warm_run_says_and_ends_as_a_plain_one(
    warm: warming.Warm, arguments: tuple[str, ...], more: dict[str, str]
) -> None:
    found, plain = (warm.playbook(PLAY, *arguments, warm=is_so, **more) for is_so in (True, False))
    assert (found.stdout, found.returncode) == (plain.stdout, plain.returncode)
    assert sorted(found.stderr.splitlines()) == sorted(plain.stderr.splitlines())


@pytest.mark.parametrize(
    ("text", "more", "effect"),
    [
        (SEEN, {"ANSIBLE_FORKS": "7"}, '"7 h1 "'),
        (SEEN, {"ANSIBLE_VAULT_PASSWORD_FILE": "password"}, '"1 h1 hidden"'),
        (SEEN, {"ANSIBLE_INVENTORY": "hosts"}, '"1 other "'),
        (SEEN, {"ANSIBLE_CACHE_PLUGIN": "jsonfile", "ANSIBLE_CACHE_PLUGIN_CONNECTION": "facts"}, "red"),
        (SEEN, {"ANSIBLE_CACHE_PLUGIN": "jsonfile", "ANSIBLE_CACHE_PLUGIN_TIMEOUT": "5"}, "h1"),
        (SSH, {"ANSIBLE_HOST_KEY_CHECKING": "0"}, "StrictHostKeyChecking=no\\nConnectTimeout=10\\n'"),
        (SSH, {"ANSIBLE_RETRY_FILES_ENABLED": "1"}, "'play.retry': 'h1\\n'"),
        (SSH, {"ANSIBLE_SSH_CONTROL_PATH_DIR": "sockets"}, "/sockets/"),
        (SSH, {"ANSIBLE_SSH_RETRIES": "1"}, "'ConnectTimeout=10\\nConnectTimeout=10\\n'"),
    ],
)
def test_a_setting_that_is_looked_up_late_is_honoured(
    warm: warming.Warm, text: str, more: dict[str, str], effect: str
) -> None:
    (warm.folder / "hosts").write_text("other\n")
    (warm.folder / "password").write_text("secret\n")
    found, plain = (_effects(warm, text, more, is_warm=is_so) for is_so in (True, False))
    assert found == plain
    assert effect in found


def _effects(warm: warming.Warm, text: str, more: dict[str, str], *, is_warm: bool) -> str:
    """What a run says and leaves."""
    files = [warm.folder / name for name in ("facts/s1_h1", "play.retry", "ssh.log")]
    for file in files:
        file.unlink(missing_ok=True)
    arguments = ["-e", f"@{_encrypted(warm)}"] if "ANSIBLE_VAULT_PASSWORD_FILE" in more else []
    inventory = "" if "ANSIBLE_INVENTORY" in more else "h1,"
    done = warm.playbook(text, *arguments, warm=is_warm, inventory=inventory, **more)
    left = {file.name: file.read_text() for file in files if file.exists()}
    return f"{done.returncode} {done.stdout} {done.stderr} {left}"


def _encrypted(warm: warming.Warm) -> Path:
    path = warm.folder / "word.yml"
    if not path.exists():
        command = ["ansible-vault", "encrypt_string", "--vault-password-file", "password", "hidden", "-n", "word"]
        path.write_text(warm.ended(command, warm.environment(warm=False)).stdout)
    return path


def test_every_other_setting_is_said_aloud_and_the_plain_command_honours_it(warm: warming.Warm) -> None:
    for name, value, effect in (
        ("ANSIBLE_STDOUT_CALLBACK", "minimal", "SUCCESS"),
        ("ANSIBLE_TIMEOUT", "33", "PLAY RECAP"),
        ("PYTHONUTF8", "1", "PLAY RECAP"),
    ):
        more: dict[str, Any] = {name: value}
        done = warm.playbook(warming.NOTHING, **more)
        assert f"not warm: it differs in {name} from" in done.stderr
        assert effect in done.stdout
        warm.succeed()


def test_a_setting_that_the_run_lacks_is_said_aloud(warm: warming.Warm) -> None:
    environment = warm.environment()
    del environment["LANG"]
    assert "it differs in LANG" in warm.ended(warm.command(warming.NOTHING), environment).stderr


def test_signals_limits_and_files_are_those_of_the_command(warm: warming.Warm) -> None:
    def differ() -> None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
        os.umask(0o027)

    # Not of the worker, which blocks all signals for as long as it starts a command.
    look = "umask; cd /proc/$(cut -d' ' -f4 /proc/$PPID/stat); grep -E '^Sig(Blk|Ign)' status; cat comm"
    text = f"{warming.HEAD}    - ansible.builtin.debug: {{msg: \"{{{{ lookup('pipe', look) }}}}\"}}\n"
    found, plain = (
        warm.ended(
            warm.command(text, "-e", json.dumps({"look": look})), warm.environment(warm=is_so), preexec_fn=differ
        )
        for is_so in (True, False)
    )
    assert (found.stdout, found.stderr) == (plain.stdout, plain.stderr)
    assert "0027" in found.stdout

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (777, 777))

    limited = warm.ended(warm.command(warming.NOTHING), warm.environment(), preexec_fn=limit)
    assert "it differs in limits from the warm server" in limited.stderr
    assert limited.returncode == 0


def test_each_run_has_its_own_numbers_temporary_folder_and_warnings(warm: warming.Warm) -> None:
    (warm.folder / "filter_plugins").mkdir()
    (warm.folder / "filter_plugins/own.py").write_text(
        "import random, tempfile\nfrom ansible.utils import vars\nclass FilterModule:\n    def filters(self):\n"
        "        return {'own': lambda _: [vars.random_int, random.random(), tempfile.gettempdir()]}\n"
    )
    text = f"{warming.HEAD}    - ansible.builtin.debug: {{msg: \"{{{{ 0 | own | join(' ') }}}}\"}}\n"
    folders = ("/tmp", "/dev/shm")
    seen = [warm.playbook(text, TMPDIR=folder).stdout.split('"msg": "')[1].split()[:3] for folder in folders]
    assert all(one != other for one, other in zip(*seen, strict=True))
    assert [each[2] for each in seen] == ['/tmp"', '/dev/shm"']
    assert len(list((warm.folder / ".ansible/tmp").iterdir())) == 1


@pytest.mark.slow
def test_two_runs_at_the_same_moment_do_not_see_each_other(warm: warming.Warm) -> None:
    command = warm.command(PLAY)
    together = [
        subprocess.Popen(
            command, env=warm.environment(WORD=word), start_new_session=True, stdout=subprocess.PIPE, text=True
        )
        for word in ("left", "right")
    ]
    said = [one.communicate()[0] for one in together]
    assert [("left" in text, "right" in text) for text in said] == [(True, False), (False, True)]


@pytest.mark.slow
def test_a_module_is_packed_by_the_first_run_and_used_by_the_next(tmp_path: Path) -> None:
    made = warming.Warm(tmp_path)
    play = f"{warming.HEAD}    - roundsman.cluster.diagnose: {{command: /bin/false}}\n      ignore_errors: true\n"

    def said() -> str:
        done = made.playbook(play, ANSIBLE_COLLECTIONS_PATH=str(ansible_runs.COLLECTIONS))
        return f"{done.returncode} {done.stdout}"

    try:
        first = said()
        (kept,) = made.where.run.glob("warm/*/archives/*/*.diagnose-*")
        before = kept.stat().st_mtime_ns, kept.stat().st_ino
        assert said() == first
        assert (kept.stat().st_mtime_ns, kept.stat().st_ino) == before
        kept.write_bytes(b"no archive")
        assert said() != first, "the archive that is kept is the one that is used"
        kept.unlink()
        assert said() == first
    finally:
        made.keeper.stop()
