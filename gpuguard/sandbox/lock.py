"""The lock of a sandbox or of the base cache, shared with the tools its holder starts."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gpuguard.model.errors import BusyError, GpuguardError

# Tools inherit these, so that a lock stays taken until the last tool of a killed command has ended
# and nothing is half made any more.
_held: set[int] = set()


def held_descriptors() -> tuple[int, ...]:
    """Return the descriptors of all locks this process holds, to be passed to tools."""
    return tuple(_held)


@contextmanager
def locked(path: Path, wait: bool = True, make_folder: bool = False) -> Iterator[None]:
    """Hold the lock file `path` for the block.

    Its holder may delete the file, and the folder with it. Raises BusyError if `wait` is false and
    it is taken, GpuguardError if there is no folder and `make_folder` is false.
    """
    descriptor = _take(path, wait, make_folder)
    _held.add(descriptor)
    try:
        yield
    finally:
        _held.discard(descriptor)
        os.close(descriptor)


def _take(path: Path, wait: bool, make_folder: bool) -> int:
    while True:
        descriptor = _open(path, make_folder)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            # Whoever held it before may have deleted it: then this lock guards nothing.
            if path.exists() and os.path.samestat(path.stat(), os.fstat(descriptor)):
                return descriptor
        except BlockingIOError:
            os.close(descriptor)
            raise BusyError(
                f"{path}: another command works on this", "wait for it to end and try again"
            ) from None
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _open(path: Path, make_folder: bool) -> int:
    while True:
        try:
            return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:
            if not make_folder:
                raise GpuguardError(
                    f"{path.parent} is gone", "gpuguard sandbox status shows what there is"
                ) from None
            path.parent.mkdir(parents=True, exist_ok=True)
