"""Plan the move of a running job: source saves and holds, target restores and holds, handover."""

from dataclasses import replace

from gpuguard.model.plans import Confirm, Finding, Plan, Step
from gpuguard.planning.fencing import handover
from gpuguard.planning.findings import refuse
from gpuguard.planning.placing import running_place
from gpuguard.planning.requests import MigrateRequest
from gpuguard.planning.targets import choose_target
from gpuguard.planning.views import FleetView, HostFacts, JobNeeds, Placed, StoreView
from gpuguard.planning.words import checkpoint_steps, restore_steps


def plan_migrate(
    request: MigrateRequest, fleet: FleetView, store: StoreView, at: str, plan_id: str
) -> Plan:
    """Return the plan of a move at the time `at` (ISO 8601); findings refuse it."""
    place, findings = running_place(request.job, fleet)
    if place is None:
        return _plan(request, plan_id, findings)
    if not place.job.policy.store:
        return _plan(request, plan_id, [*findings, _no_store(request.job)])
    if request.to == place.host:
        return _plan(request, plan_id, [*findings, _same_host(request.job, place.host)])
    others = FleetView({name: v for name, v in fleet.hosts.items() if name != place.host})
    choice = choose_target(request.job, request.to, others, _needs(place, fleet), store)
    findings = [*findings, *choice.findings]
    if choice.host is None:
        return _plan(request, plan_id, findings)
    params = {
        "source": place.host,
        "target": choice.host,
        "store": place.job.policy.store,
        "policy_name": place.job.spec.policy_name,
        "epoch": max(place.job.epoch, store.holder.epoch if store.holder else 0) + 1,
        "proof": handover(place.host, at).to_dict(),
    }
    steps = _steps(request.job, place, choice.host)
    return replace(_plan(request, plan_id, findings), steps=steps, params=params)


def _steps(job: str, place: Placed, target: str) -> tuple[Step, ...]:
    values = {
        "job": job,
        "source": place.host,
        "target": target,
        "store": place.job.policy.store or "",
    }
    values["checkpoint"] = "just made"
    saving = checkpoint_steps("hold", {**values, "host": place.host})
    bringing = restore_steps(True, {**values, "host": target})
    ready = next(i for i, step in enumerate(saving) if step.name == "give-away")
    waits = next(i for i, step in enumerate(bringing) if step.name == "claim")
    return saving[:ready] + bringing[:waits] + saving[ready:] + bringing[waits:]


def _needs(place: Placed, fleet: FleetView) -> JobNeeds:
    facts = fleet.hosts[place.host].facts or HostFacts(boot_id="", kernel="0", arch="unknown")
    return JobNeeds(
        arch=facts.arch,
        kernel=facts.kernel,
        criu=facts.criu,
        memory=0,
        cpu_flags=facts.cpu_flags,
        policy=place.job.policy,
    )


def _plan(request: MigrateRequest, plan_id: str, findings: list[Finding]) -> Plan:
    return Plan(plan_id, "migrate", (request.job,), (), tuple(findings), Confirm.YES_NO, params={})


def _no_store(job: str) -> Finding:
    text = "its policy names no store, so no other host can read its checkpoint"
    return refuse("no-store", job, text, "name a store in the policy and start the job under it")


def _same_host(job: str, host: str) -> Finding:
    return refuse("same-host", job, f"it already runs on {host}", f"gpuguard jobs show {job}")
