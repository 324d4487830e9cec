"""What a host is at the moment it is asked whether a job can come back on it."""

from dataclasses import dataclass, field
from typing import Optional

from gpuguard.checkpoint.file_decisions import FileDecision


@dataclass(frozen=True)
class ProgramSeen:
    """A program or library as it lies on the host."""

    size: int  # bytes
    build_id: Optional[str] = None


@dataclass(frozen=True)
class Room:
    """A file system that files are put on."""

    folder: str
    need: int  # bytes
    free: int  # bytes


@dataclass(frozen=True)
class HostSeen:
    """The facts that the rules compare with a manifest."""

    name: str  # in the inventory
    arch: str
    kernel: str
    criu: Optional[str] = None
    criu_problem: Optional[str] = None  # why this CRIU cannot be used on this kernel
    cpu_flags: tuple[str, ...] = ()
    memory_available: int = 0  # bytes
    now: str = ""  # UTC, ISO 8601
    job_uid: Optional[int] = None  # of the job's user here; None: there is no such user
    programs: dict[str, ProgramSeen] = field(default_factory=dict)  # those that are there
    files: tuple[FileDecision, ...] = ()
    locks: tuple[str, ...] = ()  # one sentence each
    blocked: tuple[str, ...] = ()  # no folder, where a working directory was
    rooms: tuple[Room, ...] = ()
    taken: dict[str, str] = field(default_factory=dict)  # port of the job → who has it
    addresses_missing: tuple[str, ...] = ()
