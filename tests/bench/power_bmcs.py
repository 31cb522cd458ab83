"""Where the simulated BMCs of a rack are, and their login: a console needs to know no more of them."""

from __future__ import annotations

USERNAME, PASSWORD = "admin", "s3cret"
PER_NET = 250


def address(number: int) -> str:
    """The address of a BMC: 127.1.0.1 to 127.1.0.250, then 127.1.1.1 and so on."""
    return f"127.1.{number // PER_NET}.{number % PER_NET + 1}"
