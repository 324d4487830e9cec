"""`jobs.*` as the wire calls them."""

import shutil
from pathlib import Path
from typing import Any

from gpuguard.agent.arguments import take, take_record
from gpuguard.agent.jobs import register as jobs
from gpuguard.agent.locks import job_lock
from gpuguard.agent.methods import Emit
from gpuguard.agent.paths import NodePaths
from gpuguard.model.errors import RefusedError, UsageError
from gpuguard.model.jobs import Job, JobOrigin, JobPolicy, JobSpec


def run(params: dict[str, Any], emit: Emit) -> Job:
    """Answer `jobs.run`."""
    from gpuguard.agent.jobs.launching import run_job

    spec, policy = _what(params)
    return run_job(NodePaths(), spec, policy, take(params, "request_id", str, ""))


def adopt(params: dict[str, Any], emit: Emit) -> Job:
    """Answer `jobs.adopt`."""
    from gpuguard.agent.jobs.adopting import adopt_job

    spec, policy = _what(params)
    return adopt_job(NodePaths(), spec, policy, take(params, "pid", int))


def list_all(params: dict[str, Any], emit: Emit) -> list[Job]:
    """Answer `jobs.list`."""
    return jobs.list_jobs(NodePaths())


def show(params: dict[str, Any], emit: Emit) -> Job:
    """Answer `jobs.show`."""
    return jobs.load_job(NodePaths(), take(params, "name", str))


def stop(params: dict[str, Any], emit: Emit) -> Job:
    """Answer `jobs.stop`."""
    from gpuguard.agent.jobs.stopping import stop_job

    paths, name = NodePaths(), take(params, "name", str)
    default = jobs.stored_job(paths, name).policy.stop_grace
    return stop_job(paths, name, take(params, "grace", float, default))


def forget(params: dict[str, Any], emit: Emit) -> dict[str, Any]:
    """Answer `jobs.forget`: drop the record of a job, never the job itself."""
    paths, name = NodePaths(), take(params, "name", str)
    jobs.stored_job(paths, name)
    with job_lock(paths, name, "jobs.forget"):
        job = jobs.load_job(paths, name)
        released = job.origin is JobOrigin.ADOPTED and job.supervisor is None
        if job.state not in jobs.ENDED and not (released and take(params, "force", bool, False)):
            raise RefusedError(f"job {name} is {job.state.value}", _way_out(name, released))
        shutil.rmtree(paths.job(name))
    return {}


def logs(params: dict[str, Any], emit: Emit) -> dict[str, Any]:
    """Answer `jobs.logs`: the last lines, then what follows until the job ends."""
    from gpuguard.agent.jobs.log import LogReader, send_log

    paths, name = NodePaths(), take(params, "name", str)
    job = jobs.stored_job(paths, name)
    if job.log is None:
        raise UsageError(
            f"gpuguard keeps no log of job {name}: it was adopted", "read the job's own files"
        )
    reader = LogReader(Path(job.log), take(params, "lines", int, 100))
    follow = take(params, "follow", bool, False)

    def ended() -> bool:
        return jobs.load_job(paths, name).state in jobs.ENDED

    send_log(reader, lambda text: emit({"text": text}), emit.pause, ended if follow else None)
    return {}


def _way_out(name: str, released: bool) -> str:
    stop = f"stop it first: gpuguard jobs stop {name}"
    return f"{stop}; or leave it running: gpuguard jobs forget {name} --force" if released else stop


def _what(params: dict[str, Any]) -> tuple[JobSpec, JobPolicy]:
    policy = take_record(params, "policy", JobPolicy) if params.get("policy") else JobPolicy()
    return take_record(params, "spec", JobSpec), policy
