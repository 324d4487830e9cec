"""Write a file that belongs to one person: whole or not at all, never over another by mistake."""

import os
import tempfile
from pathlib import Path

from gpuguard.model.errors import GpuguardError, RefusedError


def write_file(path: Path, text: str, force: bool = False) -> None:
    """Write `text` to `path`, readable by its owner alone; a link is replaced, not followed.

    Raises:
        RefusedError: there is a file already and `force` is not set.
        GpuguardError: the file cannot be written; nothing is left half done.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        _put(path, text, force)
    except OSError as error:
        raise GpuguardError(f"{path}: cannot be written: {error.strerror}") from error


def _put(path: Path, text: str, force: bool) -> None:
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        if force:
            Path(name).replace(path)
        else:
            _link(name, path)
    finally:
        Path(name).unlink(missing_ok=True)


def _link(name: str, path: Path) -> None:
    try:
        os.link(name, path)  # unlike a rename it fails where there is a file already
    except FileExistsError as error:
        raise RefusedError(f"{path}: exists already", "add --force to replace it") from error
