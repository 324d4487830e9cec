"""A job that was started before its policy had a store gets one from the next request."""

from dataclasses import replace
from typing import Optional

from gpuguard.agent.jobs.register import save_job, stored_job
from gpuguard.agent.paths import NodePaths
from gpuguard.model.jobs import Job


def with_store(job: Job, store: Optional[str]) -> Job:
    """Return `job` with `store` where its own policy names none."""
    if job.policy.store is not None or not store:
        return job
    return replace(job, policy=replace(job.policy, store=store))


def keep_store(paths: NodePaths, job: Job) -> None:
    """Write the store down that `with_store` gave the job, if its record has none; raises OSError.

    From then on the node sees in it whether another host has taken the job over.
    """
    kept = stored_job(paths, job.spec.name)
    if kept.policy.store is None and kept.spec.uid == job.spec.uid:
        save_job(paths, with_store(kept, job.policy.store))
