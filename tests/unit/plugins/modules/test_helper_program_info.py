from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.roundsman.cluster.plugins.modules import helper_program_info

from tests.unit import other_users

if TYPE_CHECKING:
    from tests.unit.plugins.modules.called import Node


def test_each_program_that_could_not_be_executed_is_told_and_why(node: Node) -> None:
    (node.root / "opt").mkdir()
    for name, mode in (("good", 0o755), ("plain", 0o655), ("shared", 0o775)):
        (node.root / "opt" / name).touch()
        (node.root / "opt" / name).chmod(mode)
    (node.root / "etc/roundsman/oob-programs").mkdir(parents=True, exist_ok=True)
    (node.root / "etc/roundsman/oob-programs/site").symlink_to(node.root / "opt/good")
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


@other_users.only_root
def test_what_root_has_not_put_into_the_folder_of_helper_programs_is_told_with_the_remedy(node: Node) -> None:
    (node.root / "opt").mkdir()
    (node.root / "opt/oob").touch(mode=0o755)
    program, folder = node.root / "opt/oob", node.root / "etc/roundsman/oob-programs"
    assert node.call(helper_program_info, hypervisor=None, paths=["/opt/oob"])["problems"] == {
        "/opt/oob": f"would be refused: {program} is not run by root, because neither it nor a link to it is in "
        f"{folder}: `install -d -m 0755 {folder} && ln -s {program} {folder}/`",
    }
