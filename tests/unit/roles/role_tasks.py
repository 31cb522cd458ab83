"""The tasks of a role, found by name, and what their conditions and variables are for given answers."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import yaml
from ansible.errors import AnsibleError
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

ROLES = Path(__file__).resolve().parents[3] / "roles"
Task = dict[str, Any]


@functools.cache
def tasks(role: str, file: str) -> tuple[Task, ...]:
    """The tasks of a file in order, those of its blocks with the conditions of these, and of `FILE_act` at its end."""
    names = [
        name for name in (file, f"{file}_act") if name == file or (ROLES / role / "tasks" / f"{name}.yml").exists()
    ]
    return tuple(
        task
        for name in names
        for task in _flat(yaml.safe_load((ROLES / role / "tasks" / f"{name}.yml").read_text()), [])
    )


def task(role: str, file: str, name: str) -> Task:
    """The one task of a file that has this name."""
    (found,) = (one for one in tasks(role, file) if one["name"] == name)
    return found


def runs(role: str, one: Task, told: dict[str, Any]) -> bool:
    """Whether the conditions of a task let it run."""
    templar = _templar(role, told)
    return all(templar.evaluate_conditional(_trusted(condition)) for condition in one["when"])


def refuses(role: str, one: Task, told: dict[str, Any]) -> bool:
    """Whether the play ends at a task that does nothing but fail: its condition says so, or cannot be told."""
    assert "ansible.builtin.fail" in one
    assert not one.keys() & {"ignore_errors", "failed_when", "loop"}
    try:
        return runs(role, one, told)
    except AnsibleError:
        return True


def value(role: str, template: Any, told: dict[str, Any]) -> Any:
    """What a template, or a structure of them, is in a role."""
    return _templar(role, told).template(_trusted(template))


def _flat(entries: list[Task], inherited: list[Any]) -> list[Task]:
    found = []
    for entry in entries:
        when = [*inherited, *_listed(entry.get("when", []))]
        inner = [one for part in ("block", "rescue", "always") for one in entry.get(part, [])]
        found.extend(_flat(inner, when) if inner else [{**entry, "when": when}])
    return found


def _listed(when: Any) -> list[Any]:
    return when if isinstance(when, list) else [when]


def _templar(role: str, told: dict[str, Any]) -> Templar:
    path = ROLES / role / "vars/main.yml"
    known = yaml.safe_load(path.read_text()) if path.exists() else {}
    return Templar(
        loader=DataLoader(), variables={**{key: _trusted(text) for key, text in known.items()}, **given(told)}
    )


def given(told: dict[str, Any]) -> dict[str, Any]:
    """Variables, of which those named `step.KEY` are what the step is given."""
    own = {key: one for key, one in told.items() if not key.startswith("step.")}
    step = {key.removeprefix("step."): one for key, one in told.items() if key.startswith("step.")}
    return {**own, "step": step} if step else own


def _trusted(template: Any) -> Any:
    if isinstance(template, dict):
        return {key: _trusted(one) for key, one in template.items()}
    if isinstance(template, list):
        return [_trusted(one) for one in template]
    return trust_as_template(template) if isinstance(template, str) else template
