"""Steps on a lab node that a test wants to see: what happens before a module runs there, or after it.

A node's modules are run by a program of the test's. After the first module whose text has all the words, it runs a
command of the test, and tells the test by a pipe.
"""

from __future__ import annotations

import os
import select
import shlex
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from . import labs

PROGRAM = """#!{python} -I
import os, subprocess, sys
said = sys.stdin.buffer.read()
words = {words!r}
is_meant = all(word.encode() in said for word in words)
def do():
    return subprocess.run([{python!r}, *sys.argv[1:]], input=said, stdout=subprocess.PIPE)
done = do() if {is_done!r} or not is_meant else None
if is_meant:
    try:
        os.rename({armed!r}, {armed!r} + ".hit")
    except FileNotFoundError:
        pass
    else:
        subprocess.run({command!r}, check=True, stdout=subprocess.DEVNULL)
        with open({pipe!r}, "wb") as pipe:
            pipe.write(b"x")
        if {stays!r}:
            os.kill(os.getpid(), 19)
done = done or do()
sys.stdout.buffer.write(done.stdout)
sys.exit(done.returncode)
"""


class Interception:
    """Waits for one step on a node; with `stays` the step's answer never comes, and its run has to be ended.

    Without `is_done` the step is noticed before it is done, and so never is with `stays`.
    """

    def __init__(
        self,
        one: labs.Running,
        folder: Path,
        *,
        node: str,
        words: Sequence[str],
        command: Sequence[str] = ("true",),
        stays: bool = False,
        is_done: bool = True,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        pipe, armed, program = folder / "pipe", folder / "armed", folder / "python"
        os.mkfifo(pipe)
        armed.touch()
        # Both ends are open, so the program never waits for the test.
        self._pipe = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
        program.write_text(
            PROGRAM.format(
                python=sys.executable,
                words=list(words),
                armed=str(armed),
                command=list(command),
                pipe=str(pipe),
                stays=stays,
                is_done=is_done,
            )
        )
        program.chmod(0o755)
        one.run_modules_with(program, node=node)
        self._what = f"{shlex.join(words)} on {node}"

    def wait(self, *, seconds: float = 240.0) -> None:
        """Wait until the step has been done."""
        ready, _, _ = select.select([self._pipe], [], [], seconds)
        os.close(self._pipe)
        assert ready, f"not within {seconds:g} s: {self._what}"


def on_node(node: Path, call: str) -> list[str]:
    """A command that calls a method of a lab node, such as `cut_link('node3', is_cut=True)`."""
    script = "from pathlib import Path; from ansible_collections.roundsman.cluster.daemon.lab import world; "
    return [sys.executable, "-c", f"{script}world.LabNode(Path({str(node)!r})).{call}"]
