"""Which of a run's settings a warm Ansible honours, and which would be dropped in silence and so are refused.

Ansible reads its settings while it is imported. What is only looked up later is read anew for every run; for the rest a
run has to agree with the one for which the server was started.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

HONOURED = frozenset(
    {
        "ANSIBLE_CACHE_PLUGIN",
        "ANSIBLE_CACHE_PLUGIN_CONNECTION",
        "ANSIBLE_CACHE_PLUGIN_TIMEOUT",
        "ANSIBLE_FORKS",
        "ANSIBLE_HOST_KEY_CHECKING",
        "ANSIBLE_INVENTORY",
        "ANSIBLE_RETRY_FILES_ENABLED",
        "ANSIBLE_SSH_CONTROL_PATH_DIR",
        "ANSIBLE_SSH_RETRIES",
        "ANSIBLE_VAULT_PASSWORD_FILE",
    }
)
"""Settings that are looked up when they are used; the tests compare each of them with the plain command."""
OF_THE_START = ("PYTHON", "LD_")
"""What an interpreter reads when it starts: a run has to agree with the server itself."""
PREFIXES = ("ANSIBLE_", "_ANSIBLE_", "LC_", *OF_THE_START)
NAMES = frozenset({"LANG", "LANGUAGE", "HOME", "VIRTUAL_ENV", "TERM", "NO_COLOR"})


def settings(environment: Mapping[str, str]) -> dict[str, str]:
    """The settings of an environment that Ansible reads once, when it is imported."""
    return {
        name: value
        for name, value in environment.items()
        if name not in HONOURED and (name.startswith(PREFIXES) or name in NAMES)
    }


def of_the_start(environment: Mapping[str, str]) -> dict[str, str]:
    """The settings of an environment that Python reads once, when it starts."""
    return {name: value for name, value in environment.items() if name.startswith(OF_THE_START)}


def difference(before: Mapping[str, object], run: Mapping[str, object], *, source: str) -> str:
    """In what a run differs from its `source`, or ''."""
    names = sorted(name for name in {*before, *run} if before.get(name) != run.get(name))
    return f"it differs in {', '.join(names)} from {source}" if names else ""
