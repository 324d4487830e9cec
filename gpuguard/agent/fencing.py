"""First contact: a copy of a job whose store knows a higher epoch is stopped."""

import dataclasses
import threading
from pathlib import Path

from gpuguard.agent import jobs
from gpuguard.agent.locks import job_lock
from gpuguard.agent.paths import NodePaths
from gpuguard.agent.places import log_exception
from gpuguard.agent.stopping import kill_job
from gpuguard.model.errors import BusyError, GpuguardError
from gpuguard.model.jobs import Job, JobState

_SECONDS = 2.0  # a dead network mount must not keep the agent from answering


def fence_stale(paths: NodePaths) -> list[str]:
    """Stop every stale copy on this node; return the names of those jobs.

    A store that does not answer in time proves nothing: its jobs are left as they are.
    """
    watched = [job for job in jobs.list_jobs(paths) if _can_be_stale(job)]
    if not watched:
        return []
    stopped: list[str] = []
    worker = threading.Thread(target=_fence_all, args=(paths, watched, stopped), daemon=True)
    worker.start()
    worker.join(_SECONDS)
    return list(stopped)


def _fence_all(paths: NodePaths, watched: list[Job], stopped: list[str]) -> None:
    for job in watched:
        try:
            if _is_stale(job) and _stop(paths, job.spec.name):
                stopped.append(job.spec.name)
        except (OSError, GpuguardError):
            log_exception()


def _stop(paths: NodePaths, name: str) -> bool:
    try:
        # A procedure at work on the job may be about to write its new epoch down.
        with job_lock(paths, name, "fencing", wait=0):
            job = jobs.load_job(paths, name)
            if not (_can_be_stale(job) and _is_stale(job)):
                return False
            kill_job(job)
            note = "stopped: the store knows a later copy of this job on another host"
            jobs.save_job(paths, dataclasses.replace(job, state=JobState.STALE, note=note))
            return True
    except BusyError:
        return False


def _can_be_stale(job: Job) -> bool:
    return job.state in (JobState.RUNNING, JobState.STOPPED) and job.policy.store is not None


def _is_stale(job: Job) -> bool:
    from gpuguard.agent.epochs import highest_epoch

    highest = highest_epoch(Path(job.policy.store or "") / job.spec.name)
    return highest is not None and highest.uid == job.spec.uid and highest.epoch > job.epoch
