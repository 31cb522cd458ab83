"""Real nodes for tests: hosts of instances as containers, or as guests of QEMU.

Exit codes: 0 done, 1 failed, 2 refused, 3 this machine lacks what it takes, 130 interrupted.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from pathlib import Path
from typing import NoReturn

from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors

from . import beds, building, cache, nodes, wires

FAILED, REFUSED, MISSING, INTERRUPTED = 1, 2, 3, 130


def main() -> int:
    """Do what the command line says."""
    options = _options()
    bed = beds.Bed(options.dir.resolve())
    # Ended by a signal as by Ctrl-C: what was started is ended too.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    try:
        return int(options.act(bed, options) or 0)
    except beds.Missing as error:
        print(error, file=sys.stderr)
        return MISSING
    except errors.Refused as error:
        print(error, file=sys.stderr)
        return REFUSED
    except errors.Failed as error:
        print(error, file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        print("interrupted: nothing of it is left running", file=sys.stderr)
        return INTERRUPTED


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt


def _up(bed: beds.Bed, options: argparse.Namespace) -> None:
    with bed.locked():
        if options.kind == "guests":
            building.up_guests(bed, kept=options.cache.resolve(), tell=_tell)
        else:
            building.up_containers(bed, tell=_tell)
    _inventory(bed, options)


def _down(bed: beds.Bed, _: argparse.Namespace) -> None:
    if bed.folder.exists():
        with bed.locked():
            building.down(bed)


def _status(bed: beds.Bed, _: argparse.Namespace) -> int:
    record = bed.record()
    if not record:
        print(f"nothing is up in {bed.folder}")
        return FAILED
    on = nodes.running(bed)
    port = record["bmc"]["port"]
    for name, node in record["nodes"].items():
        power = "on" if name in on else "off"
        print(f"{name}\t{node['address']}\t{power}\tsimulated BMC {node['bmc']}:{port}")
    return 0


def _ssh(bed: beds.Bed, options: argparse.Namespace) -> NoReturn:
    command = bed.command(options.node, *options.command)
    os.execvp(command[0], command)


def _cable(bed: beds.Bed, options: argparse.Namespace) -> None:
    wires.cut(bed, options.node, options.network, is_cut=options.is_cut)


def _say(bed: beds.Bed, options: argparse.Namespace) -> None:
    bed.say(options.node, json.loads(options.diagnosis))


def _inventory(bed: beds.Bed, _: argparse.Namespace) -> None:
    print(f"inventory: {bed.inventory}")
    print(f"controller: {bed.controller} (roundsmand --root {bed.controller})")


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.testbed",
        description="Real nodes for tests, on this machine.",
        epilog="example: python -m tests.testbed up containers && python -m tests.testbed ssh node1 virsh list",
    )
    parser.add_argument("--dir", type=Path, default=Path(".testbed"), help="the folder of the bed (default: .testbed)")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    up = commands.add_parser("up", help="start three containers with libvirt, or two guests with DRBD too")
    up.add_argument("kind", choices=["containers", "guests"])
    up.add_argument(
        "--cache",
        type=Path,
        default=cache.default(),
        help=f"where what is built once is kept (default: {cache.default()})",
    )
    up.set_defaults(act=_up)
    for name, act, text in (
        ("down", _down, "end them and remove their files"),
        ("status", _status, "show the nodes, their addresses and their power"),
        ("inventory", _inventory, "show where the inventory and the controller's files are"),
    ):
        commands.add_parser(name, help=text).set_defaults(act=act)
    for name, is_cut, text in (("cut", True, "pull a guest's cable"), ("mend", False, "plug it in again")):
        cable = commands.add_parser(name, help=text)
        cable.add_argument("node")
        cable.add_argument("network", choices=wires.NETWORKS)
        cable.set_defaults(act=_cable, is_cut=is_cut)
    ssh = commands.add_parser("ssh", help="run a command on a node, or a shell")
    ssh.add_argument("node")
    ssh.add_argument("command", nargs=argparse.REMAINDER)
    ssh.set_defaults(act=_ssh)
    say = commands.add_parser("say", help="have a node's diagnose command print this JSON from now on")
    say.add_argument("node")
    say.add_argument("diagnosis")
    say.set_defaults(act=_say)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
