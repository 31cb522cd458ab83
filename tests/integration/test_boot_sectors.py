from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.testbed import churn, counter


@pytest.mark.parametrize(("source", "made"), [("tick", counter.boot_sector()), ("churn", churn.boot_sector())])
def test_the_code_of_an_instance_is_that_of_its_source(tmp_path: Path, source: str, made: bytes) -> None:
    if not (shutil.which("as") and shutil.which("ld")):
        pytest.skip("no assembler here: apt-get install binutils")
    path = Path(churn.__file__).with_name(f"{source}.S")
    subprocess.run(["as", "--32", "-o", "object", path], check=True, cwd=tmp_path)
    link = "ld -m elf_i386 --oformat binary -Ttext 0x7c00 -o made object"
    subprocess.run(link.split(), check=True, cwd=tmp_path)
    content = (tmp_path / "made").read_bytes()
    assert made[:-2].startswith(content[:510].rstrip(b"\0"))
    assert (len(made), made[-2:]) == (512, b"\x55\xaa")
