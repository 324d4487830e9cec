"""A procedure: the part of a plan that runs on one node to its end."""

from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Optional

from gpuguard.model.codec import Record


class EntryState(str, Enum):
    """What a journal line says about its step."""

    BEGIN = "begin"
    DONE = "done"
    FAILED = "failed"
    UNDONE = "undone"
    PROGRESS = "progress"
    NOTE = "note"


class ProcedureState(str, Enum):
    """Where a procedure stands."""

    RUNNING = "running"
    HOLDING = "holding"  # waits for a word from the operator: go, give_away or discard
    DONE = "done"
    FAILED = "failed"  # and undone: the job is as it was before
    UNSETTLED = "unsettled"  # failed and could not be undone; `error.hint` says the way out
    ABANDONED = "abandoned"  # journal open, nobody at work on it


@dataclass(frozen=True)
class JournalEntry(Record):
    """One synced line of a procedure's journal."""

    seq: int
    at: str  # UTC, ISO 8601
    monotonic: float  # seconds, CLOCK_BOOTTIME of the node: survives a clock step
    step: str
    state: EntryState
    text: str = ""
    data: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ProcedureStatus(Record):
    """A procedure as the node reports it."""

    id: str
    kind: str
    state: ProcedureState
    started_at: str
    job: Optional[str] = None
    step: Optional[str] = None
    last_seq: int = 0
    result: Optional[dict[str, Any]] = None
    error: Optional[dict[str, Any]] = None  # GpuguardError.to_dict()


@dataclass(frozen=True)
class ProcedureRequest(Record):
    """What the operator asks a node to carry out; the same id is never done twice."""

    id: str
    kind: str
    params: dict[str, Any]
    asked_by: str = ""
    words: tuple[str, ...] = ()  # the words it may be told while it holds
