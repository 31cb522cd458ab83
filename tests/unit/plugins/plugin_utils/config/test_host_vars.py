from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils import trusted_paths
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors, tree
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import host_vars, hosts

from tests.unit import small_cluster

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CLUSTER = small_cluster.make()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tree.Tree(tmp_path).host_vars
    found.mkdir(parents=True)
    found.chmod(0o755)
    return found


def written(path: Path, text: str, mode: int = 0o644) -> None:
    path.write_text(text)
    path.chmod(mode)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("node2.yml", "ansible_ssh_common_args: -o X=y\nmine: '{{ x }}'\n"),
        ("node2.yaml", "{ansible_ssh_common_args: -o X=y, mine: '{{ x }}'}"),
        ("node2.json", '{"ansible_ssh_common_args": "-o X=y", "mine": "{{ x }}"}'),
    ],
)
def test_what_root_wrote_wins_and_may_be_a_template(folder: Path, tmp_path: Path, name: str, text: str) -> None:
    written(folder / name, text)
    known = host_vars.load(tmp_path, "node2")
    assert known == {"ansible_ssh_common_args": "-o X=y", "mine": "{{ x }}"}
    written(folder / name, '{"ansible_user": "root", "mine": "{{ x }}"}')
    found = json.loads(hosts.run_inventory(CLUSTER, ["n1", "n2"], root=str(tmp_path)))["all"]["hosts"]
    assert (found["node2"]["ansible_user"], found["node2"]["mine"]) == ("root", "{{ x }}")
    assert found["node2"]["ansible_host"] == {"__ansible_unsafe": "node2"}
    assert "mine" not in found["node1"]
    assert hosts.connection(CLUSTER.nodes["n2"], root=tmp_path) == {"ansible_user": "root"}


def test_without_a_file_or_its_folder_there_is_nothing(tmp_path: Path) -> None:
    assert host_vars.load(tmp_path, "node2") == {}
    assert host_vars.load(tmp_path, "../config") == {}
    assert hosts.problem(CLUSTER.nodes["n2"], root=tmp_path) == ""


def linked(folder: Path) -> None:
    written(folder.parent / "elsewhere.yml", "a: b")
    (folder / "node2.yml").symlink_to(folder.parent / "elsewhere.yml")


def moved(folder: Path) -> None:
    written(folder / "node2.yml", "a: b")
    folder.rename(folder.with_name("elsewhere"))
    folder.symlink_to(folder.with_name("elsewhere"))


def open_folder(folder: Path) -> None:
    written(folder / "node2.yml", "a: b")
    folder.chmod(0o777)


def twice(folder: Path) -> None:
    written(folder / "node2.yml", "a: b")
    written(folder / "node2.json", "{}")


@pytest.mark.parametrize(
    ("prepare", "told"),
    [
        (lambda folder: written(folder / "node2.yml", "a: b", 0o664), "has the mode 0664"),
        (lambda folder: written(folder / "node2.yml", "a: b", 0o646), "has the mode 0646"),
        (linked, "must be a regular file"),
        (moved, "not a link"),
        (open_folder, "has the mode 0777"),
        (twice, "several files of host variables"),
        (lambda folder: (folder / "node2.yml").mkdir(), "must be a regular file"),
        (lambda folder: os.mkfifo(folder / "node2.yml", 0o644), "must be a regular file"),
        (lambda folder: written(folder / "node2.yml", "- a"), "must hold variables by name"),
        (lambda folder: written(folder / "node2.yml", "a: [1"), "cannot be read as variables"),
        (lambda folder: written(folder / "node2.yml", "!!python/object/apply:os.system ['true']"), "cannot be read as"),
    ],
)
def test_a_file_that_is_not_root_s_alone_stops_the_run(
    folder: Path, tmp_path: Path, prepare: Callable[[Path], None], told: str
) -> None:
    prepare(folder)
    with pytest.raises(errors.Refused, match=told):
        hosts.run_inventory(CLUSTER, ["n2"], root=str(tmp_path))
    assert told in hosts.problem(CLUSTER.nodes["n2"], root=tmp_path)


def test_a_bad_file_of_one_node_stops_no_run_about_another(folder: Path, tmp_path: Path) -> None:
    linked(folder)
    assert hosts.run_inventory(CLUSTER, ["n1"], root=str(tmp_path))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_file_of_another_owner_is_refused_and_below_the_real_root_only_root_owns_them(
    folder: Path, tmp_path: Path
) -> None:
    written(folder / "node2.yml", "a: b")
    os.chown(folder / "node2.yml", 65534, 65534)
    with pytest.raises(errors.Refused, match="is owned by uid 65534: it must be owned by root"):
        host_vars.load(tmp_path, "node2")
    os.chown(folder / "node2.yml", 0, 0)
    os.chown(folder, 65534, 65534)
    with pytest.raises(errors.Refused, match="is owned by uid 65534: it must be owned by root"):
        host_vars.load(tmp_path, "node2")
    os.chown(tmp_path, 65534, 65534)
    assert trusted_paths.owners(tmp_path) == {0}
