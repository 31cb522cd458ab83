"""The process of one opcode: runs its playbook with ansible-runner and leaves `result.json`.

It is started detached, with the descriptor of its livelock, and outlives the daemon. Its first act is `began`; before
its last, the result, every process of the run has ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shlex
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...plugins.module_utils.domain.values import errors, secret_values, tree
from ...plugins.plugin_utils import connection_tries, durable_files, run_group, run_records, unsafe_json
from .. import faults
from . import task_log

if TYPE_CHECKING:
    from collections.abc import Mapping

FAILURES = {"runner_on_failed", "runner_on_unreachable", "runner_item_on_failed"}
TEXT_LIMIT = 2000
GRACE = 20
"""Seconds that ansible-runner has to notice that its play was ended."""
LOOK_SECONDS, LOOKS = 3.0, 3
"""How often it is seen whether the play would never end, and how often in a row it must look so."""
LONGEST = 60
"""Characters of a path below which a folder with sockets can be made: a socket's whole path has 107 at most."""
_LINK = "ssh"
EVENTS = "runner/artifacts/run/job_events"


def main() -> None:
    """Run `opcode.json` of the run folder that is the first argument; the second is the livelock's descriptor."""
    run, livelock = Path(sys.argv[1]), int(sys.argv[2])
    os.set_inheritable(livelock, False)  # noqa: FBT003 - the signature of os
    faults.point("before-began")
    _begin(run)
    run_group.join(run)
    spec = json.loads((run / "opcode.json").read_bytes())
    sockets = make_sockets(run, below=tree.Tree(Path(spec["environment"]["ROUNDSMAN_ROOT"])).run)
    spec["environment"]["ANSIBLE_SSH_CONTROL_PATH_DIR"] = str(sockets)
    limit = _Limit(run, seconds=spec["time_limit"])
    outcome = limit.outcome(_play(run, spec))
    _forget_environment(run)
    run_group.end(run)
    remove_sockets(run)
    faults.point("before-result")
    run_records.conclude(run, outcome)


class _Limit:
    """Ends the run when its time is over or it would never end, ansible-runner too when that does not notice.

    The outcome says so.
    """

    def __init__(self, run: Path, *, seconds: float) -> None:
        self._run, self._seconds, self._started = run, seconds, time.time()
        self._why, self._over = "", threading.Event()
        threading.Thread(target=self._watch, name="time limit", daemon=True).start()

    def outcome(self, outcome: dict[str, Any]) -> dict[str, Any]:
        """What became of the run: what it says of itself, unless it was ended."""
        self._over.set()
        told = self._told() if self._why and outcome["status"] != "success" else outcome
        return {**told, "seconds": time.time() - self._started, "cpu_seconds": _cpu_seconds()}

    def _told(self) -> dict[str, Any]:
        return {"status": "error", "text": f"{self._why}: all of its processes were ended"}

    def _watch(self) -> None:
        end, looks = time.monotonic() + self._seconds, 0
        while looks < LOOKS:
            left = end - time.monotonic()
            if self._over.wait(max(0.0, min(left, LOOK_SECONDS))):
                return
            if left <= LOOK_SECONDS:
                self._why = f"time limit of {self._seconds:g} s reached"
                break
            looks = looks + 1 if is_unheard(self._run) else 0
        else:
            self._why = "its play could not write down what happened, as on a full disk, and would never have ended"
        for _ in range(GRACE):
            run_group.end(self._run)
            if self._over.wait(1):
                return
        try:
            run_records.conclude(self._run, {**self._told(), "seconds": time.time() - self._started})
        finally:
            # Without a result, as on a failed disk, the run is lost, and looked after.
            os._exit(1)


def _begin(run: Path) -> None:
    descriptor = os.open(run / "began", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o640)
    os.write(descriptor, json.dumps({"pid": os.getpid(), "time": time.time()}).encode())
    os.fsync(descriptor)
    os.close(descriptor)
    durable_files.sync_folder(run)
    # The folder of the run was made after that of the job was synced last: without its name nothing has begun.
    durable_files.sync_folder(run.parent)


def _play(run: Path, spec: dict[str, Any]) -> dict[str, Any]:
    import ansible_runner  # noqa: PLC0415 - a third of a second: only after `began` stands

    failures: list[str] = []
    said: list[str] = []
    values: list[Any] = []
    log = task_log.Writer(run)

    def listen(event: dict[str, Any]) -> bool:
        data = event.get("event_data", {})
        artifacts = data.get("artifact_data", {})
        said.extend(str(artifacts[name]) for name in ("roundsman_text",) if artifacts.get(name))
        values.extend(artifacts[name] for name in ("roundsman_value",) if name in artifacts)
        if event.get("event") in FAILURES and not data.get("ignore_errors"):
            failures.append(_failure(data, is_unreachable=event["event"] == "runner_on_unreachable"))
        log.event(event)
        return True

    try:
        runner = ansible_runner.run(
            private_data_dir=str(run / "runner"),
            ident="run",
            playbook=spec["playbook"],
            inventory=str(run / "inventory.json"),
            cmdline=_variables(run, spec),
            envvars=spec["environment"],
            settings={"suppress_env_files": True, "pexpect_timeout": 1},
            event_handler=listen,
            quiet=True,
        )
    except Exception as error:  # noqa: BLE001 - the one place where any failure becomes a recorded outcome
        return {"status": "error", "text": f"ansible-runner failed: {error}"}
    text = "; ".join(said) if runner.rc == 0 else _summary(failures, runner, run)
    status = "success" if runner.rc == 0 else "error"
    value = {"value": values[-1]} if values else {}
    return {"status": status, "rc": runner.rc, "text": secret_values.masked(text)[:TEXT_LIMIT], **value}


def _variables(run: Path, spec: dict[str, Any]) -> str:
    """The argument with the variables of the play, none of which is a template.

    They stand in a file, because an argument could not be longer than 128 KiB.
    """
    path = run / "variables.json"
    path.write_bytes(unsafe_json.dumps(spec["variables"]))
    return f"--extra-vars {shlex.quote(f'@{path}')}"


def _forget_environment(run: Path) -> None:
    """ansible-runner writes the whole environment of a play down; nobody needs it, and it may hold a secret."""
    path = run / "runner/artifacts/run/command"
    with contextlib.suppress(OSError, ValueError, errors.StoreFailed):
        told = json.loads(path.read_bytes())
        durable_files.replace(path, json.dumps({key: told[key] for key in told if key != "env"}).encode(), mode=0o600)


def _cpu_seconds() -> float:
    """What this process and everything that it waited for have used."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return round(sum(usage.ru_utime + usage.ru_stime for usage in used), 3)


def _summary(failures: list[str], runner: Any, run: Path) -> str:
    if failures:
        return failures[-1]
    output = run / "runner/artifacts/run/stdout"
    lines = output.read_text(errors="replace").strip().splitlines() if output.exists() else []
    return f"ansible-playbook ended with {runner.rc}: " + " ".join(lines[-3:])


def _failure(data: dict[str, Any], *, is_unreachable: bool) -> str:
    items = task_log.failed_items(data.get("res", {}))
    return "; ".join(dict.fromkeys(_item_failure(data, item, is_unreachable=is_unreachable) for item in items))


def _item_failure(data: dict[str, Any], result: Mapping[str, Any], *, is_unreachable: bool) -> str:
    text = next((result[key] for key in ("msg", "reason", "stderr", "exception") if result.get(key)), "no message")
    if data.get("task_action") == "ansible.builtin.fail":
        return str(text)
    host = result.get("_ansible_delegated_vars", {}).get("ansible_delegated_host") or data.get("host", "")
    where = "" if host == "localhost" else f" on {host}"
    return f"{data.get('task', '')}{where}: " + (connection_tries.told(str(text)) if is_unreachable else str(text))


def make_sockets(run: Path, *, below: Path) -> Path:
    """Make the folder for the sockets of a run's SSH connections, below a folder that nobody else may write.

    Where its path is long, it is elsewhere. Connections that two runs share would end in the middle of one when the
    other is over and its processes are ended.
    """
    below.mkdir(mode=0o750, parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="ssh-", dir=below if len(str(below)) <= LONGEST else None))
    (run / _LINK).symlink_to(folder)
    return folder


def remove_sockets(run: Path) -> None:
    """Remove what `make_sockets` made for a run, if it did; the end of a run and who cancels it may come together."""
    link = run / _LINK
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(link.readlink(), ignore_errors=True)
        link.unlink()


def is_unheard(run: Path) -> bool:
    """Whether a play would never end, because Ansible does not hear its own workers any more.

    The thread that takes their results ends at the first event that cannot be written, as on a full disk, and the play
    waits for them without end (ansible-core, `results_thread_main` of its strategies). The event that was begun stays:
    one was begun and not written, and no process of the run has a second thread. For a moment both are so in a play
    that is all right.
    """
    if not any((run / EVENTS).glob("*.tmp")):
        return False
    threads = [_threads(pid) for pid in run_group.members(run)]
    return bool(threads) and max(threads) == 1


def _threads(pid: int) -> int:
    with contextlib.suppress(OSError):
        return len(os.listdir(f"/proc/{pid}/task"))  # noqa: PTH208 - no need for paths
    return 1


if __name__ == "__main__":
    main()
