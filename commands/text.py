"""Small pieces of text: sizes, lengths of time, ages, and words that came from elsewhere."""

import shlex
import signal
from collections.abc import Sequence
from datetime import UTC, datetime

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def clean(text: str) -> str:
    """Return `text` with control characters shown, so that data cannot drive the terminal."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def shell_words(words: Sequence[str]) -> str:
    """Return `words` as one would type them in a shell, control characters shown."""
    return clean(shlex.join(words))


def counted(number: int, noun: str) -> str:
    """Return `number` with `noun` in its right form, as in ``1 line`` or ``2 policies``."""
    if number == 1:
        return f"{number} {noun}"
    many = f"{noun[:-1]}ies" if noun.endswith("cy") else f"{noun}s"
    return f"{number} {many}"


def ending(exit_code: int | None) -> str:
    """Return how a process ended, as in ``7`` or ``SIGKILL``; empty if nobody knows."""
    if exit_code is None:
        return ""
    if exit_code >= 0:
        return str(exit_code)
    try:
        return signal.Signals(-exit_code).name
    except ValueError:  # a real-time signal has no name of its own
        return f"signal {-exit_code}"


def size(count: int | float | None) -> str:
    """Return a number of bytes for people, as in ``1.5 GiB``."""
    if count is None:
        return "?"
    value = float(count)
    for unit in _UNITS:
        if value < 1024 or unit == _UNITS[-1]:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return "?"


def seconds(value: float | None) -> str:
    """Return a length of time in seconds for people, as in ``0.56 s`` or ``12m31s``."""
    if value is None:
        return "?"
    if value < 60:
        return f"{value:.2f} s" if value < 10 else f"{value:.1f} s"
    whole = int(value)
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
    return f"{whole // 86400}d{whole % 86400 // 3600:02d}h"


def age(stamp: str | None, now: datetime | None = None) -> str:
    """Return how long ago the ISO 8601 time `stamp` was, as in ``7m12s``."""
    if not stamp:
        return "?"
    try:
        then = datetime.fromisoformat(stamp)
    except ValueError:
        return "?"
    if then.tzinfo is None:
        then = then.replace(tzinfo=UTC)
    passed = ((now or datetime.now(UTC)) - then).total_seconds()
    return f"{passed:.0f} s" if 0 <= passed < 60 else seconds(max(passed, 0.0))
