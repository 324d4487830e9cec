"""Read CRIU's log lines: level, process, text; tell noise and consequences from causes."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Optional

# "(00.002201)    102: Error (criu/files-reg.c:2175): File …"; file and line move with each release.
_CRIU = re.compile(
    r"^(?P<front>.*?)\b(?P<level>Error|Warn|Info|Debug)\s*\([^()\s]+:\d+\):\s?(?P<text>.*)$"
)
_FRONT_PID = re.compile(r"(?:^|[\s)])(\d{1,10}):\s*$")
_PLAIN_ERROR = re.compile(r"^\s*(?:error|fatal)\s*:", re.IGNORECASE)
_PLAIN_FRONT = re.compile(r"^\(\d+\.\d+\)\s*(?:(?P<pid>\d{1,10}):\s)?\s*(?P<text>.*)$")

_NOISE = re.compile(
    r"Unable to create tun\b"
    r"|Can't setup RLIMIT_NOFILE for self"
    r"|retrieve (?:the )?restore tid: Could not find restore thread"
    r"|Unable to detach from \d+: No such process"
    r"|Will restore \d+ with interrupted system call"
    r"|Stale \S*criu\.kdat\b"
)

# What CRIU prints on its way out after the true cause.
_CONSEQUENCE = re.compile(
    r"(?:Pre-dumping|Dumping|Restoring) FAILED"
    r"|\(pid: \d+\) failed with"
    r"|Unable to open fd=\d+ id="
    r"|Can't open vma\b"
    r"|Can't open \d+'s mapfile link"
    r"|^exited, status="
    r"|\b\d+ (?:exited, status=|killed by signal|stopped by signal)"
    r"|Unseizable non-zombie"
    r"|bfd: Error flushing image|Error flushing image"
    r"|One (?:of|or) more action scripts failed"
    r"|Killing processes because of failure|Can't catch all tasks"
    r"|Pagemap data is already invalid|Can't write pages\b.*(?:-1|failed)$"
    r"|Failed to unlock process status"
)

_VERSION = re.compile(r"^Version: (\d[\w.]*)")
_KERNEL = re.compile(r"^Running on \S+ Linux (\d\S*)")

VERDICTS = {
    "Dumping finished successfully": "dump_ok",
    "Dumping FAILED": "dump_failed",
    "Restore finished successfully": "restore_ok",
    "Restoring FAILED": "restore_failed",
}


@dataclass(frozen=True)
class LogLine:
    """One line of a log; `level` is None where it is no line of CRIU's own log."""

    raw: str
    text: str
    level: Optional[str] = None
    pid: Optional[int] = None


def read_lines(lines: Iterable[str]) -> tuple[LogLine, ...]:
    """Return the non-empty lines in order; an item that holds several lines is split."""
    whole = [lines] if isinstance(lines, str) else lines
    return tuple(
        read_line(part) for item in whole for part in str(item).splitlines() if part.strip()
    )


def read_line(raw: str) -> LogLine:
    """Return level, process and text of one line."""
    raw = raw.strip()
    match = _CRIU.match(raw)
    if match:
        pid = _FRONT_PID.search(match["front"])
        number = int(pid[1]) if pid else None
        return LogLine(raw, match["text"].strip(), match["level"], number)
    plain = _PLAIN_FRONT.match(raw)
    text = plain["text"] if plain else raw
    pid_text = plain["pid"] if plain else None
    level = "Error" if _PLAIN_ERROR.match(text) else ("Info" if plain else None)
    return LogLine(raw, text, level, int(pid_text) if pid_text else None)


def is_noise(line: LogLine) -> bool:
    """Tell whether the line appears in successful runs as well."""
    return _NOISE.search(line.text) is not None


def is_consequence(line: LogLine) -> bool:
    """Tell whether the line only follows from an earlier one."""
    return _CONSEQUENCE.search(line.text) is not None


def find_verdict(lines: Iterable[LogLine]) -> Optional[str]:
    """Return the last verdict of the log: dump_ok, dump_failed, restore_ok, restore_failed."""
    found = None
    for line in lines:
        for words, verdict in VERDICTS.items():
            if words in line.text:
                found = verdict
    return found


def find_versions(lines: Iterable[LogLine]) -> dict[str, str]:
    """Return the versions of CRIU and of the kernel that the head of a log states."""
    found: dict[str, str] = {}
    for line in lines:
        for name, pattern in (("criu", _VERSION), ("kernel", _KERNEL)):
            match = pattern.match(line.text)
            if match and name not in found:
                found[name] = match[1]
    return found
