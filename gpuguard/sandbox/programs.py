"""Packs the workloads into programs that a practice host finds on its PATH."""

import io
import zipfile
from pathlib import Path

_PACKAGE = "gpuguard/sandbox/workloads"
_SHEBANG = b"#!/usr/bin/python3\n"
_MAIN = """\
import sys
from gpuguard.sandbox.workloads.{name} import parse, run
sys.exit(run(parse(sys.argv[1:])))
"""
PROGRAMS = ("steps",)
FOLDER = "usr/local/bin"


def install_programs(disk: Path) -> None:
    """Write every workload into a host's disk as a program, in one go each."""
    folder = disk / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for name in PROGRAMS:
        partial = folder / f".{name}.partial"
        partial.write_bytes(_packed(name))
        partial.chmod(0o755)
        partial.rename(folder / name)


def _packed(name: str) -> bytes:
    """Return a Python zip program with the workloads under their own package names."""
    archive = io.BytesIO(_SHEBANG)
    archive.seek(0, io.SEEK_END)
    with zipfile.ZipFile(archive, "a") as packed:
        for package in ("gpuguard", "gpuguard/sandbox"):
            packed.writestr(f"{package}/__init__.py", "")
        for path in sorted((Path(__file__).parent / "workloads").glob("*.py")):
            packed.writestr(f"{_PACKAGE}/{path.name}", path.read_bytes())
        packed.writestr("__main__.py", _MAIN.format(name=name))
    return archive.getvalue()
