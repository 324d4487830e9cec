"""Records of jobs."""

from dataclasses import replace

from gpuguard.agent import processes
from gpuguard.agent.clock import boot_id
from gpuguard.model.jobs import Job, JobOrigin, JobPolicy, JobSpec, JobState


def job_of(pid: int, tcp: str = "close", **changes: object) -> Job:
    """Return the record of an adopted job with `pid` as its first process."""
    root = processes.ref(pid)
    job = Job(
        spec=JobSpec("odd", uid="u-1"),
        origin=JobOrigin.ADOPTED,
        state=JobState.RUNNING,
        epoch=1,
        boot_id=boot_id(),
        root=root,
        namespace_pid=pid,
        policy=JobPolicy(tcp=tcp, capture_limit=1 << 20),
    )
    return replace(job, **changes)  # type: ignore[arg-type]
