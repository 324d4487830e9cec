"""A few facts about this host that a restore is judged by."""

from pathlib import Path


def cpu_flags() -> tuple[str, ...]:
    """Return the features of the first CPU, sorted; empty where the kernel does not say."""
    with Path("/proc/cpuinfo").open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if line.startswith(("flags", "Features")):
                return tuple(sorted(line.partition(":")[2].split()))
    return ()


def memory_available() -> int:
    """Return the bytes of memory that can be used without swapping."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0
