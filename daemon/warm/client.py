"""The command `ansible-playbook` of a run: hands itself to the warm server, or becomes the plain command.

It is run by path, isolated and with few imports, because every opcode pays for its start. Usage:
client.py SOCKET-FOLDER OWN-FOLDER ARGUMENT…
"""

import array
import json
import os
import signal
import socket
import sys

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


def main() -> None:
    folder, own, arguments = sys.argv[1], sys.argv[2], sys.argv[3:]
    refusal = ""
    server = connect(folder)
    if server is not None:
        forward_signals(server)
        refusal = play(server, arguments)
    become_plain(own, arguments, refusal)


def connect(folder: str) -> "socket.socket | None":
    """A connection to the server, or None when there is none; the path may be longer than a socket's name."""
    server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY)
        server.connect(f"/proc/self/fd/{descriptor}/{SOCKET}")
    except OSError:
        return None
    os.close(descriptor)
    return server


def forward_signals(server: socket.socket) -> None:
    for number in FORWARDED:
        signal.signal(number, lambda received, _frame: server.send(b"S%d" % received))


def play(server: socket.socket, arguments: "list[str]") -> str:
    """Have the server run the command and end as it ends; returns why the server does not."""
    umask = os.umask(0)
    os.umask(umask)
    request = {"arguments": arguments, "cwd": os.getcwd(), "umask": umask, "environment": dict(os.environ)}
    data = json.dumps(request).encode()
    try:
        descriptors = array.array("i", [0, 1, 2])
        server.sendmsg([b"%d" % len(data)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)])
        for start in range(0, len(data), 60_000):
            server.send(data[start : start + 60_000])
        answer = server.recv(4096)
    except OSError as error:
        return f"the warm server went away: {error}"
    if not answer.startswith(b"A"):
        return answer[1:].decode(errors="replace") or "the warm server went away"
    end(server.recv(64))
    return ""


def end(answer: bytes) -> None:
    """End as the run ended: with its status, or by its signal."""
    if not answer:
        sys.stderr.write("ansible-playbook: its process is gone, and nobody knows how it ended\n")
        os._exit(LOST)
    status = int(answer[1:])
    if status < 0:
        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status & 0xFF)


def become_plain(own: str, arguments: "list[str]", refusal: str) -> None:
    """Be the next `ansible-playbook` of the PATH; a refusal is said aloud."""
    if refusal:
        sys.stderr.write(f"roundsman: this run is not warm: {refusal}\n")
    for number in FORWARDED:
        signal.signal(number, signal.SIG_DFL)
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        program = os.path.join(folder, "ansible-playbook")
        if os.path.realpath(folder) != os.path.realpath(own) and os.access(program, os.X_OK):
            os.execv(program, [program, *arguments])
    sys.stderr.write("ansible-playbook: there is none in the PATH\n")
    os._exit(127)


if __name__ == "__main__":
    main()
