"""The agent as one archive: the rooms that travel to a node, named by their hash."""

import gzip
import hashlib
import importlib.util
import io
import tarfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import gpuguard
from gpuguard.model.errors import GpuguardError

_ROOMS = ("agent", "model", "checkpoint", "health")


@dataclass(frozen=True)
class Bundle:
    """The archive; `sha256` is that of the tar file, whatever packs it."""

    tar: bytes

    @cached_property
    def sha256(self) -> str:
        """The name of the agent's folder on a node."""
        return hashlib.sha256(self.tar).hexdigest()

    @cached_property
    def packed(self) -> bytes:
        """The tar file as it is sent."""
        return gzip.compress(self.tar, compresslevel=6, mtime=0)


def make_bundle() -> Bundle:
    """Pack this installation's agent; the same files give the same bytes.

    Raises:
        GpuguardError: a part of the installation is missing.
    """
    return pack(_package_files(Path(gpuguard.__file__).parent) | {"pynvml.py": _pynvml()})


def pack(files: dict[str, Path]) -> Bundle:
    """Return the bundle of `files`, path in the archive to path here."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name in sorted(files):
            data = files[name].read_bytes()
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            entry.mode = 0o600
            archive.addfile(entry, io.BytesIO(data))
    return Bundle(out.getvalue())


def _package_files(package: Path) -> dict[str, Path]:
    files = {"gpuguard/__init__.py": package / "__init__.py"}
    for room in _ROOMS:
        for path in (package / room).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                files[f"gpuguard/{path.relative_to(package)}"] = path
    return files


def _pynvml() -> Path:
    spec = importlib.util.find_spec("pynvml")
    if spec is None or spec.origin is None:
        raise GpuguardError(
            "the Python module pynvml is not installed", "install it: pip install nvidia-ml-py"
        )
    return Path(spec.origin)
