"""Host variables that root wrote for a node, `etc/roundsman/host_vars/NODE.yml`: any variables, and templates too."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import yaml

from ...module_utils import trusted_paths
from ...module_utils.domain.values import errors, tree

if TYPE_CHECKING:
    from pathlib import Path

SUFFIXES = (".yml", ".yaml", ".json")


def load(root: Path, node: str) -> dict[str, Any]:
    """The host variables of a node by its name; empty where there is no file.

    Raises:
        Refused: the file or its folder is not root's alone (in a lab: its owner's), there are two files, or it holds
            something else than variables.
    """
    found: dict[Path, bytes] = {}
    for path in trusted_paths.variants(tree.Tree(root).host_vars, node, SUFFIXES):
        content = trusted_paths.read(path, root=root)
        if content is not None:
            found[path] = content
    if len(found) > 1:
        raise errors.Refused(f"node {node} has several files of host variables, keep one: {', '.join(map(str, found))}")
    return {name: value for path, content in found.items() for name, value in _parsed(path, content).items()}


def _parsed(path: Path, content: bytes) -> dict[str, Any]:
    try:
        found = json.loads(content) if path.suffix == ".json" else yaml.safe_load(content)
        json.dumps(found)
    except (ValueError, TypeError, yaml.YAMLError) as error:
        told = " ".join(str(error).split())
        raise errors.Refused(f"{path} cannot be read as variables: {told}") from error
    if found is None:
        return {}
    if not isinstance(found, dict) or not all(isinstance(name, str) for name in found):
        raise errors.Refused(f"{path} must hold variables by name")
    return found
