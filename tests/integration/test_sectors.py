from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.testbed import sectors


@pytest.mark.parametrize(("name", "code"), [("tick", sectors.TICK), ("churn", sectors.CHURN)])
def test_the_code_of_an_instance_is_that_of_its_source(tmp_path: Path, name: str, code: bytes) -> None:
    if not (shutil.which("as") and shutil.which("ld")):
        pytest.skip("no assembler here: apt-get install binutils")
    source = Path(sectors.__file__).with_name(f"{name}.S")
    subprocess.run(["as", "--32", "-o", tmp_path / "o", source], check=True)
    link = ["ld", "-m", "elf_i386", "--oformat", "binary", "-Ttext", "0x7c00", "-o", tmp_path / "made", tmp_path / "o"]
    subprocess.run(link, check=True)
    assert (tmp_path / "made").read_bytes() == sectors.disk(code)[: sectors.SECTOR]


def test_the_count_is_read_from_the_disk() -> None:
    content = bytearray(sectors.disk(sectors.TICK))
    assert (sectors.count(content), len(content)) == (0, 1 << 20)
    content[sectors.SECTOR : sectors.SECTOR + 4] = (0x0102).to_bytes(4, "little")
    assert sectors.count(content) == 0x0102
