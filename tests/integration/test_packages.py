"""The wheel and the source distribution: both have all of the collection, and what they install starts."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from typing import TYPE_CHECKING

import pytest

from .test_galaxy import PLANTED, copy_checkout, tracked

if TYPE_CHECKING:
    from pathlib import Path

COLLECTION = "ansible_collections/roundsman/cluster/"
PARTS = ("daemon/", "meta/", "playbooks/", "plugins/", "roles/", "galaxy.yml", "requirements.txt")
LINKS = "playbooks/collections/"
COMMANDS = ("roundsman", "roundsmand", "roundsman-rapi", "roundsman-oob", "roundsman-iallocator")


def build(target: str, checkout: Path, folder: Path) -> Path:
    """Build a package from a folder with the sources."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", str(folder)]
    subprocess.run(command, cwd=checkout, check=True, capture_output=True)
    [found] = folder.iterdir()
    return found


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    checkout = copy_checkout(tmp_path_factory.mktemp("checkout"))
    return build("sdist", checkout, tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="module", params=["from the checkout", "from the source distribution"])
def wheel(request: pytest.FixtureRequest, sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unpacked")
    if request.param == "from the checkout":
        return build("wheel", copy_checkout(folder), tmp_path_factory.mktemp("wheel"))
    with tarfile.open(sources) as archive:
        archive.extractall(folder, filter="data")
    [unpacked] = folder.iterdir()
    return build("wheel", unpacked, tmp_path_factory.mktemp("wheel"))


def of_the_collection() -> set[str]:
    return {name for name in tracked() if name.startswith(PARTS) and not name.startswith(LINKS)}


@pytest.mark.slow
def test_the_source_distribution_has_the_collection_and_nothing_that_git_does_not_track(sources: Path) -> None:
    with tarfile.open(sources) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert of_the_collection() - names == set()
    assert names - set(tracked()) - set(PLANTED) == {"PKG-INFO"}
    assert [name for name in names if name.startswith((".testbed", ".lab", ".env"))] == []


@pytest.mark.slow
def test_a_wheel_has_the_collection_and_starts_where_it_is_installed(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name.removeprefix(COLLECTION) for name in archive.namelist() if name.startswith(COLLECTION)}
    assert of_the_collection() - names == set()

    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "empty")], check=True)
    python = tmp_path / "empty/bin/python"
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*install, str(wheel)], check=True)
    # The libraries are those of the tests; of the checkout, which is installed there, nothing is.
    [folder] = (tmp_path / "empty/lib").glob("python*/site-packages")
    (folder / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n")
    for name in COMMANDS:
        ended = subprocess.run(
            [str(python.with_name(name)), "--help"], cwd="/", check=False, capture_output=True, text=True
        )
        assert ended.returncode == 0, (name, ended.stderr)
    asked = "import ansible_collections.roundsman.cluster.daemon.__main__ as found; print(found.__file__)"
    told = subprocess.run([str(python), "-c", asked], cwd="/", check=True, capture_output=True, text=True).stdout
    assert told.startswith(str(folder))
