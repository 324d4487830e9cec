"""An operation: one command that changed something, as the operator's journal keeps it."""

from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Optional

from gpuguard.model.codec import Record


class OperationState(str, Enum):
    """How an operation stands or ended."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    PARTIAL = "partial"
    INTERRUPTED = "interrupted"  # by Ctrl-C or SIGTERM, cleaned up after
    ABANDONED = "abandoned"  # its process died; the nodes finish or undo on their own


@dataclass(frozen=True)
class OperationStep(Record):
    """One thing that was seen or done during an operation."""

    seq: int
    at: str  # UTC, ISO 8601
    host: str
    step: str
    state: str  # an EntryState, or a word of the operator's side: asked, told, lost, found
    text: str = ""
    job: Optional[str] = None
    procedure: Optional[str] = None
    seconds: Optional[float] = None


@dataclass(frozen=True)
class Operation(Record):
    """One line of the operator's journal."""

    id: str
    verb: str
    jobs: tuple[str, ...]
    state: OperationState
    started_at: str
    ended_at: Optional[str] = None
    asked_by: str = ""  # user@machine
    pid: int = 0
    exit_code: Optional[int] = None
    error: Optional[dict[str, Any]] = None
    result: Optional[dict[str, Any]] = None
    plan: dict[str, Any] = field(default_factory=dict)
    steps: tuple[OperationStep, ...] = ()
