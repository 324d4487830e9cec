"""A job: a named process tree on a host."""

from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Optional

from gpuguard.model.codec import Record


@dataclass(frozen=True)
class ProcessRef(Record):
    """A process that cannot be mistaken for a later one with the same number."""

    pid: int
    start_time: int  # clock ticks since boot, field 22 of /proc/PID/stat (proc(5))


class JobOrigin(str, Enum):
    """How gpuguard came to know the job."""

    LAUNCHED = "launched"
    ADOPTED = "adopted"


class JobState(str, Enum):
    """What the node sees of the job now."""

    RUNNING = "running"
    STOPPED = "stopped"  # every process is in state T: held by a procedure, or by hand
    EXITED = "exited"
    LOST = "lost"  # gone without an exit code: reboot, or its life line was killed
    MOVED = "moved"  # given away to another host; nothing of it runs here
    STALE = "stale"  # a copy with a lower epoch than the store's, stopped at contact
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class JobPolicy(Record):
    """What the node needs of a job's policy, resolved by the operator's side."""

    store: Optional[str] = None  # folder of the durable store, as the node sees it
    stage: str = "/var/lib/gpuguard/stage"
    tcp: str = "close"  # close | refuse
    capture_limit: int = 64 * 1024 * 1024  # bytes; larger open files are recorded, not copied
    stop_grace: float = 10.0  # seconds between TERM and KILL
    lease: Optional[float] = None  # seconds without its store after which the job ends itself


@dataclass(frozen=True)
class JobSpec(Record):
    """What was asked for when the job was launched or adopted."""

    name: str
    uid: str  # random, made at launch; tells jobs of one name apart in a shared store
    command: tuple[str, ...] = ()
    cwd: str = "/"
    env: dict[str, str] = field(default_factory=dict)
    user: Optional[str] = None  # None: the login user of the host
    policy_name: str = "default"


@dataclass(frozen=True)
class Job(Record):
    """A job as its node reports it."""

    spec: JobSpec
    origin: JobOrigin
    state: JobState
    epoch: int
    boot_id: str
    root: Optional[ProcessRef] = None  # host-namespace pid of the job's first process
    supervisor: Optional[ProcessRef] = None  # None: adopted and not yet restored
    namespace_pid: Optional[int] = None  # the first process inside its pid namespace
    shell_job: bool = False  # no session leader of its own: CRIU needs --shell-job for ever
    exit_code: Optional[int] = None  # negative: the signal that ended it; None: unknown
    started_at: Optional[str] = None  # UTC, ISO 8601
    log: Optional[str] = None
    processes: int = 0
    policy: JobPolicy = field(default_factory=JobPolicy)
    note: Optional[str] = None  # one sentence on a state that needs one
    held_by: Optional[dict[str, Any]] = None  # who is at work on it: kind, procedure, since, …
