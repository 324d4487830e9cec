"""System V shared memory that a checkpoint cannot take along."""

from collections.abc import Iterable
from pathlib import Path
from typing import Optional


def host_memory_segments(pids: Iterable[int]) -> list[str]:
    """Return the segments of our own IPC namespace that the processes have mapped.

    CRIU saves segments only together with an IPC namespace that is not its own.
    """
    ours = _namespace("self")
    found: set[str] = set()
    for pid in pids:
        if _namespace(str(pid)) == ours:
            found.update(_segments(pid))
    return sorted(found)


def _segments(pid: int) -> Iterable[str]:
    try:
        lines = Path(f"/proc/{pid}/maps").read_text(errors="replace").splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return []  # ended meanwhile
    rows = (line.split(None, 5) for line in lines if "/SYSV" in line)
    # The inode of such a mapping is the segment's id.
    return [f"shmid {row[4]}" for row in rows if len(row) > 5 and row[5].startswith("/SYSV")]


def _namespace(pid: str) -> Optional[str]:
    try:
        return str(Path(f"/proc/{pid}/ns/ipc").readlink())
    except (FileNotFoundError, ProcessLookupError):
        return None
