#!/usr/bin/python3
"""SIMULATED: a program of DRBD or LVM on a machine without DRBD: the disks of a lab answer, which the nodes share.

`changes` beside the nodes has a line for each command that changes something, also where it comes to nothing.
"""

import os
import pathlib
import sys

sys.path.insert(0, "/srv/collections")

from ansible_collections.roundsman.cluster.daemon.lab.simulator import simulated_programs
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors

NODES = pathlib.Path("/srv/nodes")
READING = ("lvs", "vgs", "drbdsetup status", "drbdsetup show", "drbdadm get-gi", "drbdadm sh-")


def main() -> None:
    node, command = os.uname().nodename, [pathlib.Path(sys.argv[0]).name, *sys.argv[1:]]
    text = " ".join(command)
    if not text.startswith(READING):
        with (NODES / "changes").open("a") as changes:
            changes.write(f"{node}: {text}\n")
    try:
        sys.stdout.write(simulated_programs.SimulatedPrograms(NODES / node).run(*command))
    except errors.Failed as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(getattr(error.__cause__, "status", 1))


if __name__ == "__main__":
    main()
