"""Hostile answers of modules: what leaves them is documented, plain and printable."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.roundsman.cluster.plugins.plugin_utils import module_answers

CHECKOUT = Path(__file__).resolve().parents[4]
MODULES = sorted((CHECKOUT / "plugins/modules").glob("*.py"))
KEYS = (
    *("ansible_facts", "ansible_stats", "add_host", "add_group", "invocation", "results", "item", "exception", "rc"),
    *(
        "_ansible_notify",
        "_ansible_facts_cacheable",
        "_ansible_delegated_vars",
        "_ansible_no_log",
        "_ansible_item_label",
    ),
    *("warnings", "deprecations", "changed", "failed", "skipped", "msg", "diff", "unreachable", "stdout", "stderr"),
    *(
        "include",
        "include_args",
        "ansible_job_id",
        "running",
        "state",
        "states",
        "devices",
        "disks",
        "envelope",
        "steps",
    ),
    *("module_stdout", "module_stderr", "roundsman_root", "", "\x00", "{{ x }}"),
)
VALUES: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        0,
        -1,
        10**40,
        1e308,
        float("inf"),
        "",
        "x" * 9000,
        "\x1b]0;t\x07\r\n\u202e",
        "\ud800",
        "{{ 1 }}",
    ),
    *("#jinja2:variable_start_string:'<<'\n<< lookup('pipe', 'id') >>", "$(id)", "../../etc/passwd"),
    *(
        {"roundsman_root": "/evil", "ansible_remote_tmp": "$(id)"},
        {"data": {"roundsman_text": "x"}},
        {"host_name": "x"},
    ),
    *({"__ansible_unsafe": "x"}, {"__ansible_vault": "x"}, {"__ansible_type": "TrustedAsTemplate"}),
)
EXAMPLES = 1000


def documentation(path: Path) -> dict[str, Any]:
    [text] = re.findall(r'^RETURN = r"""\n(.*?)"""', path.read_text(), flags=re.DOTALL | re.MULTILINE)
    return yaml.safe_load(text) or {}


def kind(entry: dict[str, Any]) -> str:
    return f"list[{entry['elements']}]" if entry.get("elements") else str(entry["type"])


def test_the_keys_that_are_taken_are_those_of_the_documentation() -> None:
    on_nodes = [path for path in MODULES if "def main()" in path.read_text()]
    documented = {path.stem: {key: kind(entry) for key, entry in documentation(path).items()} for path in on_nodes}
    assert documented == module_answers.FIELDS


def test_ansible_runs_each_of_our_modules_by_an_action_that_takes_documented_keys_only(tmp_path: Path) -> None:
    script = (
        "import json, sys\n"
        "from ansible.plugins import loader\n"
        "loader.init_plugin_loader([])\n"
        "found = {}\n"
        "for name in sys.argv[1:]:\n"
        "    action = loader.action_loader.get('roundsman.cluster.' + name, class_only=True)\n"
        "    found[name] = [one.__name__ for one in action.__mro__] if action else []\n"
        "print(json.dumps(found))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *(path.stem for path in MODULES)],
        capture_output=True,
        check=True,
        text=True,
        env={
            **{name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")},
            "ANSIBLE_COLLECTIONS_PATH": str(CHECKOUT / "playbooks/collections"),
            "ANSIBLE_HOME": str(tmp_path),
        },
    )
    found = json.loads(done.stdout)
    assert sorted(name for name, parents in found.items() if "Action" not in parents) == []
    assert len(found) == len(MODULES)


def hostile(chance: random.Random, *, depth: int = 0) -> Any:
    picked = chance.random()
    if depth < 4 and picked < 0.2:
        return {str(chance.choice(KEYS)): hostile(chance, depth=depth + 1) for _ in range(chance.randrange(4))}
    if depth < 4 and picked < 0.4:
        return [hostile(chance, depth=depth + 1) for _ in range(chance.randrange(4))]
    return chance.choice(VALUES)


@pytest.mark.parametrize("seed", range(10))
def test_nothing_but_documented_keys_leaves_a_thousand_hostile_answers(seed: int) -> None:
    chance = random.Random(seed)
    refused = 0
    for _ in range(EXAMPLES // 10):
        name = chance.choice(sorted(module_answers.FIELDS))
        keys = chance.sample(sorted({*KEYS, *module_answers.FIELDS[name]}), chance.randrange(1, 12))
        answer = {key: hostile(chance) for key in keys}
        try:
            kept, dropped = module_answers.documented(name, answer)
        except module_answers.UnexpectedAnswer:
            refused += 1
            continue
        allowed = {*module_answers.FIELDS[name], *module_answers.FLAGS, *module_answers.SHOWN, "diff"}
        assert set(kept) <= allowed
        assert all(type(kept[key]) is bool for key in module_answers.FLAGS if key in kept)
        assert all(text.isprintable() or "\n" in text for key in ("msg",) if (text := kept.get(key, "x")))
        assert dropped.isascii()
        assert dropped.isprintable() or not dropped
        json.dumps(kept, ensure_ascii=False).encode()
    assert 0 < refused < EXAMPLES // 10


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ({"running": "yes"}, "running must be bool"),
        ({"running": 1}, "running must be bool"),
        ({"state": ["x"]}, "state must be str"),
    ],
)
def test_a_documented_key_of_another_type_refuses_the_answer(answer: dict[str, Any], text: str) -> None:
    with pytest.raises(module_answers.UnexpectedAnswer, match=text):
        module_answers.documented("instance_state", answer)


def test_an_answer_that_is_nested_too_deeply_is_refused() -> None:
    states: Any = "running"
    for _ in range(module_answers.DEPTH + 1):
        states = {"x": states}
    with pytest.raises(module_answers.UnexpectedAnswer, match="nested"):
        module_answers.documented("instance_info", {"states": states})


def test_what_is_printed_has_no_control_characters_and_an_end() -> None:
    assert module_answers.shown("a\x1b[31m\r\u202e\n") == "a\\x1b[31m\\r\\u202e\n"
    assert module_answers.shown("net { shared-secret abc12; }") == "net { shared-secret hidden; }"
    assert len(module_answers.shown("x" * 100_000)) < module_answers.TEXT_LIMIT + 50


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("drbd_info", {"version": 8, "sides": [None]}),
        ("instance_disks", {"disks": [{}, None]}),
        ("instances_state", {"missed": [None]}),
        ("instances_state", {"results": None}),
        ("instance_info", {"running": None}),
    ],
)
def test_no_list_or_one_with_nothing_as_an_element_refuses_the_answer(name: str, answer: dict[str, Any]) -> None:
    with pytest.raises(module_answers.UnexpectedAnswer, match="must be list"):
        module_answers.documented(name, answer)
