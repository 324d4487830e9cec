"""Start a new job under a supervisor of its own."""

import dataclasses
import os
import pwd
from pathlib import Path
from typing import Any, Optional

from gpuguard.agent.clock import boot_id, utc_now
from gpuguard.agent.host.cordons import require_no_cordon
from gpuguard.agent.jobs import register as jobs
from gpuguard.agent.jobs.failed_start import Before
from gpuguard.agent.jobs.supervision import Launch, lease_order, run_words, start_supervised
from gpuguard.agent.locks import job_lock, read_holder
from gpuguard.agent.paths import NodePaths
from gpuguard.model.errors import RefusedError, UsageError
from gpuguard.model.jobs import Job, JobOrigin, JobPolicy, JobSpec, JobState, ProcessRef

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_FIRST_EPOCH = 1
_SAME_SECONDS = 90.0
_OTHER_SECONDS = 2.0


def run_job(paths: NodePaths, spec: JobSpec, policy: JobPolicy, request_id: str) -> Job:
    """Start the job, once for each request id, and return it.

    Raises:
        RefusedError: a job of that name lives here, or this login may not start jobs.
        UsageError: no command, no such user.
        GpuguardError: the program could not be started, with its own reason.
    """
    paths.job(spec.name)
    if not spec.command:
        raise UsageError(f"job {spec.name} has no command")
    if os.geteuid() != 0:
        raise RefusedError("jobs need root on the node: namespaces of their own", "use sudo")
    with job_lock(paths, spec.name, "jobs.run", _patience(paths, spec.name)):
        found = _present(paths, spec, request_id)
        if found:
            return found
        same = bool(request_id) and jobs.request_of(paths, spec.name) == request_id
        before = Before(paths.job(spec.name), same)
        try:
            return _start(paths, spec, policy, request_id)
        except Exception as error:
            before.undo(error)
            raise


def _patience(paths: NodePaths, name: str) -> float:
    """The same request may be at work already: it is waited for, to answer alike."""
    holder = read_holder(paths.job(name) / "lock")
    return _SAME_SECONDS if holder.get("kind") == "jobs.run" else _OTHER_SECONDS


def check_name_free(paths: NodePaths, name: str) -> None:
    """Refuse a name that a job has which has not ended; raises RefusedError."""
    job = jobs.load_job(paths, name) if (paths.job(name) / "job.json").exists() else None
    if job is not None and job.state not in jobs.ENDED:
        raise RefusedError(
            f"a job {name} is {job.state.value} on this node",
            f"stop it first (gpuguard jobs stop {name}) or choose another name",
        )


def _present(paths: NodePaths, spec: JobSpec, request_id: str) -> Optional[Job]:
    if not (paths.job(spec.name) / "job.json").exists():
        return None
    if request_id and jobs.request_of(paths, spec.name) == request_id:
        job = jobs.load_job(paths, spec.name)
        # Cut off before the supervisor got its order: nothing ran, and nothing will.
        never_ran = job.state is JobState.LOST and job.root is None and job.boot_id == boot_id()
        return None if never_ran else _written(paths, job)
    check_name_free(paths, spec.name)
    return None


def _written(paths: NodePaths, job: Job) -> Job:
    jobs.save_job(paths, job)
    return job


def _start(paths: NodePaths, spec: JobSpec, policy: JobPolicy, request_id: str) -> Job:
    require_no_cordon(paths, os.uname().nodename)
    folder = paths.job(spec.name)
    user = _user(spec.user)
    log = folder / "log"
    job = Job(
        spec=dataclasses.replace(spec, user=user.pw_name),
        origin=JobOrigin.LAUNCHED,
        state=JobState.RUNNING,
        epoch=_FIRST_EPOCH,
        boot_id=boot_id(),
        started_at=utc_now(),
        log=str(log),
        policy=policy,
    )

    def note(supervisor: ProcessRef) -> None:
        # Before anything runs: a cut link now still leaves a job that can be found again.
        jobs.save_job(paths, dataclasses.replace(job, supervisor=supervisor), request_id)

    try:
        done = start_supervised(Launch(folder, run_words(folder), _order(job, user, log)), note)
    except BaseException:
        (folder / "job.json").unlink(missing_ok=True)
        raise
    started = dataclasses.replace(
        job,
        supervisor=done.supervisor,
        root=done.root,
        namespace_pid=done.namespace_pid or None,
    )
    return _written(paths, jobs.observe(paths, started))


def _order(job: Job, user: pwd.struct_passwd, log: Path) -> dict[str, Any]:
    return {
        "command": list(job.spec.command),
        "cwd": job.spec.cwd,
        "env": {**_environment(user), **job.spec.env},
        "user": user.pw_name,
        "log": str(log),
        **lease_order(job.spec, job.policy, job.epoch),
        "oom_score_adj": Path("/proc/self/oom_score_adj").read_text(encoding="ascii").strip(),
    }


def _user(name: Optional[str]) -> pwd.struct_passwd:
    """Return the job's user; without a name the one who logged in, also behind sudo."""
    wanted = name or os.environ.get("SUDO_USER")
    try:
        return pwd.getpwnam(wanted) if wanted else pwd.getpwuid(os.getuid())
    except KeyError:
        hint = "correct --user, or make the user with the same number on every host: useradd"
        raise UsageError(f"there is no user {wanted!r} on this node", hint) from None


def _environment(user: pwd.struct_passwd) -> dict[str, str]:
    return {
        "PATH": _PATH,
        "HOME": user.pw_dir,
        "USER": user.pw_name,
        "LOGNAME": user.pw_name,
        "SHELL": user.pw_shell or "/bin/sh",
        "LANG": os.environ.get("LANG", "C.UTF-8"),
    }
