"""End a job: ask with TERM, then KILL, always the very processes that were meant."""

import signal
import time

from gpuguard.agent import processes
from gpuguard.agent.jobs import register as jobs
from gpuguard.agent.locks import job_lock
from gpuguard.agent.paths import NodePaths
from gpuguard.model.errors import GpuguardError
from gpuguard.model.jobs import Job, ProcessRef

_KILL_SECONDS = 10.0
_POLL_SECONDS = 0.02


def stop_job(paths: NodePaths, name: str, grace: float) -> Job:
    """End the job: TERM to its whole tree, KILL after `grace` seconds; return it as it is then.

    Raises:
        BusyError: a procedure holds the job.
        GpuguardError: a process could not be killed.
    """
    jobs.stored_job(paths, name)
    with job_lock(paths, name, "jobs.stop"):
        job = jobs.load_job(paths, name)
        if job.state not in jobs.ENDED and job.root is not None:
            _ask(job.root, grace)
            kill_job(job)
        job = jobs.load_job(paths, name)
        jobs.save_job(paths, job)
        return job


def kill_job(job: Job) -> None:
    """Kill the job's whole tree at once; raises GpuguardError if something of it stays."""
    if job.root is None:
        return
    known: set[ProcessRef] = set()
    deadline = time.monotonic() + _KILL_SECONDS
    while True:
        known |= members_of(job.root)
        left = {ref for ref in known if processes.alive(ref)}
        if not left:
            break
        for ref in left:
            processes.send_signal(ref, signal.SIGKILL)
        if time.monotonic() > deadline:
            raise _unkillable(job, left)
        time.sleep(_POLL_SECONDS)
    if job.supervisor:
        processes.wait_gone(job.supervisor, _KILL_SECONDS)


def members_of(root: ProcessRef) -> set[ProcessRef]:
    """Return the living processes of the tree; empty if this very root is gone."""
    if processes.start_time(root.pid) != root.start_time:
        return set()
    return {entry.ref for entry in processes.tree(root.pid)}


def _ask(root: ProcessRef, grace: float) -> None:
    members = members_of(root)
    for number in (signal.SIGTERM, signal.SIGCONT):
        for ref in members:
            processes.send_signal(ref, number)
    deadline = time.monotonic() + grace
    while any(processes.alive(ref) for ref in members) and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)


def _unkillable(job: Job, left: set[ProcessRef]) -> GpuguardError:
    states = processes.states(ref.pid for ref in left)
    text = ", ".join(f"{pid} ({state})" for pid, state in sorted(states.items()))
    return GpuguardError(
        f"job {job.spec.name}: processes that cannot be killed: {text}",
        "a process in state D waits for a driver or a disk; look at the kernel log",
    )
