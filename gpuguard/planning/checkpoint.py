"""Plan checkpoints of running jobs."""

from gpuguard.model.plans import Finding, Plan, Step
from gpuguard.planning.findings import warn
from gpuguard.planning.placing import running_place
from gpuguard.planning.requests import CheckpointRequest
from gpuguard.planning.views import FleetView
from gpuguard.planning.words import checkpoint_steps


def plan_checkpoint(request: CheckpointRequest, fleet: FleetView, plan_id: str) -> Plan:
    """Return the plan; jobs that cannot be saved are findings and refuse it."""
    findings: list[Finding] = []
    steps: list[Step] = []
    hosts: dict[str, str] = {}
    after = "stop" if request.stop else "run"
    for job in request.jobs:
        place, found = running_place(job, fleet)
        findings += found
        if place is None:
            continue
        hosts[job] = place.host
        store = place.job.policy.store
        findings += [] if store else [_not_durable(job, place.host)]
        values = {"job": job, "host": place.host, "store": store or "the host's own disk"}
        steps += checkpoint_steps(after, {**values, "target": ""})
    params = {"after": after, "hosts": hosts}
    return Plan(plan_id, "checkpoint", request.jobs, tuple(steps), tuple(findings), params=params)


def _not_durable(job: str, host: str) -> Finding:
    return warn(
        "no-store",
        job,
        f"its policy names no store: the checkpoint stays on {host} and is lost with it",
        "name a store in the policy and start the job again under it",
    )
