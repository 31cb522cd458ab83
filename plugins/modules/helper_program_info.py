# Copyright: the Roundsman founders
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module that says what is wrong with helper programs on a node."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: helper_program_info
short_description: See whether external helper programs are there and would be run
version_added: 0.1.0
description:
  - Looks at files of this node; none is executed, and nothing is changed.
  - A helper program is run only if each step of its path belongs to root, or to the user who runs it, and nobody else
    can write it. Commands of the system, such as those in C(/usr/bin), are no helper programs. Root runs only those
    that are in C(/etc/roundsman/oob-programs), or that a link there leads to.
options:
  paths:
    description: The absolute paths of the programs.
    type: list
    elements: path
    required: true
extends_documentation_fragment:
  - roundsman.cluster.attributes
  - roundsman.cluster.attributes.node
attributes:
  check_mode:
    details: Reads in check mode too.
    support: full
  diff_mode:
    details: Has no differences to show.
    support: none
seealso:
  - module: roundsman.cluster.oob_power
author:
  - The Roundsman founders (@roundsman)
"""

EXAMPLES = r"""
- name: See whether a master candidate could power nodes
  roundsman.cluster.helper_program_info:
    paths: [/usr/local/sbin/oob]
"""

RETURN = r"""
problems:
  description: What is wrong with each program that would not be run, by its path.
  returned: success
  type: dict
  sample: {"/usr/local/sbin/oob": "does not exist"}
"""

import os
import stat
from typing import TYPE_CHECKING, Dict

from ansible.module_utils.basic import AnsibleModule

from ..module_utils import instance_options, trusted_paths
from ..module_utils.domain.values import errors, tree

if TYPE_CHECKING:
    import pathlib


def main() -> None:
    spec = {"paths": {"type": "list", "elements": "path", "required": True}}
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    root = instance_options.root()
    found: Dict[str, str] = {path: _problem(root, root / path.lstrip("/")) for path in module.params["paths"]}
    module.exit_json(changed=False, problems={path: text for path, text in found.items() if text})


def _problem(root: pathlib.Path, path: pathlib.Path) -> str:
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return "does not exist"
    except OSError as error:
        return f"cannot be looked at: {error.strerror}"
    if not stat.S_ISREG(mode):
        return "is not a regular file"
    if not mode & stat.S_IXUSR:
        return "cannot be executed by its owner"
    try:
        with trusted_paths.helper(str(path)) as found:
            if os.geteuid() == 0:
                trusted_paths.refuse_unlisted(found, str(tree.Tree(root).oob_programs))
            return ""
    except errors.Refused as error:
        return f"would be refused: {error}"


if __name__ == "__main__":
    main()
