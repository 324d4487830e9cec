"""What was seen before planning: hosts, the jobs on them, and a job's store."""

from dataclasses import dataclass, field

from gpuguard.model.codec import Record
from gpuguard.model.cordons import Cordon
from gpuguard.model.jobs import Job, JobPolicy, JobState
from gpuguard.model.manifests import CheckpointInfo, Manifest

LIVE = frozenset({JobState.RUNNING, JobState.STOPPED, JobState.UNKNOWN})
GONE = frozenset({JobState.EXITED, JobState.LOST, JobState.MOVED, JobState.STALE})


@dataclass(frozen=True)
class HostFacts(Record):
    """What `host.info` says of a host, as far as planning needs it."""

    boot_id: str
    kernel: str
    arch: str
    criu: str | None = None
    cpu_flags: tuple[str, ...] = ()
    memory_total: int | None = None  # bytes
    memory_available: int | None = None  # bytes
    signing_key: str | None = None


@dataclass(frozen=True)
class HostView(Record):
    """One host: what it answered, or why it did not."""

    name: str
    reachable: bool
    problem: str | None = None  # why it is not reachable, in one sentence
    hint: str | None = None  # the next command, when it is not reachable
    facts: HostFacts | None = None
    jobs: tuple[Job, ...] = ()
    cordons: tuple[Cordon, ...] = ()  # of a silent host: those that are remembered

    def job(self, name: str) -> Job | None:
        """Return the job `name` on this host, None if the host does not know it."""
        return next((job for job in self.jobs if job.spec.name == name), None)


@dataclass(frozen=True)
class Placed:
    """A job and the host that reports it."""

    host: str
    job: Job

    @property
    def live(self) -> bool:
        """Tell whether a process of it may still be there."""
        return self.job.state in LIVE


@dataclass(frozen=True)
class FleetView:
    """All hosts that were asked, by name, in the inventory's order."""

    hosts: dict[str, HostView] = field(default_factory=dict)

    def places(self, job: str) -> list[Placed]:
        """Return every host's record of `job`, live ones and high epochs first."""
        found = [
            Placed(view.name, record)
            for view in self.hosts.values()
            if (record := view.job(job)) is not None
        ]
        return sorted(found, key=lambda place: (not place.live, -place.job.epoch))

    def unreachable(self) -> list[HostView]:
        """Return the hosts that did not answer."""
        return [view for view in self.hosts.values() if not view.reachable]

    def names(self) -> list[str]:
        """Return the names of all jobs seen, sorted."""
        return sorted({job.spec.name for view in self.hosts.values() for job in view.jobs})


@dataclass(frozen=True)
class EpochHolder(Record):
    """The highest epoch record of a job in its store: who is the job."""

    epoch: int
    host: str
    uid: str
    at: str


@dataclass(frozen=True)
class StoreView:
    """A job's folder in its store, seen from one host."""

    path: str
    checkpoints: tuple[CheckpointInfo, ...] = ()
    holder: EpochHolder | None = None
    manifest: Manifest | None = None  # of the checkpoint that would be restored
    sees: dict[str, bool] = field(default_factory=dict)  # host -> finds what this view shows
    problems: dict[str, str] = field(default_factory=dict)  # host -> why it cannot look


@dataclass(frozen=True)
class JobNeeds:
    """What a host must offer to take the job over."""

    arch: str
    kernel: str
    criu: str | None
    memory: int  # bytes
    cpu_flags: tuple[str, ...] = ()
    policy: JobPolicy = field(default_factory=JobPolicy)
