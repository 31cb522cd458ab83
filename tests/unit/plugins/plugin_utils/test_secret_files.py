from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils import secret_files

if TYPE_CHECKING:
    from pathlib import Path


def secret(folder: Path, mode: int) -> Path:
    path = folder / "hmac.key"
    path.touch()
    path.chmod(mode)
    return path


@pytest.mark.parametrize("mode", [0o400, 0o600, 0o700])
def test_a_file_of_its_user_alone_is_accepted(tmp_path: Path, mode: int) -> None:
    secret_files.refuse_readable([secret(tmp_path, mode)])


@pytest.mark.parametrize("mode", [0o440, 0o640, 0o604, 0o601, 0o620])
def test_a_private_file_is_refused_when_group_or_others_have_any_right(tmp_path: Path, mode: int) -> None:
    path = secret(tmp_path, mode)
    with pytest.raises(errors.Refused, match=f"{path} has the mode {mode:04o}"):
        secret_files.refuse_readable([path])


@pytest.mark.parametrize(("mode", "is_refused"), [(0o440, False), (0o640, False), (0o444, True), (0o660, True)])
def test_the_group_of_a_shared_file_may_read_and_nobody_else_may(
    tmp_path: Path, mode: int, *, is_refused: bool
) -> None:
    path = secret(tmp_path, mode)
    if not is_refused:
        secret_files.refuse_readable([path], most=secret_files.SHARED)
        return
    with pytest.raises(errors.Refused, match=f"mode {mode:04o}.*let it be {mode & 0o640:04o}"):
        secret_files.refuse_readable([path], most=secret_files.SHARED)


def test_a_file_that_is_not_there_is_no_danger_and_not_readable(tmp_path: Path) -> None:
    secret_files.refuse_readable([tmp_path / "none"])
    assert secret_files.readable([tmp_path / "none", secret(tmp_path, 0o400)]) == [tmp_path / "hmac.key"]
