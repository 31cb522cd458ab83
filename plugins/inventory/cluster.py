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

from pathlib import Path
from typing import Any

from ansible.errors import AnsibleParserError
from ansible.plugins.inventory import BaseInventoryPlugin, Constructable
from ansible.template import trust_as_template

from ..module_utils.domain import errors, tree
from ..plugin_utils import libraries

with libraries.optional():
    from ..plugin_utils.config import host_vars, hosts, store


class InventoryModule(BaseInventoryPlugin, Constructable):  # type: ignore[misc]  # Ansible ships no types
    """Hosts are the nodes by name; `localhost` is the controller."""

    NAME = "roundsman.cluster.cluster"

    def verify_file(self, path: str) -> bool:
        return bool(super().verify_file(path)) and path.endswith(("roundsman.yml", "roundsman.yaml"))

    def parse(self, inventory: Any, loader: Any, path: str, cache: bool = True) -> None:  # noqa: FBT001, FBT002 - the signature of Ansible
        super().parse(inventory, loader, path, cache)
        self._read_config_data(path)
        root = (Path(path).resolve().parent / str(self.get_option("root"))).resolve()
        try:
            libraries.require()
            cluster = store.read(tree.Tree(root).config)
        except errors.RoundsmanError as error:
            raise AnsibleParserError(str(error)) from error
        inventory.set_variable("all", "roundsman_root", str(root))
        inventory.set_variable("all", "diagnose_command", cluster.maintenance.settings.diagnose_command)
        for node in cluster.nodes.values():
            for group in hosts.group_names(cluster, node):
                inventory.add_group(group)
                inventory.add_host(node.name, group=group)
            known = {**hosts.variables(cluster, node), **_written_by_root(root, node.name)}
            for name, value in known.items():
                inventory.set_variable(node.name, name, value)
            self._construct(node.name, known)

        # Last, so that no node takes the place of the controller, whatever it is called.
        inventory.add_host("localhost")
        for name, value in hosts.controller().items():
            inventory.set_variable("localhost", name, value)

    def _construct(self, name: str, told: dict[str, object]) -> None:
        strict = self.get_option("strict")
        self._set_composite_vars(self.get_option("compose"), told, name, strict=strict)
        self._add_host_to_composed_groups(self.get_option("groups"), told, name, strict=strict)
        self._add_host_to_keyed_groups(self.get_option("keyed_groups"), told, name, strict=strict)


def _written_by_root(root: Path, node: str) -> dict[str, Any]:
    """What root wrote for a node; its strings may be templates, and no others are."""
    try:
        return {name: _trusted(value) for name, value in host_vars.load(root, node).items()}
    except errors.RoundsmanError as error:
        raise AnsibleParserError(str(error)) from error


def _trusted(value: Any) -> Any:
    if isinstance(value, str):
        return trust_as_template(value)
    if isinstance(value, dict):
        return {name: _trusted(item) for name, item in value.items()}
    return [_trusted(item) for item in value] if isinstance(value, list) else value
