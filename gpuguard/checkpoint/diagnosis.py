"""Find the cause in a CRIU log: the first error that is not noise."""

import re
from collections.abc import Iterable
from typing import Optional

_ERROR = re.compile(r"\A\([0-9.]+\)\s+(?:(?P<pid>[0-9]+):\s+)?Error\s+(?P<text>\(.*)\Z")
# Seen in runs that succeeded, or always the consequence of an earlier line.
_NOISE = (
    "tun: Unable to create tun",
    "rlimit: Can't setup RLIMIT_NOFILE for self",
    "Could not find restore thread",
    "Unable to detach from",
    "Dumping FAILED",
    "Restoring FAILED",
)
# CRIU reports these as warnings although nothing else says why it gave up.
_CAUSAL_WARNINGS = ("Unable to interrupt task:", "Timeout reached. Try to interrupt")
_WARNING = re.compile(r"\A\([0-9.]+\)\s+(?:[0-9]+:\s+)?Warn\s+(?P<text>\(.*)\Z")


def first_error(lines: Iterable[str]) -> Optional[str]:
    """Return CRIU's first error that is no noise, without its time stamp; None if there is none."""
    warning = None
    for line in lines:
        text = _error_text(line)
        if text is not None:
            return text
        warning = warning or _warning_text(line)
    return warning


def finished(lines: Iterable[str]) -> bool:
    """Tell whether the log ends with CRIU's own word of success."""
    return any(
        "Dumping finished successfully" in line or "Restore finished successfully" in line
        for line in lines
    )


def _error_text(line: str) -> Optional[str]:
    match = _ERROR.match(line.rstrip("\n"))
    if match is None or any(noise in line for noise in _NOISE):
        return None
    return match.group("text")


def _warning_text(line: str) -> Optional[str]:
    match = _WARNING.match(line.rstrip("\n"))
    if match is None or not any(cause in line for cause in _CAUSAL_WARNINGS):
        return None
    return match.group("text")
