"""The bytes under a conversation: a pair of streams to a process on the host."""

import time
from collections.abc import Iterator
from typing import Protocol

TICK = 1.0  # seconds a read waits before it says that nothing came

MAX_LINE = 8 * 1024 * 1024  # bytes, docs/protocol.md


class Link(Protocol):
    """What carries the wire: an exec channel over SSH, or a child's pipes."""

    def read(self) -> bytes | None:
        """Return what came, b"" at the end, None when nothing came within TICK seconds."""
        ...

    def write(self, data: bytes, deadline: float) -> None:
        """Send all of `data` before `time.monotonic()` is `deadline`.

        Raises:
            OSError: the link is gone, or it took too long (TimeoutError).
        """
        ...

    def close(self) -> None:
        """Cut the link at once; a waiting read or write ends."""
        ...

    def ending(self) -> tuple[int | None, str]:
        """Return the process's exit status, if known, and the last it said on stderr."""
        ...


class LineTooLongError(Exception):
    """A line grew past MAX_LINE."""


class LineReader:
    """Cut a stream of bytes into lines without looking at any byte twice."""

    def __init__(self, limit: int = MAX_LINE) -> None:
        self._limit = limit
        self._held = bytearray()
        self._seen = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield each complete line, without its newline; raise LineTooLongError."""
        self._held += data
        while (end := self._held.find(b"\n", self._seen)) >= 0:
            if end > self._limit:
                raise LineTooLongError
            line = bytes(self._held[:end])
            del self._held[: end + 1]
            self._seen = 0
            yield line
        self._seen = len(self._held)
        if self._seen > self._limit:
            raise LineTooLongError


def after(seconds: float) -> float:
    """Return the monotonic time `seconds` from now."""
    return time.monotonic() + seconds
