"""What stands for the Python of an evil node: it runs no module, and answers what it likes, by chance.

It is copied into a folder of its own; what its answers want executed leaves a file in `marks` there.
"""

from __future__ import annotations

import json
import os
import random
import sys
from pathlib import Path
from typing import Any

SEED = 20261122
NAMES = [
    "running",
    "state",
    "states",
    "instances",
    "found",
    "disks",
    "devices",
    "power",
    "msg",
    "changed",
    "failed",
    "rc",
    "stdout",
    "report",
    "unreachable",
    "skipped",
    "warnings",
    "deprecations",
    "exception",
    "diff",
    "invocation",
    "results",
    "_ansible_no_log",
    "_ansible_delegated_vars",
]


class Answer:
    """One answer, which is another each time."""

    def __init__(self, folder: Path, number: int) -> None:
        self._chance = random.Random(SEED * 1_000_003 + number)
        self._folder = folder
        self._mark = mark = f"{folder}/marks/executed-{number}"
        self._shell = f"$(touch {mark})"
        pipe = f"lookup('pipe', 'touch {mark}')"
        self._texts = [
            f"{{{{ {pipe} }}}}",
            f"#jinja2:variable_start_string:'<<', variable_end_string:'>>'\n<< {pipe} >>",
            self._shell,
            f"`touch {mark}`",
            mark,
            "../../../../../../etc/passwd",
            "node1",
            "instance1\n2026-11-22 00:00:00,000 CRITICAL forged line",
            "\x1b]0;owned\x07\x1b[2J\x9b2J",
            "\ud800",
            "\x00",
            "",
            "A" * 200_000,
            f"-oProxyCommand=touch {mark}",
        ]

    def value(self, depth: int = 0) -> Any:
        """A value of any kind."""
        kind = self._chance.choice(["text", "text", "number", "word", *(["list", "dict"] if depth < 3 else [])])
        if kind == "text":
            return self._chance.choice(self._texts)
        if kind == "number":
            return self._chance.choice([0, -1, 2**63, 10**400, 1e308, float("nan"), float("inf")])
        if kind == "word":
            return self._chance.choice([None, True, False])
        inner = [self.value(depth + 1) for _ in range(self._chance.randrange(4))]
        return inner if kind == "list" else {self._chance.choice([*self._texts, *NAMES]): one for one in inner}

    def text(self) -> str:
        """All that is written."""
        told = {name: self.value() for name in self._chance.sample(NAMES, 12)}
        told["ansible_facts"] = {
            "ansible_remote_tmp": f"/tmp/{self._shell}",
            "roundsman_root": f"{self._folder}/root",
            "ansible_connection": "local",
            "ansible_python_interpreter": f"touch {self._mark};",
            "ansible_ssh_common_args": self._texts[-1],
        }
        told["ansible_stats"] = {"data": {"roundsman_text": self.value(), "roundsman_value": self.value()}}
        told["add_host"] = {"host_name": "evil", "groups": ["all"], "host_vars": {"ansible_connection": "local"}}
        whole = json.dumps(told)
        shapes = [
            "A" * 3_000_000,
            "[" * 200_000,
            whole[: len(whole) // 2],
            "",
            json.dumps(self.value()),
            "\x1b[2J noise\n" * 1000 + whole + "\n{}{}\n",
        ]
        return self._chance.choice([*shapes, whole, whole, whole, whole])

    def status(self) -> int:
        """How the process ends."""
        return self._chance.choice([0, 0, 0, 1, 255])


def main() -> None:
    """Answer once."""
    sys.stdin.buffer.read()
    folder = Path(__file__).parent
    with (folder / "asked").open("a") as asked:
        asked.write("x")
        asked.flush()
        answer = Answer(folder, asked.tell())
    sys.stdout.buffer.write(answer.text().encode("utf-8", "surrogatepass"))
    sys.stdout.buffer.flush()
    os._exit(answer.status())


if __name__ == "__main__":
    main()
