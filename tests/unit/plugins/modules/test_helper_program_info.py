from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.roundsman.cluster.plugins.modules import helper_program_info

if TYPE_CHECKING:
    from tests.unit.plugins.modules.called import Node


def test_each_program_that_could_not_be_executed_is_told_and_why(node: Node) -> None:
    (node.root / "opt").mkdir()
    for name, mode in (("good", 0o755), ("plain", 0o655), ("shared", 0o775)):
        (node.root / "opt" / name).touch()
        (node.root / "opt" / name).chmod(mode)
    shared = node.root / "opt/shared"
    paths = ["/opt/good", "/opt/plain", "/opt", "/opt/absent", "/opt/good/below", "/opt/shared"]
    assert node.call(helper_program_info, hypervisor=None, paths=paths)["problems"] == {
        "/opt/plain": "cannot be executed by its owner",
        "/opt/shared": f"would be refused: {shared} has the mode 0775, so others than its owner can write it: "
        f"`chmod go-w {shared}`",
        "/opt": "is not a regular file",
        "/opt/absent": "does not exist",
        "/opt/good/below": "cannot be looked at: Not a directory",
    }
