from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.roundsman.cluster.daemon import settings
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors


def test_without_a_file_the_defaults_hold(tmp_path: Path) -> None:
    found = settings.read(tmp_path / "none")
    assert (found.port, found.bind) == (1816, "")
    assert found.max_running_jobs >= 4


def test_a_file_says_what_differs(tmp_path: Path) -> None:
    (tmp_path / "file").write_text('{"bind": "192.0.2.1", "max_running_jobs": 7}')
    found = settings.read(tmp_path / "file")
    assert (found.port, found.bind, found.max_running_jobs) == (1816, "192.0.2.1", 7)


@pytest.mark.parametrize(
    ("text", "field"),
    [('{"port": 70000}', "port"), ('{"prot": 1}', "prot"), ('{"max_running_jobs": 0}', "max_running_jobs"), ("{", "")],
)
def test_a_damaged_file_is_refused_with_its_path_and_field(tmp_path: Path, text: str, field: str) -> None:
    (tmp_path / "file").write_text(text)
    with pytest.raises(errors.InvalidInput, match=f"{tmp_path}/file: {field}: "):
        settings.read(tmp_path / "file")


def test_each_setting_has_its_row_in_the_page_for_operators() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs/operating.md").read_text()
    assert [name for name in settings.Settings.model_fields if f"\n| `{name}` | " not in page] == []
