"""What was seen before planning: hosts, the jobs on them, and a job's store."""

from dataclasses import dataclass, field

from gpuguard.model.codec import Record
from gpuguard.model.cordons import Cordon
from gpuguard.model.jobs import Job, JobState
from gpuguard.model.manifests import CheckpointInfo, Manifest
from gpuguard.model.plans import Finding

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
class PowerSight(Record):
    """What the configured power command says of a host."""

    state: str | None = None  # on | off; None: it could not be asked
    problem: str | None = None  # why not
    can_switch: bool = False  # the inventory says how to switch it off


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
    power: PowerSight | None = None  # None: not asked
    scheduler: str | None = None  # why the scheduler holds that nothing runs there any more

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

    def without(self, host: str) -> "FleetView":
        """Return the view of all other hosts."""
        return FleetView({name: view for name, view in self.hosts.items() if name != host})

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
    void: bool = False  # its copy was ended before it ever ran, and its host wrote that down


@dataclass(frozen=True)
class LeaseSight(Record):
    """The lease a job keeps in its store, watched on our own clock."""

    epoch: int
    host: str
    seconds: float  # its term: unrenewed for so long, the job has ended itself
    watched: float = 0.0  # seconds it was watched
    moved: bool = False  # it was renewed meanwhile


@dataclass(frozen=True)
class StoreView:
    """A job's folder in its store, seen from one host."""

    path: str
    checkpoints: tuple[CheckpointInfo, ...] = ()
    holder: EpochHolder | None = None
    manifest: Manifest | None = None  # of the checkpoint, or of the running job to be moved
    lease: LeaseSight | None = None  # None: the job keeps none, or nobody looked
    sees: dict[str, bool] = field(default_factory=dict)  # host -> finds what this view shows
    problems: dict[str, str] = field(default_factory=dict)  # host -> why it cannot look
    verdicts: dict[str, tuple[Finding, ...]] = field(default_factory=dict)  # host -> rule by rule
