"""roundsman-iallocator: our planner as an allocator program, so that a Ganeti cluster can name it as its own.

It keeps Ganeti's contract: one file with the request, the answer on standard output, and exit status 0 for any answer,
one that says no included.
"""

from __future__ import annotations

import argparse
import sys
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from ..plugins.module_utils.domain.values import errors
from ..plugins.plugin_utils.placement.allocation import allocator
from ..plugins.plugin_utils.placement.protocol import allocator_json, own_allocator

if TYPE_CHECKING:
    from collections.abc import Sequence

DISTRIBUTION = "roundsman-cluster"
DESCRIPTION = """\
Answers one request of Ganeti's allocator protocol (version 2): allocate, multi-allocate, allocate-secondary, relocate,
node-evacuate or change-group. The answer is JSON on standard output:

  {"success": true, "info": "...", "result": ["node2", "node1"]}
  {"success": false, "info": "Request failed: ...", "result": []}

Exit status: 0 for any answer, also where the request cannot be read, 2 for arguments that are none.
"""
EPILOG = """\
examples:
  gnt-cluster modify --default-iallocator=roundsman-iallocator
  gnt-node evacuate -I roundsman-iallocator -p node3.example.com
  roundsman-iallocator ./request.json

Ganeti looks for allocators in its own folder: link the program there, under /usr/lib/ganeti/iallocators for Debian's.
"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Answer one request."""
    options = _options(arguments)
    try:
        text = options.file.read_text(encoding="utf-8")
        answer = _answer(text, ignores_soft_errors=options.ignore_soft_errors)
    except OSError as error:
        answer = allocator_json.refused(f"{options.file}: {error.strerror}")
    except (errors.RoundsmanError, UnicodeDecodeError) as error:
        answer = allocator_json.refused(str(error))
    sys.stdout.write(answer + "\n")


def _answer(text: str, *, ignores_soft_errors: bool) -> str:
    model, request = allocator_json.read(text)
    if ignores_soft_errors and isinstance(request, allocator.Evacuate):
        request = allocator.Evacuate(request.instances, request.scope, ignores_soft_errors=True)
    return allocator_json.write(request, own_allocator.make().decide(model, request))


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="roundsman-iallocator",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="the request")
    parser.add_argument(
        "--ignore-soft-errors",
        action="store_true",
        help="evacuate although only memory and disk suffice (Ganeti asks for it so)",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {metadata.version(DISTRIBUTION)}")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
