"""The process of one opcode: runs its playbook with ansible-runner and leaves `result.json`.

It is started detached, with the descriptor of its livelock, and outlives the daemon. Its first act is `began`.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from pathlib import Path
from typing import Any

from ...plugins.plugin_utils import durable_files
from .. import faults

FAILURES = {"runner_on_failed", "runner_on_unreachable", "runner_item_on_failed"}
TEXT_LIMIT = 2000


def main() -> None:
    """Run `opcode.json` of the run folder that is the first argument; the second is the livelock's descriptor."""
    run, livelock = Path(sys.argv[1]), int(sys.argv[2])
    os.set_inheritable(livelock, False)  # noqa: FBT003 - the signature of os
    faults.point("before-began")
    _begin(run)
    outcome = _play(run, json.loads((run / "opcode.json").read_bytes()))
    faults.point("before-result")
    durable_files.replace(run / "result.json", json.dumps({**outcome, "cpu_seconds": _cpu_seconds()}).encode())


def _begin(run: Path) -> None:
    descriptor = os.open(run / "began", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o640)
    os.write(descriptor, json.dumps({"pid": os.getpid(), "time": time.time()}).encode())
    os.fsync(descriptor)
    os.close(descriptor)
    durable_files.sync_folder(run)


def _play(run: Path, spec: dict[str, Any]) -> dict[str, Any]:
    import ansible_runner  # noqa: PLC0415 - a third of a second: only after `began` stands

    failures: list[str] = []
    said: list[str] = []

    def listen(event: dict[str, Any]) -> bool:
        data = event.get("event_data", {})
        said.extend(filter(None, [data.get("artifact_data", {}).get("roundsman_text")]))
        if event.get("event") in FAILURES and not data.get("ignore_errors"):
            failures.append(_failure(data))
        return True

    started = time.time()
    try:
        runner = ansible_runner.run(
            private_data_dir=str(run / "runner"),
            ident="run",
            playbook=spec["playbook"],
            inventory=str(run / "inventory.json"),
            extravars=spec["variables"],
            envvars=spec["environment"],
            settings={"job_timeout": spec["time_limit"], "suppress_env_files": True, "pexpect_timeout": 1},
            event_handler=listen,
            quiet=True,
        )
    except Exception as error:  # noqa: BLE001 - the one place where any failure becomes a recorded outcome
        return {
            "status": "error",
            "text": f"ansible-runner failed: {error}",
            "seconds": time.time() - started,
        }
    text = "; ".join(said) if runner.rc == 0 else _summary(failures, runner, run)
    status = "success" if runner.rc == 0 else "error"
    return {"status": status, "rc": runner.rc, "text": text[:TEXT_LIMIT], "seconds": time.time() - started}


def _cpu_seconds() -> float:
    """What this process and everything that it waited for have used."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return round(sum(one.ru_utime + one.ru_stime for one in used), 3)


def _summary(failures: list[str], runner: Any, run: Path) -> str:
    if failures:
        return failures[-1]
    if runner.status == "timeout":
        return "the time limit of this opcode was reached"
    output = run / "runner/artifacts/run/stdout"
    lines = output.read_text(errors="replace").strip().splitlines() if output.exists() else []
    return f"ansible-playbook ended with {runner.rc}: " + " ".join(lines[-3:])


def _failure(data: dict[str, Any]) -> str:
    result = data.get("res", {})
    text = next((result[key] for key in ("msg", "reason", "stderr", "exception") if result.get(key)), "no message")
    if data.get("task_action") == "ansible.builtin.fail":
        return str(text)
    host = result.get("_ansible_delegated_vars", {}).get("ansible_delegated_host") or data.get("host", "")
    where = "" if host == "localhost" else f" on {host}"
    return f"{data.get('task', '')}{where}: {text}"


if __name__ == "__main__":
    main()
