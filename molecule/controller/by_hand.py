"""What root, the daemon's user and an administrator do by hand on a controller, with the daemon running and stopped.

Usage, as root on the machine: PYTHON_OF_ROUNDSMAN by_hand.py. It puts the nodes and BMCs of a lab into the place of
the cluster's, runs commands and plays as each user, and prints what came of each; the exit status is 1 if one of them
did not do what it must.
"""

from __future__ import annotations

import contextlib
import grp
import json
import os
import pwd
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.roundsman.cluster.daemon.lab import processes, world
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import tree
from ansible_collections.roundsman.cluster.plugins.plugin_utils import ansible_runs, daemon_client
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import store

LAB, WHERE = Path("/srv/by-hand"), tree.Tree(Path("/"))
BIN = Path(sys.executable).parent
INVENTORY = Path("/etc/roundsman/by-hand.roundsman.yml")
NODE = "node3"
BEGAN, LIMIT = time.monotonic(), 120.0
PLAYS = {
    "power.yml": ["-e", "power_command=status", "-e", f"power_nodes={NODE}"],
    "evacuate.yml": ["-e", f"evacuate_node={NODE}", "--check"],
    "repair.yml": ["-e", "repair_instance=instance1"],
    "diagnose.yml": [],
}
MAY_PLAY = "plays by hand are run by root or by the user roundsman"
MAY_ACT = "as root, or as the user of roundsmand"
MAY_READ = "only root and the user of roundsmand"


@dataclass(frozen=True)
class User:
    """An account by name, with the groups that it has here."""

    name: str
    groups: tuple[str, ...] = ()

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a program as this user."""
        account = pwd.getpwnam(self.name)
        groups = [grp.getgrnam(name).gr_gid for name in self.groups] or os.getgrouplist(self.name, account.pw_gid)
        own = Path(f"/tmp/by-hand-{account.pw_uid}")  # noqa: S108 - the user has no home folder
        own.mkdir(mode=0o700, exist_ok=True)
        os.chown(own, account.pw_uid, account.pw_gid)
        environment = {
            "PATH": f"{BIN}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": str(own),
            "LANG": "C.UTF-8",
            "ANSIBLE_COLLECTIONS_PATH": str(ansible_runs.COLLECTIONS),
            "ANSIBLE_NOCOLOR": "1",
        }
        return subprocess.run(
            [str(BIN / command[0]), *command[1:]],
            user=account.pw_uid,
            group=account.pw_gid,
            extra_groups=groups,
            env=environment,
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT,
        )


ROOT, DAEMON = User("root"), User("roundsman")
ADMINISTRATOR = User("nobody", groups=("roundsman-admins",))
failures: list[str] = []


def note(name: str, *, is_right: bool, text: str = "") -> None:
    """Print what came of an attempt, and the text if it is wrong."""
    print(f"{'ok' if is_right else 'WRONG'}: {name}", flush=True)
    if not is_right:
        failures.append(name)
        print(text, flush=True)


def see(name: str, done: subprocess.CompletedProcess[str], *, refused: str = "") -> None:
    """Note whether a command succeeded, or was refused in one line that has these words."""
    text = done.stdout + done.stderr
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    is_refused = done.returncode != 0 and len(lines) == 1 and bool(refused) and refused in lines[0]
    is_right = is_refused if refused else done.returncode == 0
    is_right = is_right and "Traceback" not in text and "defect of Roundsman" not in text
    note(name, is_right=is_right, text=f"exit status {done.returncode}\n{text}")


def await_empty(name: str, folder: Path) -> None:
    """Wait until nothing but hidden files is in a folder."""
    end, left = time.monotonic() + LIMIT, [""]
    while left and time.monotonic() < end:
        left = [path.name for path in folder.iterdir() if not path.name.startswith(".")]
        time.sleep(0.1)
    note(name, is_right=not left, text=str(left))


def systemctl(command: str) -> None:
    """Start or stop the daemon's unit."""
    subprocess.run(["systemctl", command, "roundsmand.service"], check=True, timeout=LIMIT)


def give_lab_to_daemon() -> None:
    """Modules of root's plays run on this machine as root; a node's files are those of the lab's user."""
    account = pwd.getpwnam("roundsman")
    for path in (LAB, *LAB.rglob("*")):
        with contextlib.suppress(FileNotFoundError):
            os.chown(path, account.pw_uid, account.pw_gid, follow_symlinks=False)


def put_lab_in_place() -> None:
    """Make a lab as the daemon's user; what its controller has becomes this machine's, with the role's owners."""
    systemctl("stop")
    # A poll outlives the daemon: what it brings of the nodes that were here before is of no node of the lab.
    subprocess.run(["pkill", "-KILL", "-u", DAEMON.name], check=False)
    for path in WHERE.spool.iterdir():
        path.unlink()
    LAB.mkdir(mode=0o755)
    give_lab_to_daemon()
    size = ["--nodes", "3", "--instances", "3", "--diagnose-interval", "0"]
    see("make a lab", DAEMON.run("roundsman", "lab", "up", "--dir", str(LAB / "lab"), *size))
    lab = world.Lab(LAB / "lab")
    processes.stop(lab, "daemon")
    made = tree.Tree(lab.controller)
    for source, target in (
        (made.config, WHERE.config),
        (made.hmac_key, WHERE.hmac_key),
        (made.bmc_credentials, WHERE.bmc_credentials),
    ):
        target.write_bytes(source.read_bytes())
    for path in (*made.host_vars.iterdir(), made.daemon_settings):
        target = WHERE.etc / path.relative_to(made.etc)
        target.write_bytes(path.read_bytes())
        target.chmod(0o644)
    INVENTORY.write_text("plugin: roundsman.cluster.cluster\nroot: /\n")
    systemctl("start")


def play(user: User, name: str, *, refused: str = "") -> None:
    """Run a playbook as a user."""
    done = user.run("ansible-playbook", "-i", str(INVENTORY), str(ansible_runs.PLAYBOOKS / name), *PLAYS[name])
    see(f"{name} as {user.name}", done, refused=refused)
    give_lab_to_daemon()


def power_off_and_back(user: User) -> None:
    """A real emergency power off of a node and its return, confirmed by the node's BMC."""
    node = world.Lab(LAB / "lab").node(NODE)
    for words, powered in ((["cluster", "epo", NODE], False), (["cluster", "epo", "--on"], True)):
        see(f"{' '.join(words)} as {user.name}", user.run("roundsman", *words, "--force"))
        give_lab_to_daemon()
        found = (node.is_powered(), store.read(WHERE.config).node(NODE).powered)
        state = "on" if powered else "off"
        note(f"{NODE} is {state}, in the world and on record", is_right=found == (powered, powered), text=str(found))


def act(*, runs: bool) -> None:
    """All that is done by hand, in one state of the daemon."""
    print(f"--- the daemon is {'running' if runs else 'stopped'}", flush=True)
    for user in (ROOT, DAEMON):
        see(f"cluster epo --plan as {user.name}", user.run("roundsman", "cluster", "epo", NODE, "--plan"))
        for name in PLAYS:
            play(user, name)
        power_off_and_back(user)
    for name in PLAYS:
        play(ADMINISTRATOR, name, refused=MAY_PLAY)
    plan = ADMINISTRATOR.run("roundsman", "cluster", "epo", NODE, "--plan")
    see("cluster epo --plan as an administrator", plan, refused="" if runs else MAY_READ)
    off = ADMINISTRATOR.run("roundsman", "cluster", "epo", NODE, "--force")
    see("cluster epo as an administrator", off, refused=MAY_ACT if runs else MAY_READ)
    await_empty("no play has left anything beside its livelock", WHERE.livelocks)


def rejected_reports() -> dict[str, int]:
    """How many reports the daemon ever rejected, by reason."""
    with daemon_client.connected(WHERE.socket, seconds=30) as client:
        found: dict[str, int] = client.get("/1/reports").json()["rejected"]
    return found


def read_reports(before: dict[str, int]) -> None:
    """The daemon has taken in what root and its own user brought, and rejected no more than before."""
    await_empty("the spool is empty", WHERE.spool)
    found = rejected_reports()
    note("no report was rejected", is_right=found == before, text=f"{before} before, {found} now")


def reach_over_ssh() -> None:
    """Root's plays reach a node that knows the daemon's key and none of root's: root has none here."""
    key = Path("/root/.ssh/authorized_keys")
    before = key.read_bytes()
    key.write_bytes(before + WHERE.ssh_key.with_suffix(".pub").read_bytes())
    settings = {
        "ansible_connection": "ssh",
        "ansible_host": "127.0.0.1",
        "ansible_user": "root",
        "ansible_python_interpreter": "/usr/bin/python3",
        "ansible_ssh_common_args": "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null",
    }
    try:
        words = ["-i", str(INVENTORY), NODE, "-m", "ansible.builtin.ping", "-e", json.dumps(settings)]
        see("a module over ssh as root, with the daemon's key", ROOT.run("ansible", *words))
    finally:
        key.write_bytes(before)


put_lab_in_place()
rejected = rejected_reports()
act(runs=True)
read_reports(rejected)
if "--no-ssh" not in sys.argv:
    reach_over_ssh()
systemctl("stop")
act(runs=False)
systemctl("start")
read_reports(rejected)
print(f"{len(failures)} wrong, in {time.monotonic() - BEGAN:.0f} s", flush=True)
sys.exit(1 if failures else 0)
