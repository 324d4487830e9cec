"""The lock of a sandbox or of the base cache, shared with the tools its holder starts."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gpuguard.model.errors import BusyError

# Tools inherit these, so that a lock stays taken until the last tool of a killed command has ended
# and nothing is half made any more.
_held: set[int] = set()


def held_descriptors() -> tuple[int, ...]:
    """Return the descriptors of all locks this process holds, to be passed to tools."""
    return tuple(_held)


@contextmanager
def locked(path: Path, wait: bool = True) -> Iterator[None]:
    """Hold the lock file `path` for the block; raise BusyError if `wait` is false and it is taken.

    The file may be deleted by its holder; the folder must exist.
    """
    descriptor = _take(path, wait)
    _held.add(descriptor)
    try:
        yield
    finally:
        _held.discard(descriptor)
        os.close(descriptor)


def _take(path: Path, wait: bool) -> int:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
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
