"""roundsman-oob: our power drivers as an external helper program (seed 001, "OOB Program").

It keeps that contract: COMMAND and NODE as arguments, JSON on standard output, 0 or 1 as exit status, and why not on
standard error, so that whoever calls such programs, a Ganeti cluster for one, can be given this one.
"""

from __future__ import annotations

import argparse
import json
import sys
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from ..plugins.module_utils.domain.power import health, power
from ..plugins.module_utils.domain.values import control_characters, errors, tree
from ..plugins.module_utils.oob import drivers, request

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

DISTRIBUTION = "roundsman-cluster"
# A helper program has 60 seconds: what it has to say must be said before.
DEADLINE = 50.0
HEALTH = "health"
POWER: Mapping[str, power.Command] = {
    "power-on": power.Command.ON,
    # Sent to a node that reads off, too: a fence by this program is one only if the BMC took an off.
    "power-off": power.Command.FENCE,
    "power-cycle": power.Command.CYCLE,
    "power-status": power.Command.STATUS,
}
DESCRIPTION = """\
Asks the BMC of one node, by IPMI or Redfish. A command has succeeded when the state read back says so. power-on
succeeds at once if the node is on already; power-off is sent to a node that reads off, too, and has succeeded when the
BMC took it and then reads off twice. Nothing is printed then, but for these two:

  power-status   {"powered": true} or {"powered": false}
  health         [["FAN 1 RPM", "OK"], ...], each OK, WARNING, CRITICAL or UNKNOWN

Exit status: 0 when it succeeded, 1 when it did not (standard error says why), 2 for arguments that are none.
"""
EPILOG = """\
The credentials file is a JSON object from node names to driver (ipmi, which is the default, or redfish), address, port,
username, password and certificate, and is refused when anyone but its owner can open it:

  {"node1.example.com": {"address": "192.0.2.11", "username": "operator", "password": "..."},
   "node2.example.com": {"driver": "redfish", "address": "192.0.2.12", "username": "operator", "password": "...",
                         "certificate": "sha256:FINGERPRINT"}}

examples:
  roundsman-oob power-status node1.example.com
  roundsman-oob --credentials ./bmc.json power-off node1.example.com || echo "not confirmed"
  gnt-cluster modify --node-parameters oob_program=/usr/local/bin/roundsman-oob
"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command at one node's BMC."""
    options = _options(arguments)
    try:
        printed = _run(options)
    except (errors.RoundsmanError, OSError) as error:
        sys.stderr.write(f"roundsman-oob: {control_characters.escaped(str(error))}\n")
        sys.exit(1)
    if printed:
        sys.stdout.write(printed + "\n")


def _run(options: argparse.Namespace) -> str:
    """Give what is to be printed.

    Raises:
        errors.RoundsmanError: it cannot be asked, or did not do what it was asked for.
    """
    target = _target(options)
    if options.command == HEALTH:
        [told] = drivers.health([target], deadline=options.deadline)
        if told.reason is not None and not told.items:
            raise errors.PowerFailed(told.reason, f"{target.name}: {told.reason}: {told.text}")
        return json.dumps(health.pairs(told))
    command = POWER[options.command]
    [outcome] = drivers.run([target], command=command, deadline=options.deadline)
    if not outcome.confirmed:
        reason = outcome.reason or power.Reason.UNCONFIRMED.value
        raise errors.PowerFailed(reason, f"{target.name}: {reason}: {outcome.text}")
    return json.dumps({"powered": outcome.after is power.State.ON}) if command is power.Command.STATUS else ""


def _target(options: argparse.Namespace) -> power.Target:
    [wanted] = request.of_file(str(options.credentials), nodes=[options.node])
    if wanted.target is None:
        why = wanted.failure or power.Failure(power.Reason.UNCONFIGURED, "it cannot be asked")
        raise errors.PowerFailed(why.reason.value, f"{options.node}: {why.reason.value}: {why.text}")
    if wanted.target.driver.startswith("/"):
        raise errors.InvalidInput(f"{options.node}: its driver is a helper program, which this one is itself")
    return wanted.target


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="roundsman-oob",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", metavar="COMMAND", choices=[*POWER, HEALTH], help=", ".join([*POWER, HEALTH]))
    parser.add_argument("node", metavar="NODE", help="the node's name, as the credentials file has it")
    default = tree.Tree(Path("/")).bmc_credentials
    parser.add_argument(
        "--credentials", type=Path, default=default, metavar="FILE", help=f"where the BMCs are (default: {default})"
    )
    parser.add_argument(
        "--deadline",
        type=float,
        default=DEADLINE,
        metavar="SECONDS",
        help=f"how long the BMC has (default: {DEADLINE:g}; callers of helper programs end them after 60)",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {metadata.version(DISTRIBUTION)}")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
