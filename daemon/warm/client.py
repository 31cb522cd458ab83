"""The command `ansible-playbook` of a run: hands itself to the warm server, or becomes the plain command.

It is run by path, isolated and with few imports, because every opcode pays for its start. Usage:
client.py SOCKET-FOLDER OWN-FOLDER ARGUMENT…

Nothing runs before the client has said that it waits for it (`G`), so a command is never run twice.
"""

import array
import fcntl
import json
import os
import signal
import socket
import sys
import termios

SOCKET = "warm.sock"
FORWARDED = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGWINCH,
)
LOST = 250
HELLO = b"H"
HELLO_SECONDS = 5.0
"""Seconds that the server may take to greet; one that hangs does not, and the run starts without it."""
PATIENCE = 60.0
"""Seconds that the server may take for its answer; it imports Ansible meanwhile."""


def main() -> None:
    folder, own, arguments = sys.argv[1], sys.argv[2], sys.argv[3:]
    command = [plain_command(own), *arguments]
    try:
        server = connect(folder)
        refusal = "" if server is None else play(server, command)
    except TimeoutError as error:
        refusal = str(error)
    if refusal:
        sys.stderr.write(f"roundsman: this run is not warm: {refusal}\n")
        sys.stderr.flush()
    os.execv(command[0], command)


def plain_command(own: str) -> str:
    """The next `ansible-playbook` of the PATH."""
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        program = os.path.join(folder, "ansible-playbook")
        if os.path.realpath(folder) != os.path.realpath(own) and os.access(program, os.X_OK):
            return program
    sys.stderr.write("ansible-playbook: there is none in the PATH\n")
    sys.exit(127)


def connect(folder: str) -> "socket.socket | None":
    """A connection to a server that has greeted, or None when there is none; the path may be longer than a name.

    Raises:
        TimeoutError: it does not greet.
    """
    server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    # Before it connects: where many wait for a server that hangs, to connect blocks too.
    server.settimeout(HELLO_SECONDS)
    try:
        descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    except OSError:
        return None
    try:
        server.connect(f"/proc/self/fd/{descriptor}/{SOCKET}")
        if server.recv(16) == HELLO:
            return server
    except (TimeoutError, BlockingIOError):
        server.close()
        raise TimeoutError(f"the warm server did not greet in {HELLO_SECONDS:g} s") from None
    except OSError:
        pass
    finally:
        os.close(descriptor)
    server.close()
    return None


def surroundings() -> "dict[str, object]":
    """What a process has from its parent, and a warm run has from the server: the two have to agree in it."""
    with open("/proc/self/limits", encoding="ascii") as limits, open("/proc/self/oom_score_adj", "rb") as adjustment:
        return {
            "limits": limits.read(),
            "oom_score_adj": int(adjustment.read()),
            "priority": os.getpriority(os.PRIO_PROCESS, 0),
            "processors": sorted(os.sched_getaffinity(0)),
            "groups": [os.getgid(), *sorted(os.getgroups())],
            "namespaces": sorted(os.readlink(f"/proc/self/ns/{name}") for name in os.listdir("/proc/self/ns")),
        }


def play(server: socket.socket, command: "list[str]") -> str:
    """Have the server run the command and end as it ends; returns why the server does not."""
    terminal = -1
    server.settimeout(PATIENCE)
    try:
        request = json.dumps(told(command)).encode()
        terminal = give_up_terminal()
        descriptors = array.array("i", [0, 1, 2] if terminal < 0 else [0, 1, 2, terminal])
        server.sendmsg([b"%d" % len(request)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)])
        for start in range(0, len(request), 60_000):
            server.send(request[start : start + 60_000])
        answer = server.recv(4096)
        if answer == b"A":
            server.send(b"G")
    except OSError as error:
        answer = f"Rthe warm server did not accept it: {error}".encode()
    if answer == b"A":
        wait(server)
    take_terminal_back(terminal)
    # Who gave up must not be heard later.
    server.close()
    return answer[1:].decode(errors="replace") or "the warm server went away"


def told(command: "list[str]") -> "dict[str, object]":
    """All that makes this process what it is, and that its command would find."""
    umask = os.umask(0)
    os.umask(umask)
    return {
        "command": command,
        "cwd": os.getcwd(),
        "umask": umask,
        "environment": dict(os.environ),
        "ignored": [number for number in signal.valid_signals() if signal.getsignal(number) == signal.SIG_IGN],
        "blocked": list(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
        "surroundings": surroundings(),
    }


def give_up_terminal() -> int:
    """Leave the controlling terminal to the run: a descriptor of it, or -1 when there is none.

    Raises:
        PermissionError: other processes of the session have it too, as of a person's shell.
    """
    try:
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return -1
    if os.getsid(0) != os.getpid():
        raise PermissionError("its terminal is that of another process too")
    # Whoever gives a terminal up is told so by SIGHUP.
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    fcntl.ioctl(terminal, termios.TIOCNOTTY)
    signal.signal(signal.SIGHUP, before)
    return terminal


def take_terminal_back(terminal: int) -> None:
    if terminal >= 0:
        try:
            fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
        except OSError:
            sys.stderr.write("roundsman: the terminal is gone\n")


def wait(server: socket.socket) -> None:
    """Forward signals to the run until it ends, and end as it does: with its status, or by its signal."""

    def forward(number: int, _frame: object) -> None:
        try:
            server.send(b"S%d" % number)
        except OSError:
            # The run is over: how it ended is there to be read.
            return

    server.settimeout(None)
    for number in FORWARDED:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, forward)
    try:
        answer = server.recv(64)
    except ConnectionResetError:
        # A signal was still unread when the run was over; what was said before is there all the same.
        answer = server.recv(64)
    if not answer:
        sys.stderr.write("ansible-playbook: its process is gone, and nobody knows how it ended\n")
        sys.stderr.flush()
        os._exit(LOST)
    status = int(answer[1:])
    if status < 0:
        if -status not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(-status, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [-status])
        os.kill(os.getpid(), -status)
    os._exit(status & 0xFF)


if __name__ == "__main__":
    main()
