# Copyright: the Roundsman founders
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lookup `inventory_root`: the root of the controller's files, whatever the facts of a host say."""

from __future__ import annotations

DOCUMENTATION = r"""
name: inventory_root
short_description: The root of the controller's files
version_added: 0.1.0
description:
  - The variable C(roundsman_root) as the inventory and the extra variables have it for all hosts or for C(localhost).
  - Facts do not count, so a node cannot replace it by what it returns. It is C(/) where nobody sets it.
options: {}
author:
  - The Roundsman founders (@roundsman)
"""

EXAMPLES = r"""
- name: Read the controller's files below the root of the inventory
  hosts: localhost
  gather_facts: false
  vars:
    roundsman_root: "{{ lookup('roundsman.cluster.inventory_root') }}"
"""

RETURN = r"""
_raw:
  description: The folder.
  type: list
  elements: str
"""

from typing import Any

from ansible.inventory.host import Host
from ansible.plugins.lookup import LookupBase

NAME = "roundsman_root"


class LookupModule(LookupBase):  # type: ignore[misc]  # Ansible ships no types
    """What is set for all hosts is what a host without facts of its own has."""

    def run(self, terms: Any, variables: Any = None, **kwargs: Any) -> list[str]:
        del terms, kwargs
        hostvars = variables["hostvars"]
        told = hostvars._variable_manager.get_vars(host=Host("no host"), include_hostvars=False)  # noqa: SLF001 - no other way
        here = hostvars._inventory.get_host("localhost")  # noqa: SLF001 - as above
        own = here.vars.get(NAME) if here is not None else None
        return [str(self._templar.template(own or told.get(NAME) or "/"))]
