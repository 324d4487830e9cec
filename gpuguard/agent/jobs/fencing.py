"""A copy of a job whose store knows a higher epoch is stopped: at first contact, and after work."""

import dataclasses
import threading
from pathlib import Path
from typing import Callable, Optional, TypeVar

from gpuguard.agent.jobs import register as jobs
from gpuguard.agent.jobs.stopping import kill_job
from gpuguard.agent.locks import job_lock
from gpuguard.agent.paths import NodePaths
from gpuguard.agent.places import log_exception
from gpuguard.agent.store.epochs import EpochRecord, highest_epoch
from gpuguard.checkpoint.naming import is_checkpoint_id
from gpuguard.model.errors import BusyError, GpuguardError
from gpuguard.model.jobs import Job, JobState

T = TypeVar("T")
_SECONDS = 2.0  # a dead network mount must not keep the agent from answering
_STALE = "stopped: the store knows a later copy of this job"
_UNKNOWN = "not known whether this is the newest copy"


def fence_stale(paths: NodePaths) -> list[str]:
    """Stop every stale copy on this node; return the names of those jobs.

    A store that does not answer in time proves nothing: its jobs are left as they are.
    """
    watched = [job for job in jobs.list_jobs(paths) if _can_be_stale(job)]
    seen: list[str] = []
    if watched:
        _bounded(lambda: _look_at_all(watched, seen))
    return [name for name in list(seen) if _fence_free(paths, name)]


def fence_held(paths: NodePaths, name: str) -> bool:
    """Stop the job if it is stale; for whoever holds its lock. Return whether it was stopped."""
    job = jobs.load_job(paths, name)
    newer = superseded(job) if _can_be_stale(job) else None
    if newer is None:
        _say_unknown(paths, job)
        return False
    # Without a limit of ours: a kill that is cut off halfway leaves a copy nobody knows of.
    kill_job(job)
    note = f"{_STALE}: {newer.host} holds epoch {newer.epoch} since {newer.at}, this is {job.epoch}"
    jobs.save_job(paths, dataclasses.replace(job, state=JobState.STALE, note=note))
    return True


def superseded(job: Job) -> Optional[EpochRecord]:
    """Return the record by which another copy of `job` is the newer one, None if none is known."""
    return _bounded(lambda: _newer(job)) if _store_folder(job) else None


def _bounded(work: Callable[[], T]) -> Optional[T]:
    """Return what `work` does within the time a store has to answer, else None."""
    answers: list[T] = []

    def run() -> None:
        try:
            answers.append(work())
        except (OSError, GpuguardError):
            log_exception()

    worker = threading.Thread(target=run, daemon=True)
    worker.start()
    worker.join(_SECONDS)
    return answers[0] if answers else None


def _look_at_all(watched: list[Job], seen: list[str]) -> None:
    """Name the jobs whose store has something to say: a newer copy, or that its record is lost."""
    for job in watched:
        try:
            if _newer(job) is not None or _record_lost(job) or _UNKNOWN in (job.note or ""):
                seen.append(job.spec.name)
        except (OSError, GpuguardError):
            log_exception()


def _fence_free(paths: NodePaths, name: str) -> bool:
    try:
        # A procedure at work on the job may be about to write its new epoch down; if it is
        # not, it looks by itself when it is through.
        with job_lock(paths, name, "fencing", wait=0):
            return fence_held(paths, name)
    except BusyError:
        return False
    except (OSError, GpuguardError):
        log_exception()
        return False


def _say_unknown(paths: NodePaths, job: Job) -> None:
    """Keep a note while the store has lost its record: then nobody can tell a stale copy."""
    lost = _bounded(lambda: _record_lost(job)) if _can_be_stale(job) else None
    if lost is None:
        return
    said = bool(job.note and _UNKNOWN in job.note)
    if lost and not said:
        note = f"{_UNKNOWN}: {_store_folder(job)} has no record of who holds epoch {job.epoch}"
        jobs.save_job(paths, dataclasses.replace(job, note=note))
    elif said and not lost:
        jobs.save_job(paths, dataclasses.replace(job, note=None))


def _record_lost(job: Job) -> bool:
    folder = _store_folder(job)
    if folder is None or not folder.parent.is_dir():
        return False
    highest = highest_epoch(folder)
    if highest is not None:
        return highest.epoch < job.epoch
    # Before the first checkpoint there is nothing yet; each one is preceded by a record.
    saved = folder.is_dir() and any(is_checkpoint_id(item.name) for item in folder.iterdir())
    return saved or job.epoch > 1


def _newer(job: Job) -> Optional[EpochRecord]:
    folder = _store_folder(job)
    highest = highest_epoch(folder) if folder else None
    if highest is None or highest.uid != job.spec.uid or highest.epoch <= job.epoch:
        return None
    return highest


def _can_be_stale(job: Job) -> bool:
    return job.state in (JobState.RUNNING, JobState.STOPPED) and job.policy.store is not None


def _store_folder(job: Job) -> Optional[Path]:
    return Path(job.policy.store) / job.spec.name if job.policy.store else None
