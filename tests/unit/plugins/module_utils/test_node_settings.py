from __future__ import annotations

import json
import os
import pwd
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils import node_settings
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors

if TYPE_CHECKING:
    import pathlib

ME = pwd.getpwuid(os.geteuid())
NODE = "5c8f1c4e-6d54-4bd5-a25b-0f0c0f6f8a11"


@pytest.fixture
def root(tmp_path: pathlib.Path) -> pathlib.Path:
    for folder in ("etc/roundsman", "var/lib/roundsman"):
        (tmp_path / folder).mkdir(parents=True)
    put_settings(tmp_path, {"node": NODE, "name": "node1", "command_owner": ME.pw_name, "diagnose_time_limit": 1.5})
    put_key(tmp_path, b"secret\n")
    return tmp_path


def put_settings(root: pathlib.Path, fields: Any) -> None:
    path = root / "etc/roundsman/node.json"
    path.write_text(fields if isinstance(fields, str) else json.dumps(fields))
    path.chmod(0o644)


def put_key(root: pathlib.Path, key: bytes, *, mode: int = 0o400) -> None:
    path = root / "var/lib/roundsman/node.key"
    path.unlink(missing_ok=True)
    path.write_bytes(key)
    path.chmod(mode)


def load(root: pathlib.Path) -> node_settings.Settings:
    return node_settings.load({"ROUNDSMAN_ROOT": str(root)})


def test_settings_are_read_below_the_root(root: pathlib.Path) -> None:
    settings = load(root)
    assert (settings.node, settings.name, settings.diagnose_time_limit) == (NODE, "node1", 1.5)
    assert (settings.owner.uid, settings.owner.gid) == (ME.pw_uid, ME.pw_gid)
    assert settings.diagnose_commands == root / "etc/roundsman/node-diagnose-commands"
    assert settings.repair_commands == root / "etc/roundsman/node-repair-commands"
    assert settings.diagnose_lock.parent == settings.repair_lock.parent == root / "run/roundsman"
    assert settings.diagnose_lock != settings.repair_lock


def test_what_is_not_set_has_the_strict_default(root: pathlib.Path) -> None:
    put_settings(root, {"node": NODE})
    settings = load(root)
    assert (settings.name, settings.owner.uid, settings.owner.gid) == (NODE, 0, 0)
    assert settings.diagnose_time_limit == 60


@pytest.mark.parametrize(
    "fields",
    [
        "",
        "{",
        "[]",
        "[" * 5000,
        {},
        {"node": ""},
        {"node": 5},
        {"node": NODE, "command_owner": "nobody-has-this-name"},
        {"node": NODE, "command_owner": ""},
        {"node": NODE, "command_owner": "a\0b"},
        {"node": NODE, "command_owner": None},
        {"node": NODE, "diagnose_time_limit": 0},
        {"node": NODE, "diagnose_time_limit": -1},
        {"node": NODE, "diagnose_time_limit": "60"},
        {"node": NODE, "diagnose_time_limit": True},
        '{"node": "x", "diagnose_time_limit": 1e999}',
    ],
    ids=lambda fields: ascii(fields)[:60],
)
def test_wrong_settings_are_refused_in_one_line_that_names_the_file(root: pathlib.Path, fields: Any) -> None:
    put_settings(root, fields)
    with pytest.raises(errors.InvalidInput, match=r"node\.json: ") as caught:
        load(root)
    assert "\n" not in str(caught.value)


def test_missing_settings_name_the_file(tmp_path: pathlib.Path) -> None:
    with pytest.raises(errors.StoreFailed, match=r"node\.json: No such file"):
        load(tmp_path)


def test_settings_that_anybody_may_write_are_refused(root: pathlib.Path) -> None:
    (root / "etc/roundsman/node.json").chmod(0o646)
    with pytest.raises(errors.StoreFailed, match="0646"):
        load(root)


@pytest.mark.parametrize("mode", [0o400, 0o600, 0o440])
def test_the_key_is_all_bytes_of_its_file(root: pathlib.Path, mode: int) -> None:
    put_key(root, b" secret \n", mode=mode)
    assert node_settings.key(load(root)) == b" secret \n"


@pytest.mark.parametrize("mode", [0o404, 0o402, 0o401, 0o420, 0o644])
def test_a_key_that_others_may_use_is_refused(root: pathlib.Path, mode: int) -> None:
    put_key(root, b"secret", mode=mode)
    with pytest.raises(errors.StoreFailed, match="too permissive"):
        node_settings.key(load(root))


def test_a_key_that_is_empty_missing_or_no_file_is_refused(root: pathlib.Path) -> None:
    put_key(root, b"")
    with pytest.raises(errors.StoreFailed, match="empty"):
        node_settings.key(load(root))
    (root / "var/lib/roundsman/node.key").unlink()
    with pytest.raises(errors.StoreFailed, match="No such file"):
        node_settings.key(load(root))
    os.mkfifo(root / "var/lib/roundsman/node.key", 0o600)
    with pytest.raises(errors.StoreFailed, match="not a regular file"):
        node_settings.key(load(root))
