"""The jobs of this node: one folder each, and what the node sees of them now.

`job.json` alone is enough to find a job again: pids with start times, the boot they belong to.
"""

import contextlib
import dataclasses
from pathlib import Path
from typing import Any, Optional

from gpuguard.agent import processes
from gpuguard.agent.clock import boot_id
from gpuguard.agent.disk import read_json, write_json
from gpuguard.agent.jobs.status import JobStatus, read_status
from gpuguard.agent.jobs.supervision import find_supervisor, host_ref
from gpuguard.agent.locks import is_locked, read_holder
from gpuguard.agent.paths import NodePaths
from gpuguard.model.errors import GpuguardError, UsageError
from gpuguard.model.jobs import Job, JobOrigin, JobState

ENDED = (JobState.EXITED, JobState.LOST, JobState.MOVED, JobState.STALE)


def load_job(paths: NodePaths, name: str) -> Job:
    """Return the job as the node sees it now; raises UsageError if there is none of that name."""
    lock = paths.job(name) / "lock"
    # Asked before and after: a stopped job must not look as if nobody held it.
    before = _procedure_at_work(lock)
    seen = observe(paths, stored_job(paths, name))
    return dataclasses.replace(seen, held_by=before or _procedure_at_work(lock))


def _procedure_at_work(lock: Path) -> Optional[dict[str, Any]]:
    holder = read_holder(lock) if is_locked(lock) else {}
    return holder if holder.get("procedure") else None


def stored_job(paths: NodePaths, name: str) -> Job:
    """Return the job as it was last written down; raises UsageError, GpuguardError."""
    path = paths.job(name) / "job.json"
    try:
        data = read_json(path)
        if data is not None:
            return Job.from_dict(data)
    except ValueError as error:
        raise GpuguardError(f"{path} cannot be read: {error}") from error
    raise UsageError(f"this node has no job {name}", "list its jobs: gpuguard jobs list")


def save_job(paths: NodePaths, job: Job, request_id: Optional[str] = None) -> None:
    """Write the job down, synced; raises OSError.

    `request_id`, the request that made the job, is kept from the last time if not given.
    """
    path = paths.job(job.spec.name) / "job.json"
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    made_by = request_id or request_of(paths, job.spec.name)
    kept = dataclasses.replace(job, held_by=None)  # true only for the moment it was seen
    write_json(path, {**kept.to_dict(), "request_id": made_by})


def request_of(paths: NodePaths, name: str) -> Optional[str]:
    """Return the id of the request that made the job, None if none did."""
    with contextlib.suppress(ValueError):
        data: dict[str, Any] = read_json(paths.job(name) / "job.json") or {}
        return data.get("request_id")
    return None


def list_jobs(paths: NodePaths) -> list[Job]:
    """Return every job of this node as seen now, by name; a broken record is shown as unknown."""
    found = []
    with contextlib.suppress(FileNotFoundError):
        for folder in sorted(paths.jobs.iterdir()):
            if (folder / "job.json").exists():
                found.append(_load_or_unknown(paths, folder.name))
    return found


def observe(paths: NodePaths, job: Job) -> Job:
    """Return `job` with state, exit code and process count as they are now."""
    folder = paths.job(job.spec.name)
    if job.state is JobState.STALE:
        return dataclasses.replace(job, processes=0)
    if _given_away(folder, job.epoch):
        note = "given away to another host; nothing of it runs here"
        return dataclasses.replace(job, state=JobState.MOVED, processes=0, note=note)
    status = (
        read_status(folder / "status")
        if job.origin is JobOrigin.LAUNCHED or (job.supervisor)
        else JobStatus()
    )
    if status.kind in ("exit", "signal", "lapsed"):
        return _ended(job, status)
    if job.boot_id != boot_id() and job.state is JobState.EXITED:
        return job
    if job.boot_id != boot_id():
        return _lost(job, "the node was rebooted while the job ran")
    return _observe_tree(folder, _with_refs(folder, job, status), status)


def _observe_tree(folder: Path, job: Job, status: JobStatus) -> Job:
    if processes.alive(job.root) and job.root:
        members = processes.tree(job.root.pid)
        stopped = bool(members) and all(entry.state in "Tt" for entry in members)
        state = JobState.STOPPED if stopped else JobState.RUNNING
        return dataclasses.replace(job, state=state, processes=len(members), exit_code=None)
    return _observe_end(folder, job, status)


def _observe_end(folder: Path, job: Job, status: JobStatus) -> Job:
    if job.supervisor is None and job.origin is JobOrigin.ADOPTED:
        note = "it was not our child: its exit code is not known"
        return dataclasses.replace(job, state=JobState.EXITED, processes=0, note=note)
    if job.supervisor:
        # The supervisor writes the exit code before it ends.
        _wait_for_end(job)
    last = read_status(folder / "status")
    if last.kind in ("exit", "signal", "lapsed"):
        return _ended(job, last)
    if last.kind == "failed":
        return _lost(job, f"it did not start: {last.text}")
    return _lost(job, "its supervisor was killed, and the job with it")


def _wait_for_end(job: Job) -> None:
    processes.wait_gone(job.supervisor, 1.0)


def _with_refs(folder: Path, job: Job, status: JobStatus) -> Job:
    """Find the processes of a job whose start was cut off before they were written down."""
    if job.root is not None or status.kind != "running":
        return job
    supervisor = job.supervisor or find_supervisor(folder)
    if supervisor is None or not processes.alive(supervisor):
        return job
    root = host_ref(supervisor, status.number)
    return dataclasses.replace(job, supervisor=supervisor, root=root, namespace_pid=status.number)


def _given_away(folder: Path, epoch: int) -> bool:
    try:
        names = [entry.name.partition(".")[0] for entry in (folder / "gone").iterdir()]
    except FileNotFoundError:
        return False
    return any(int(name) >= epoch for name in names if name.isdigit())


def _ended(job: Job, status: JobStatus) -> Job:
    if status.kind == "lapsed":
        note = f"it ended itself, its lease had lapsed: {status.text}"
        return _lost(dataclasses.replace(job, note=None), note)
    code = status.number if status.kind == "exit" else -status.number
    return dataclasses.replace(job, state=JobState.EXITED, exit_code=code, processes=0)


def _lost(job: Job, note: str) -> Job:
    return dataclasses.replace(
        job, state=JobState.LOST, exit_code=None, processes=0, note=job.note or note
    )


def _load_or_unknown(paths: NodePaths, name: str) -> Job:
    try:
        return load_job(paths, name)
    except GpuguardError as error:
        from gpuguard.model.jobs import JobSpec

        return Job(
            spec=JobSpec(name=name, uid=""),
            origin=JobOrigin.LAUNCHED,
            state=JobState.UNKNOWN,
            epoch=0,
            boot_id="",
            note=str(error),
        )
