"""Plan checkpoints of running jobs."""

from collections.abc import Callable

from gpuguard.model.plans import Finding, Plan, Step
from gpuguard.planning.findings import refuse
from gpuguard.planning.placing import running_place
from gpuguard.planning.requests import CheckpointRequest
from gpuguard.planning.views import FleetView
from gpuguard.planning.words import checkpoint_steps


def plan_checkpoint(
    request: CheckpointRequest, fleet: FleetView, plan_id: str, store_remedy: Callable[[str], str]
) -> Plan:
    """Return the plan; jobs that cannot be saved are findings and refuse it.

    `store_remedy` says how a policy gets a store.
    """
    findings: list[Finding] = []
    steps: list[Step] = []
    hosts: dict[str, str] = {}
    stores: dict[str, str] = {}
    after = "stop" if request.stop else "run"
    for job in request.jobs:
        place, found = running_place(job, fleet)
        findings += found
        if place is None:
            continue
        store = place.job.policy.store
        if store is None:
            findings.append(_no_store(job, store_remedy(place.job.spec.policy_name)))
            continue
        hosts[job], stores[job] = place.host, store
        values = {"job": job, "host": place.host, "store": store}
        steps += checkpoint_steps(after, {**values, "target": ""})
    params = {"after": after, "hosts": hosts, "stores": stores}
    return Plan(plan_id, "checkpoint", request.jobs, tuple(steps), tuple(findings), params=params)


def _no_store(job: str, remedy: str) -> Finding:
    return refuse("no-store", job, "no store: nothing can be saved", remedy)
