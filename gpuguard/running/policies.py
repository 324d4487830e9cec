"""Resolve a policy of the inventory to what a node needs of it."""

from gpuguard.model.inventory import Host, Inventory
from gpuguard.model.jobs import JobPolicy


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
