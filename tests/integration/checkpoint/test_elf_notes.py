"""Build ids as binutils reads them."""

import shutil
import subprocess
from pathlib import Path

import pytest

from gpuguard.checkpoint.elf_notes import build_id
from tests.unit.checkpoint.elf_bytes import reader


def libraries() -> list[Path]:
    names = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines()}
    return sorted(Path(name) for name in names if ".so" in name and Path(name).is_file())[:8]


@pytest.mark.skipif(shutil.which("readelf") is None, reason="needs binutils")
@pytest.mark.parametrize("path", libraries(), ids=lambda path: path.name)
def test_the_same_as_readelf_says(path: Path) -> None:
    said = subprocess.run(["readelf", "-n", path], capture_output=True, text=True, check=True)
    ids = [line.split()[-1] for line in said.stdout.splitlines() if "Build ID:" in line]
    assert build_id(reader(path.read_bytes())) == (ids[0] if ids else None)
