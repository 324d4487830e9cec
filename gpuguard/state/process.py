"""Tell a process of this machine from a later one with the same number."""

from pathlib import Path


def start_time(pid: int) -> int | None:
    """Return when `pid` started, in clock ticks since boot (proc(5), field 22); None if gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The name in field 2 may hold spaces and brackets: count from the last bracket.
    return int(text.rpartition(")")[2].split()[19])
