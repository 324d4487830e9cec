"""A job's log: its end, and what is added to it, also across rotation and truncation."""

import codecs
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Callable, Optional

_BLOCK = 64 * 1024  # bytes
_POLL_SECONDS = 0.1


def tail_start(file: BinaryIO, lines: int) -> int:
    """Return the offset at which the last `lines` lines of `file` begin."""
    position = end = file.seek(0, os.SEEK_END)
    if lines <= 0:
        return end
    missing = lines
    while position > 0:
        start = max(0, position - _BLOCK)
        file.seek(start)
        block = file.read(position - start)
        # The newline that ends the file ends the last line; it does not begin another.
        limit = len(block) - 1 if position == end and block.endswith(b"\n") else len(block)
        while (found := block.rfind(b"\n", 0, limit)) >= 0:
            missing -= 1
            if missing <= 0:
                return start + found + 1
            limit = found
        position = start
    return 0


class LogReader:
    """Reads a log from an offset on; follows it to a new file or back to its start."""

    def __init__(self, path: Path, lines: int) -> None:
        self._path = path
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._file: Optional[BinaryIO] = None
        self._open()
        if self._file is not None:
            self._file.seek(tail_start(self._file, lines))

    def read(self) -> Iterator[str]:
        """Yield what is there beyond the last read, in pieces."""
        yield from self._rest()
        if self._moved():
            # What was written to the old file between the two looks must not be lost.
            yield from self._rest()
            self.close()
            self._open()
            yield from self._rest()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self) -> None:
        try:
            self._file = self._path.open("rb", buffering=0)
        except FileNotFoundError:
            self._file = None

    def _rest(self) -> Iterator[str]:
        if self._file is None:
            return
        if os.fstat(self._file.fileno()).st_size < self._file.tell():
            self._file.seek(0)
        while data := self._file.read(_BLOCK):
            text = self._decoder.decode(data)
            if text:
                yield text

    def _moved(self) -> bool:
        try:
            now = self._path.stat()
        except FileNotFoundError:
            return False
        if self._file is None:
            return True
        mine = os.fstat(self._file.fileno())
        return (now.st_dev, now.st_ino) != (mine.st_dev, mine.st_ino)


def send_log(
    reader: LogReader,
    send: Callable[[str], None],
    pause: Callable[[float], None],
    ended: Optional[Callable[[], bool]] = None,
) -> None:
    """Send what the log holds; with `ended`, go on until it says so and nothing is left."""
    try:
        while True:
            over = ended is None or ended()
            for text in reader.read():
                send(text)
            if over:
                return
            pause(_POLL_SECONDS)
    finally:
        reader.close()
