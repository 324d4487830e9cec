"""Time on a node: UTC for people, CLOCK_BOOTTIME for lengths, the boot id for reboots."""

import time
from datetime import datetime, timezone
from pathlib import Path


def utc_now() -> str:
    """Return the time now, UTC, ISO 8601 with milliseconds."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def boottime() -> float:
    """Return the seconds since boot, sleep included: no clock step moves it."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def boot_id() -> str:
    """Return the kernel's id of this boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
