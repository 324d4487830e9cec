"""The status file a job's supervisor writes: how the job stands, as seen by its parent."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class JobStatus:
    """One of: running PID, exit CODE, signal NUMBER, lapsed REASON, failed REASON; or kind ""."""

    kind: str = ""
    number: int = 0
    text: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.text or self.number}".strip() or "no status"


def read_status(path: Path) -> JobStatus:
    """Return the status in `path`; without a file, or with a broken one, kind is empty."""
    try:
        kind, _, rest = path.read_text(encoding="utf-8", errors="replace").strip().partition(" ")
    except FileNotFoundError:
        return JobStatus()
    if kind in ("failed", "lapsed"):
        return JobStatus(kind, text=rest)
    if kind in ("running", "exit", "signal") and rest.isdigit():
        return JobStatus(kind, int(rest))
    return JobStatus()
