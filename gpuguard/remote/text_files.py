"""Small text files that two of us may write at once: locked, whole or not at all, no links."""

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of `path` (a file `.NAME.lock` beside it) against other writers."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = os.open(path.with_name(f".{path.name}.lock"), flags, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def read_lines(path: Path) -> list[str]:
    """Return the lines of `path`, none if there is no such file; raise OSError."""
    _refuse_link(path)
    try:
        return path.read_bytes().decode("utf-8", "surrogateescape").splitlines()
    except FileNotFoundError:
        return []


def replace_text(path: Path, text: str) -> None:
    """Put `text` in place of what `path` holds, synced; raise OSError.

    The file keeps its mode, without what lets others write; a new one gets 0600.
    """
    _refuse_link(path)
    mode = path.stat().st_mode & 0o755 if path.exists() else 0o600
    temporary = path.with_name(f".{path.name}.{os.getpid()}.new")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = os.open(temporary, flags, 0o600)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(text.encode("utf-8", "surrogateescape"))
            stream.flush()
            os.fchmod(stream.fileno(), mode)
            os.fsync(stream.fileno())
        temporary.rename(path)
    finally:
        temporary.unlink(missing_ok=True)
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _refuse_link(path: Path) -> None:
    if path.is_symlink():
        raise OSError(errno.ELOOP, "it is a symbolic link; name the file itself")
