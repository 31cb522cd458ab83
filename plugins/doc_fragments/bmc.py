"""The options that the modules about BMCs share."""

from __future__ import annotations


class ModuleDocFragment:
    """To be named as `roundsman.cluster.bmc`."""

    DOCUMENTATION = r"""
options:
  targets:
    description:
      - The BMCs to ask. Exactly one of O(targets) and O(credentials_file) is needed.
    type: list
    elements: dict
    suboptions:
      name:
        description: The node's name.
        type: str
        required: true
      driver:
        description:
          - How to talk to the BMC, V(ipmi), V(redfish), or the absolute path of an external helper program.
          - A helper program is called as C(PROGRAM COMMAND NODE), and needs none of the other keys.
        type: str
        default: ipmi
      address:
        description: The BMC's IP address. Names are not looked up.
        type: str
        default: ""
      port:
        description: The BMC's port; V(0) is the driver's usual one, 623 for V(ipmi) and 443 for V(redfish).
        type: int
        default: 0
      username:
        description: The user to log in as.
        type: str
        default: ""
      password:
        description: The user's password.
        type: str
        default: ""
      certificate:
        description:
          - Which certificate of the BMC to trust, for V(redfish). Empty is one that a known authority signed,
            V(sha256:FINGERPRINT) that very one, V(any) any at all.
        type: str
        default: ""
  credentials_file:
    description:
      - A JSON file on the host the task runs on, an object from a node's name to an object with the keys
        of O(targets) but C(name). It is refused when group or others have any access to it.
    type: path
  nodes:
    description:
      - The names of the nodes to ask, from O(credentials_file).
      - A node without an entry, or with one that does not serve, is reported so and stops no other.
    type: list
    elements: str
  drivers:
    description:
      - With O(credentials_file), the drivers of nodes by their names, which go before those of the file.
      - A node whose driver is the absolute path of a helper program needs no entry.
    type: dict
    version_added: 0.1.0
"""
