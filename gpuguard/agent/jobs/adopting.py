"""Take a process that already runs into care, without touching it."""

import dataclasses
import os
from pathlib import Path
from typing import Optional

from gpuguard.agent import processes
from gpuguard.agent.clock import boot_id, utc_now
from gpuguard.agent.jobs import register as jobs
from gpuguard.agent.jobs.launching import check_name_free
from gpuguard.agent.locks import job_lock
from gpuguard.agent.paths import NodePaths
from gpuguard.model.errors import RefusedError, UsageError
from gpuguard.model.jobs import Job, JobOrigin, JobPolicy, JobSpec, JobState

_FIRST_EPOCH = 1


def adopt_job(paths: NodePaths, spec: JobSpec, policy: JobPolicy, pid: int) -> Job:
    """Record process `pid` and its tree as a job, and return it.

    Raises:
        UsageError: there is no such process.
        RefusedError: the name is taken, or the process must not be adopted.
    """
    paths.job(spec.name)
    with job_lock(paths, spec.name, "jobs.adopt"):
        root = processes.stat(pid)
        if root is None or root.ended:
            hint = "look for its pid there, as that host numbers it: ps -ef"
            raise UsageError(f"there is no process {pid} on this node", hint)
        known = _same(paths, spec, root)
        if known is not None:
            return known
        _check_kind(root)
        _check_owner(paths, root)
        _check_namespace(root)
        check_name_free(paths, spec.name)
        (paths.job(spec.name) / "status").unlink(missing_ok=True)
        job = _record(spec, policy, root)
        jobs.save_job(paths, job)
        return jobs.observe(paths, job)


def is_shell_job(pid: int) -> bool:
    """Tell whether a session of the tree is led from outside it, or uses a terminal."""
    members = processes.tree(pid)
    inside = {entry.pid for entry in members}
    return any(entry.session not in inside or entry.tty for entry in members)


def _same(paths: NodePaths, spec: JobSpec, root: processes.Stat) -> Optional[Job]:
    """Return the job if this very request was answered before, and the answer got lost."""
    if not (paths.job(spec.name) / "job.json").exists():
        return None
    job = jobs.load_job(paths, spec.name)
    return job if job.spec.uid == spec.uid and job.root == root.ref else None


def _check_kind(root: processes.Stat) -> None:
    if root.pid == 1:
        raise RefusedError("process 1 is the node's init: it cannot be a job")
    if root.kernel_thread:
        raise RefusedError(f"process {root.pid} ({root.name}) is a thread of the kernel")


def _check_namespace(root: processes.Stat) -> None:
    if processes.pid_namespace(root.pid) != processes.pid_namespace(os.getpid()):
        raise RefusedError(
            f"process {root.pid} ({root.name}) lives in a pid namespace of its own (a container)",
            "start the job with gpuguard jobs run instead",
        )


def _check_owner(paths: NodePaths, root: processes.Stat) -> None:
    members = {entry.pid for entry in processes.tree(root.pid)}
    if os.getpid() in members:
        raise RefusedError(f"process {root.pid} ({root.name}) carries gpuguard's own connection")
    if _is_ours(root.pid):
        raise RefusedError(f"process {root.pid} is gpuguard's own")
    for job in jobs.list_jobs(paths):
        if job.state in jobs.ENDED or job.root is None:
            continue
        theirs = {entry.pid for entry in processes.tree(job.root.pid)}
        if job.supervisor:
            theirs.add(job.supervisor.pid)
        if theirs & members:
            raise RefusedError(
                f"process {root.pid} belongs to job {job.spec.name} already",
                f"see it: gpuguard jobs show {job.spec.name}",
            )


def _is_ours(pid: int) -> bool:
    here = os.fsencode(Path(__file__).resolve().parents[1])
    return any(
        word in (here + b"/main.py", here + b"/supervisor.py")
        for word in processes.command_line(pid)
    )


def _record(spec: JobSpec, policy: JobPolicy, root: processes.Stat) -> Job:
    command = tuple(word.decode(errors="replace") for word in processes.command_line(root.pid))
    return Job(
        spec=dataclasses.replace(
            spec,
            command=spec.command or command,
            cwd=str(Path(f"/proc/{root.pid}/cwd").readlink()),
            user=spec.user or _owner(root.pid),
        ),
        origin=JobOrigin.ADOPTED,
        state=JobState.RUNNING,
        epoch=_FIRST_EPOCH,
        boot_id=boot_id(),
        root=root.ref,
        namespace_pid=root.pid,
        shell_job=is_shell_job(root.pid),
        started_at=utc_now(),
        policy=policy,
    )


def _owner(pid: int) -> str:
    return Path(f"/proc/{pid}").owner()
