# Copyright: the Roundsman founders
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The inventory plugin: the nodes of a cluster, from its configuration."""

from __future__ import annotations

DOCUMENTATION = r"""
name: cluster
short_description: The nodes of a Roundsman cluster
version_added: 0.1.0
description:
  - Reads the configuration of the cluster on this controller; the name of the file must end in C(roundsman.yml).
  - Nodes are in the groups C(roundsman_nodes), C(group_NAME) of their node group and C(role_ROLE), with a role of
    C(master), C(candidate), C(drained), C(offline) and C(regular).
  - By their state they are in the groups C(drained), C(offline), C(powered_off) (on record) and C(reachable), those
    that may be contacted.
  - Each has its plain host variables of the configuration, those that root wrote for it in
    C(etc/roundsman/host_vars/NODE.yml), and C(ansible_host) is its primary address. Beside them there are
    C(roundsman_node_uuid), C(roundsman_group), C(roundsman_role), C(roundsman_tags), C(roundsman_primary_address),
    C(roundsman_oob_program), and C(roundsman_migration_address) and C(roundsman_drbd_address), which are its secondary
    address where it has one, else its primary one.
options:
  plugin:
    description: The name of this plugin.
    required: true
    choices: [roundsman.cluster.cluster]
  root:
    description: The root of the controller's files; a path that is not absolute starts at the inventory file.
    type: str
    default: /
extends_documentation_fragment:
  - ansible.builtin.constructed
author:
  - The Roundsman founders (@roundsman)
"""

EXAMPLES = r"""
plugin: roundsman.cluster.cluster
root: /

# Groups rack_a, rack_b, ... of the tags rack:a, rack:b, and a group of all nodes that a person has to look at.
# plugin: roundsman.cluster.cluster
# keyed_groups:
#   - key: roundsman_tags | select('match', 'rack:') | map('replace', ':', '_') | list
#     separator: ""
# groups:
#   to_repair: roundsman_tags | select('match', 'maintd:repairready') | list | length > 0
"""

import os
import pwd
import stat
from pathlib import Path
from typing import Any, NoReturn

from ansible import constants
from ansible.errors import AnsibleError
from ansible.plugins.inventory import BaseInventoryPlugin, Constructable
from ansible.plugins.loader import shell_loader
from ansible.template import trust_as_template

from ..module_utils.domain.values import errors, tree
from ..plugin_utils import libraries

with libraries.optional():
    from ..plugin_utils.config import host_vars, hosts, store

PARSER_ERROR = 4
"""The exit status of Ansible's programs for what they cannot read."""


class InventoryModule(BaseInventoryPlugin, Constructable):  # type: ignore[misc]  # Ansible ships no types
    """Hosts are the nodes by name; `localhost` is the controller."""

    NAME = "roundsman.cluster.cluster"

    def verify_file(self, path: str) -> bool:
        return bool(super().verify_file(path)) and path.endswith(("roundsman.yml", "roundsman.yaml"))

    def parse(self, inventory: Any, loader: Any, path: str, cache: bool = True) -> None:  # noqa: FBT001, FBT002 - the signature of Ansible
        super().parse(inventory, loader, path, cache)
        _leave_out_shell_plugins_of_the_working_folder()
        self._read_config_data(path)
        root = (Path(path).resolve().parent / str(self.get_option("root"))).resolve()
        where = tree.Tree(root)
        try:
            libraries.require()
            cluster = store.read(where.config)
        except errors.RoundsmanError as error:
            if isinstance(error.__cause__, PermissionError):
                self._refuse_user(where.config, where=where)
            self._end(str(error))
        inventory.set_variable("all", "roundsman_root", str(root))
        if key := _daemons_key(where):
            inventory.set_variable("all", "ansible_ssh_private_key_file", key)
        inventory.set_variable("all", "diagnose_command", cluster.maintenance.settings.diagnose_command)
        left_out: dict[str, str] = {}
        for node in cluster.nodes.values():
            try:
                known = {**hosts.variables(cluster, node), **self._written_by_root(where, node.name)}
            except errors.RoundsmanError as error:
                left_out[node.name] = str(error)
                self.display.error(f"node {node.name!r} is left out: {error}", wrap_text=False)
                continue
            self._add(node.name, known, groups=hosts.group_names(cluster, node))
        inventory.set_variable("all", "roundsman_left_out", left_out)

        # Last, so that no node takes the place of the controller, whatever it is called.
        inventory.add_host("localhost")
        for name, value in hosts.controller().items():
            inventory.set_variable("localhost", name, value)

    def _add(self, name: str, known: dict[str, Any], *, groups: list[str]) -> None:
        for group in groups:
            self.inventory.add_group(group)
            self.inventory.add_host(name, group=group)
        for variable, value in known.items():
            self.inventory.set_variable(name, variable, value)
        try:
            self._construct(name, known)
        except AnsibleError as error:
            self._end(str(error))

    def _written_by_root(self, where: tree.Tree, node: str) -> dict[str, Any]:
        """What root wrote for a node; its strings may be templates, and no others are."""
        try:
            return {name: _trusted(value) for name, value in host_vars.load(where.root, node).items()}
        except errors.RoundsmanError as error:
            if isinstance(error.__cause__, PermissionError):
                self._refuse_user(where.host_vars, where=where)
            raise

    def _end(self, reason: str) -> NoReturn:
        """End the whole play: an inventory that fails is an empty one to Ansible, which goes on with it."""
        self.display.error(reason, wrap_text=False)
        raise SystemExit(PARSER_ERROR)

    def _refuse_user(self, path: Path, *, where: tree.Tree) -> NoReturn:
        daemon = where.lib.stat().st_uid
        may = f"root or by {_account(daemon)}, as which roundsmand runs" if daemon else "root"
        self._end(
            f"{path} cannot be read by {_account(os.geteuid())}: plays by hand are run by {may}; "
            "administrators use the command roundsman, which asks the daemon (see roundsman --help)"
        )

    def _construct(self, name: str, told: dict[str, object]) -> None:
        strict = self.get_option("strict")
        self._set_composite_vars(self.get_option("compose"), told, name, strict=strict)
        self._add_host_to_composed_groups(self.get_option("groups"), told, name, strict=strict)
        self._add_host_to_keyed_groups(self.get_option("keyed_groups"), told, name, strict=strict)


def _leave_out_shell_plugins_of_the_working_folder() -> None:
    """Ansible runs `./shell_plugins` before its own, and whoever may write where a play stands can put them there."""
    shell_loader.config = [path for path in shell_loader.config if Path(path).is_absolute()]
    # The paths that it made of them before, if it did; Ansible has no public name for this.
    shell_loader._paths = None  # noqa: SLF001


def _daemons_key(where: tree.Tree) -> str:
    """The key by which the nodes know the daemon of another user, for plays of root; '' if root has its own."""
    if os.geteuid() != 0 or constants.config.get_config_value("DEFAULT_PRIVATE_KEY_FILE"):
        return ""
    try:
        daemon, key = where.lib.stat().st_uid, where.ssh_key.lstat()
    except OSError:
        return ""
    return str(where.ssh_key) if daemon == key.st_uid != 0 and stat.S_ISREG(key.st_mode) else ""


def _account(uid: int) -> str:
    try:
        return f"the user {pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"the user with uid {uid}"


def _trusted(value: Any) -> Any:
    if isinstance(value, str):
        return trust_as_template(value)
    if isinstance(value, dict):
        return {name: _trusted(item) for name, item in value.items()}
    return [_trusted(item) for item in value] if isinstance(value, list) else value
