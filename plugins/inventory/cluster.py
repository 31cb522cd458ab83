"""The inventory plugin: the nodes of a cluster, from its configuration."""

from __future__ import annotations

DOCUMENTATION = r"""
name: cluster
short_description: The nodes of a Roundsman cluster
version_added: 0.1.0
description:
  - Reads the configuration of the cluster on this controller; the name of the file must end in C(roundsman.yml).
  - Nodes are in the groups C(roundsman_nodes), C(group_NAME) and C(role_ROLE).
  - Nodes that may be contacted are in the group C(reachable) too.
options:
  plugin:
    description: The name of this plugin.
    required: true
    choices: [roundsman.cluster.cluster]
  root:
    description: The root of the controller's files; a path that is not absolute starts at the inventory file.
    type: str
    default: /
author:
  - The Roundsman founders (@roundsman)
"""

EXAMPLES = r"""
plugin: roundsman.cluster.cluster
root: /
"""

from pathlib import Path
from typing import Any

from ansible.errors import AnsibleParserError
from ansible.plugins.inventory import BaseInventoryPlugin

from ..module_utils.domain import errors, tree
from ..plugin_utils.config import hosts, store


class InventoryModule(BaseInventoryPlugin):  # type: ignore[misc]  # Ansible ships no types
    """Hosts are the nodes by name; `localhost` is the controller."""

    NAME = "roundsman.cluster.cluster"

    def verify_file(self, path: str) -> bool:
        return bool(super().verify_file(path)) and path.endswith(("roundsman.yml", "roundsman.yaml"))

    def parse(self, inventory: Any, loader: Any, path: str, cache: bool = True) -> None:  # noqa: FBT001, FBT002 - the signature of Ansible
        super().parse(inventory, loader, path, cache)
        self._read_config_data(path)
        root = (Path(path).resolve().parent / str(self.get_option("root"))).resolve()
        try:
            cluster = store.read(tree.Tree(root).config)
        except errors.RoundsmanError as error:
            raise AnsibleParserError(str(error)) from error
        inventory.set_variable("all", "roundsman_root", str(root))
        inventory.set_variable("all", "diagnose_command", cluster.maintenance.settings.diagnose_command)
        inventory.add_host("localhost")
        for name, value in hosts.controller().items():
            inventory.set_variable("localhost", name, value)
        for node in cluster.nodes.values():
            for group in hosts.group_names(cluster, node):
                inventory.add_group(group)
                inventory.add_host(node.name, group=group)
            for key, told in hosts.variables(cluster, node).items():
                inventory.set_variable(node.name, key, told)
