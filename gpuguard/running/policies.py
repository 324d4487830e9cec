"""Resolve a policy of the inventory to what a node needs of it."""

from dataclasses import replace

from gpuguard.model.inventory import Host, Inventory
from gpuguard.model.jobs import Job, JobPolicy
from gpuguard.planning.views import FleetView, HostView


def job_policy(inventory: Inventory, name: str, host: Host) -> JobPolicy:
    """Return policy `name` as it holds on `host`; raise UsageError for an unknown name."""
    policy = inventory.policy(name)
    return JobPolicy(
        store=inventory.store(policy.store).path if policy.store else None,
        stage=host.stage or policy.stage,
        tcp=policy.tcp,
        capture_limit=policy.capture_limit,
        stop_grace=policy.stop_grace,
        lease=policy.lease if policy.fence == "lease" else None,
    )


def store_now(inventory: Inventory, job: Job) -> str | None:
    """Return the store of the job's record or, where that has none, of its policy as of now."""
    name = job.spec.policy_name
    if job.policy.store is not None or (name != "default" and name not in inventory.policies):
        return job.policy.store
    store = inventory.policy(name).store
    return inventory.store(store).path if store else None


def with_stores_now(inventory: Inventory, fleet: FleetView) -> FleetView:
    """Return `fleet` with the stores of today for jobs that were started without one."""
    return FleetView({name: _with_stores(inventory, view) for name, view in fleet.hosts.items()})


def _with_stores(inventory: Inventory, view: HostView) -> HostView:
    jobs = (
        replace(job, policy=replace(job.policy, store=store_now(inventory, job)))
        for job in view.jobs
    )
    return replace(view, jobs=tuple(jobs))
