"""Keep CRIU's logs at a size that can be read and stored."""

import os
from pathlib import Path

KEPT_BYTES = 1024 * 1024  # of the beginning, and again of the end


def trim_log(log: Path, kept: int = KEPT_BYTES) -> None:
    """Cut the middle out of a log that is longer than twice `kept` bytes.

    The cause of a failure stands near the beginning, what it came to at the end.

    Raises:
        OSError: the log cannot be written.
    """
    try:
        size = log.stat().st_size
    except FileNotFoundError:
        return
    if size <= 2 * kept:
        return
    with log.open("r+b") as file:
        file.seek(size - kept)
        tail = file.read(kept).partition(b"\n")[2]
        file.seek(kept)
        file.write(f"\n[{size - 2 * kept} bytes left out]\n".encode() + tail)
        file.truncate()
        os.fsync(file.fileno())
