"""The options that the modules of an instance share."""

from __future__ import annotations


class ModuleDocFragment:
    """To be named as `roundsman.cluster.instance`."""

    DOCUMENTATION = r"""
options:
  instance:
    description: Name of the instance.
    type: str
    required: true
  hypervisor:
    description: The hypervisor that runs it.
    type: str
    choices: [fake, kvm]
    required: true
  opcode:
    description: Who asks, written beside every event in the node's journal.
    type: str
    default: by hand
"""
