"""Plan the move of a running job: source saves and holds, target restores and holds, handover."""

from dataclasses import replace

from gpuguard.model.jobs import Job
from gpuguard.model.plans import Confirm, Finding, Plan, Step
from gpuguard.planning.fencing import handover
from gpuguard.planning.findings import refuse
from gpuguard.planning.placing import running_place
from gpuguard.planning.requests import MigrateRequest
from gpuguard.planning.targets import choose_target
from gpuguard.planning.views import (
    EpochHolder,
    FleetView,
    Placed,
    StoreView,
)
from gpuguard.planning.words import checkpoint_steps, restore_steps


def plan_migrate(
    request: MigrateRequest,
    fleet: FleetView,
    store: StoreView,
    at: str,
    plan_id: str,
    ahead: tuple[Finding, ...] = (),
) -> Plan:
    """Return the plan of a move at the time `at` (ISO 8601); findings refuse it.

    `ahead` is what preflight found on the source.
    """
    place, findings = running_place(request.job, fleet)
    findings = [*findings, *ahead]
    if place is None:
        return _plan(request, plan_id, findings)
    if not place.job.policy.store:
        return _plan(request, plan_id, [*findings, _no_store(request.job)])
    if store.holder is not None and _outdates(store.holder, place.job):
        return _plan(request, plan_id, [*findings, _outdated(place, store.holder)])
    if request.to == place.host:
        return _plan(request, plan_id, [*findings, _same_host(request.job, place.host)])
    choice = choose_target(request.job, request.to, fleet.without(place.host), store)
    findings = [*findings, *choice.findings]
    if choice.host is None:
        return _plan(request, plan_id, findings)
    epoch = max(place.job.epoch, 1)
    params = {
        "source": place.host,
        "target": choice.host,
        "store": place.job.policy.store,
        "policy_name": place.job.spec.policy_name,
        "epoch": epoch + 1,
        "holder": {"epoch": epoch, "host": place.host},
        "proof": handover(place.host, at).to_dict(),
    }
    steps = _steps(request.job, place, choice.host, at)
    return replace(_plan(request, plan_id, findings), steps=steps, params=params)


def _steps(job: str, place: Placed, target: str, at: str) -> tuple[Step, ...]:
    values = {
        "job": job,
        "source": place.host,
        "target": target,
        "store": place.job.policy.store or "",
    }
    values |= {"checkpoint": "just made", "proof": handover(place.host, at).text}
    saving = checkpoint_steps("hold", {**values, "host": place.host})
    bringing = restore_steps(True, {**values, "host": target})
    ready = next(i for i, step in enumerate(saving) if step.name == "give-away")
    waits = next(i for i, step in enumerate(bringing) if step.name == "claim")
    return saving[:ready] + bringing[:waits] + saving[ready:] + bringing[waits:]


def _plan(request: MigrateRequest, plan_id: str, findings: list[Finding]) -> Plan:
    return Plan(plan_id, "migrate", (request.job,), (), tuple(findings), Confirm.YES_NO, params={})


def _no_store(job: str) -> Finding:
    remedy = "name a store in its policy in the inventory; the job need not be restarted"
    return refuse("no-store", job, "no store: nothing can be saved or moved", remedy)


def _outdates(holder: EpochHolder, job: Job) -> bool:
    return holder.uid == job.spec.uid and holder.epoch > job.epoch


def _outdated(place: Placed, holder: EpochHolder) -> Finding:
    text = (
        f"the copy on {place.host} (epoch {place.job.epoch}) is outdated: "
        f"{holder.host} holds epoch {holder.epoch} since {holder.at}"
    )
    remedy = f"gpuguard jobs show {place.job.spec.name}"
    return refuse("copy-outdated", place.job.spec.name, text, remedy)


def _same_host(job: str, host: str) -> Finding:
    return refuse("same-host", job, f"it already runs on {host}", f"gpuguard jobs show {job}")
