"""Write files so that they are whole or absent, also after a lost power plug."""

import contextlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any, Optional


def sync_folder(folder: Path) -> None:
    """Sync a folder, so that names made or renamed in it survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_synced(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Write `data` to `path` by rename, synced; raises OSError and leaves `path` as it was."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def write_json(path: Path, value: Any) -> None:
    """Write `value` as JSON by rename, synced; raises OSError."""
    write_synced(path, json.dumps(value, ensure_ascii=False).encode() + b"\n")


def write_once(path: Path, text: str) -> None:
    """Write `text` to `path` synced unless it is there already: who was first counts.

    Raises:
        OSError: the folder is full, read-only or gone.
    """
    handle, temporary = tempfile.mkstemp(prefix=".new-", dir=path.parent)
    try:
        with os.fdopen(handle, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path)
    finally:
        Path(temporary).unlink()
    sync_folder(path.parent)


def read_json(path: Path) -> Optional[dict[str, Any]]:
    """Return the JSON object in `path`, None without the file; raises ValueError, OSError."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError(f"{path}: expected an object")
    return value
