"""The record beside every checkpoint: what it holds, and what it needs to come back."""

from dataclasses import dataclass, field
from typing import Any, Optional

from gpuguard.model.codec import Record
from gpuguard.model.jobs import JobOrigin, JobSpec

FORMAT_VERSION = 1
CHUNK_BYTES = 16 * 1024 * 1024  # a 244 GiB image then needs about 1 MB of hashes


@dataclass(frozen=True)
class FileHash(Record):
    """One file of the checkpoint's folder, hashed in chunks of CHUNK_BYTES."""

    path: str  # relative to the checkpoint's folder
    size: int  # bytes
    sha256: tuple[str, ...]


@dataclass(frozen=True)
class OpenFile(Record):
    """A regular file the job had open or mapped while it was frozen."""

    path: str
    size: int  # bytes, while frozen
    mode: int
    writable: bool
    append: bool
    mapped: bool = False
    deleted: bool = False
    captured: Optional[str] = None  # path below the checkpoint's folder; None: not copied
    uid: int = 0
    gid: int = 0
    locked: bool = False
    build_id: Optional[str] = None  # of a program or library, hexadecimal; None: it has none


@dataclass(frozen=True)
class ProcessRecord(Record):
    """One process of the frozen tree."""

    pid: int  # inside the job's pid namespace
    parent: int
    threads: int
    name: str
    cwd: str
    exe: str
    resident: int  # bytes
    uid: Optional[int] = None  # None: not recorded


@dataclass(frozen=True)
class Times(Record):
    """When the checkpoint passed each stage: UTC ISO 8601, and lengths in seconds."""

    frozen: str
    dumped: str
    copied: Optional[str] = None
    durable: Optional[str] = None
    freeze_seconds: float = 0.0
    copy_seconds: float = 0.0
    hash_seconds: float = 0.0


@dataclass(frozen=True)
class Manifest(Record):
    """A checkpoint on disk, written last and signed by the node that made it."""

    checkpoint: str
    job: JobSpec
    origin: JobOrigin
    host: str  # the node's name in the inventory: the signer's identity
    epoch: int
    sequence: int  # grows by one with each checkpoint of the job; with epoch it orders them
    namespace_pid: int
    shell_job: bool
    criu_options: tuple[str, ...]  # replayed at restore
    times: Times
    bytes: int
    files: tuple[FileHash, ...]
    tree: tuple[ProcessRecord, ...]
    open_files: tuple[OpenFile, ...]
    versions: dict[str, str]
    cpu_flags: tuple[str, ...] = ()
    gpus: tuple[dict[str, Any], ...] = ()
    notes: tuple[str, ...] = ()
    parent: Optional[str] = None
    format: int = FORMAT_VERSION
    log: Optional[str] = None
    listens: tuple[str, ...] = ()  # "tcp 0.0.0.0:29500": what must be free where it comes back


@dataclass(frozen=True)
class CheckpointInfo(Record):
    """One line of a store's list."""

    checkpoint: str
    job: str
    uid: str
    host: str
    epoch: int
    sequence: int
    frozen: str
    durable: Optional[str]
    bytes: int
    path: str
    state: str  # durable | partial | broken | outdated
    problem: Optional[str] = None
    notes: tuple[str, ...] = field(default_factory=tuple)
