from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests import counts

ROOT = Path(__file__).resolve().parents[2]


def _source(text: str) -> counts.Source:
    return counts.Source(Path("one.py"), text, ast.parse(text))


def test_lines_of_code_are_neither_blank_nor_comments_nor_documentation() -> None:
    text = '"""What it is."""\n\nDOCUMENTATION = """\nmodule: one\n"""\n# why\nNAME = """two\nlines"""\n\n\n'
    function = 'def add() -> int:\n    """Add."""\n    return 1 + (\n        2\n    )\n'
    assert counts.code_lines(_source(text + function)) == 6


def test_files_with_one_importer_are_found_by_any_way_to_import_them(tmp_path: Path) -> None:
    for name, text in {
        "plugins/a.py": "from . import b\nfrom .c import thing\n",
        "plugins/b.py": "def late():\n    from .c import thing\n    return thing\n",
        "plugins/c.py": "thing = 1\n",
        "daemon/d.py": "from ..plugins import c\n",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert counts.rows(tmp_path)["files with one importer"] == 1, "b, by a; c has three"


@pytest.mark.parametrize(
    ("clause", "is_explained"),
    [
        ("except Exception:", False),
        ("except BaseException:  # noqa: BLE001", False),
        ("except (ValueError, Exception):", False),
        ("except:", False),
        ("except Exception:  # noqa: BLE001 - nobody may wait for ever", True),
        ("except Exception:  # the write is logged", True),
        ("except OSError:", True),
    ],
)
def test_a_broad_except_has_its_reason_beside_it(clause: str, is_explained: bool) -> None:
    assert (counts.unexplained(_source(f"try:\n    pass\n{clause}\n    raise\n")) == []) is is_explained


def test_each_broad_except_of_the_product_says_why() -> None:
    lines = {str(source.path.relative_to(ROOT)): counts.unexplained(source) for source in counts.sources(ROOT)}
    assert {path: found for path, found in lines.items() if found} == {}
