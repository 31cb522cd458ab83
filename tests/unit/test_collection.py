"""What Galaxy and users of the collection read beside its plugins: groups of modules, libraries, addresses."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
LIBRARIES = ("httpx", "numpy", "orjson", "pydantic")
MODULES = {path.stem for path in (ROOT / "plugins/modules").glob("*.py")}


def document(name: str) -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load((ROOT / name).read_text())
    return read


def requirements(lines: list[str]) -> dict[str, str]:
    """The versions of the libraries, by their names."""
    named = (re.fullmatch(r"([a-z0-9-]+)(.*)", line.partition("#")[0].strip()) for line in lines)
    return {found[1]: found[2] for found in named if found is not None}


def test_every_module_is_in_an_action_group_and_every_group_names_modules() -> None:
    groups: dict[str, list[str]] = document("meta/runtime.yml")["action_groups"]
    listed = [name for names in groups.values() for name in names]

    assert MODULES - set(listed) == set()
    assert set(listed) - MODULES == set()


def test_the_collection_requires_the_versions_that_the_daemon_requires() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    of_collection = requirements((ROOT / "requirements.txt").read_text().splitlines())
    of_daemon = requirements(project["dependencies"])
    assert of_collection == {name: of_daemon[name] for name in of_collection}


def test_an_execution_environment_is_built_with_the_requirements() -> None:
    named = document("meta/execution-environment.yml")["dependencies"]["python"]
    assert (ROOT / named).is_file()


def test_what_ansible_test_is_to_overlook_is_in_files_that_are_there() -> None:
    lines = (ROOT / "tests/sanity/ignore.txt").read_text().splitlines()
    assert {line.split()[0] for line in lines if not (ROOT / line.split()[0]).is_file()} == set()


def test_no_address_is_a_placeholder() -> None:
    addresses = {key: value for key, value in document("galaxy.yml").items() if "://" in str(value)}
    assert {key: value for key, value in addresses.items() if "example." in value} == {}


def test_every_plugin_loads_without_the_libraries_so_that_it_can_say_which_are_missing() -> None:
    files = sorted(
        path for kind in ("action", "inventory", "lookup") for path in (ROOT / "plugins" / kind).glob("*.py")
    )
    names = [f"ansible_collections.roundsman.cluster.plugins.{path.parent.name}.{path.stem}" for path in files]
    lines = ("import importlib, sys", "sys.modules.update(dict.fromkeys(%r))" % (LIBRARIES,))
    script = "\n".join([*lines, *(f"importlib.import_module({name!r})" for name in names)])

    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)

    assert ended.stderr == ""


def test_every_entry_point_of_a_role_is_described() -> None:
    specs = {path.parts[-3]: path for path in sorted((ROOT / "roles").glob("*/meta/argument_specs.yml"))}
    assert set(specs) == {path.name for path in (ROOT / "roles").iterdir()}
    entries = {
        (role, name): spec
        for role, path in specs.items()
        for name, spec in document(str(path.relative_to(ROOT)))["argument_specs"].items()
    }
    assert {
        key for key, spec in entries.items() if not (spec.get("short_description") and spec.get("description"))
    } == set()


def test_ansible_prints_the_documentation_of_every_role() -> None:
    roles = sorted(path.name for path in (ROOT / "roles").iterdir())
    command = [str(Path(sys.executable).with_name("ansible-doc")), "--type", "role", "--json"]
    environment = {**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "playbooks/collections")}
    names = [f"roundsman.cluster.{role}" for role in roles]
    ended = subprocess.run([*command, *names], env=environment, capture_output=True, text=True, check=True)
    assert sorted(json.loads(ended.stdout)) == names
