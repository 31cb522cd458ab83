"""What modules support, with the words for it."""

from __future__ import annotations


class ModuleDocFragment:
    """To be named as `roundsman.cluster.attributes`, and with `.node` or `.controller` for where the work is done."""

    DOCUMENTATION = r"""
attributes:
  check_mode:
    description: Can run in check mode, and then changes nothing.
  diff_mode:
    description: Returns what changed, or would change in check mode, as a difference.
  platform:
    description: The operating system of the host that does the work.
    support: full
    platforms: linux
"""

    NODE = r"""
attributes:
  action:
    description: Has an action plugin, which runs on the controller.
    details: The module does the work on the host. The action takes only what is documented from the answer of the host.
    support: partial
"""

    CONTROLLER = r"""
attributes:
  action:
    description: Has an action plugin, which runs on the controller.
    details: The action does the work; no module of this name runs on the host.
    support: full
"""
