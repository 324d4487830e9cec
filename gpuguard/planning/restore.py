"""Plan how a job comes back from a checkpoint."""

from dataclasses import replace

from gpuguard.checkpoint.ordering import BROKEN, DURABLE, newest_durable
from gpuguard.model.manifests import CheckpointInfo
from gpuguard.model.plans import Confirm, Finding, Plan
from gpuguard.planning.fencing import Proof, fence
from gpuguard.planning.findings import refuse, warn
from gpuguard.planning.placing import running_place
from gpuguard.planning.requests import RestoreRequest
from gpuguard.planning.targets import choose_target
from gpuguard.planning.trust import untrusted, untrusted_finding
from gpuguard.planning.views import EpochHolder, FleetView, StoreView
from gpuguard.planning.words import power_off_step, restore_steps


def choose_checkpoint(
    request: RestoreRequest, store: StoreView
) -> tuple[CheckpointInfo | None, list[Finding]]:
    """Return the checkpoint asked for, or the newest durable one, and what hinders."""
    job = request.job
    remedy = f"gpuguard checkpoints list {job}"
    uid = store.holder.uid if store.holder else None
    newest = newest_durable(store.checkpoints, uid)
    if request.checkpoint is None:
        if newest is None:
            return None, [refuse("no-checkpoint", job, _none_durable(store), remedy)]
        return newest, _newer_broken(job, newest, store)
    found = next((c for c in store.checkpoints if c.checkpoint == request.checkpoint), None)
    if found is None:
        text = f"{store.path} holds no checkpoint {request.checkpoint}"
        return None, [refuse("no-checkpoint", job, text, remedy)]
    if found.state != DURABLE:
        text = f"checkpoint {found.checkpoint} is {found.state}: {found.problem or 'not complete'}"
        return None, [refuse("checkpoint-broken", job, text, _way_out(job, newest) or remedy)]
    if newest is not None and found.checkpoint != newest.checkpoint:
        text = f"{found.checkpoint} is not the newest: work since {found.frozen} is lost"
        return found, [warn("older-checkpoint", job, text)]
    return found, []


def before(info: CheckpointInfo, store: StoreView) -> CheckpointInfo | None:
    """Return the durable checkpoint of the same job that comes next after `info`, going back."""
    order = (info.epoch, info.sequence, info.checkpoint)  # a replayed one repeats a sequence
    older = (c for c in store.checkpoints if (c.epoch, c.sequence, c.checkpoint) < order)
    return newest_durable(older, info.uid)


def _newer_broken(job: str, newest: CheckpointInfo, store: StoreView) -> list[Finding]:
    # Of a broken one epoch and sequence may be unreadable; its id begins with the time.
    broken = [
        c for c in store.checkpoints if c.state == BROKEN and c.checkpoint > newest.checkpoint
    ]
    return [
        warn("newer-broken", job, f"{c.checkpoint} is newer, but broken: {c.problem}")
        for c in broken
    ]


def _way_out(job: str, newest: CheckpointInfo | None) -> str | None:
    return f"gpuguard restore {job} --from {newest.checkpoint}" if newest else None


def holder_of(store: StoreView, info: CheckpointInfo) -> EpochHolder:
    """Return who is the job: the highest epoch record, or else who wrote the newest checkpoint."""
    newest = max(store.checkpoints, key=lambda c: (c.epoch, c.sequence), default=info)
    if store.holder is not None and store.holder.epoch >= newest.epoch:
        return store.holder
    return EpochHolder(newest.epoch, newest.host, newest.uid, newest.frozen)


def plan_restore(
    request: RestoreRequest, fleet: FleetView, store: StoreView, at: str, plan_id: str
) -> Plan:
    """Return the plan of a restore at the time `at` (ISO 8601); findings refuse it."""
    info, findings = choose_checkpoint(request, store)
    if info is None and _nobody_knows(request.job, fleet, store):
        _, findings = running_place(request.job, fleet)
    if info is None or store.manifest is None:
        return _plan(request, plan_id, findings or [_no_manifest(request, store)])
    holder = holder_of(store, info)
    fenced = fence(request, holder, fleet, store, at)
    bad = untrusted(store)
    if bad:
        way = _before_it(request.job, before(info, store))
        refused = untrusted_finding(request.job, info.checkpoint, bad, way)
        return _plan(request, plan_id, [*findings, refused], None, info)
    choice = choose_target(request.job, request.to, fleet, store)
    findings += [*fenced.findings, *choice.findings]
    plan = _plan(request, plan_id, findings, choice.host, info, fenced.proof)
    if fenced.power_off:
        plan = _with_power_off(plan, fenced.power_off)
    if plan.refused or fenced.proof is None:
        return plan
    params = {
        **plan.params,
        "store": store.path,
        "policy_name": store.manifest.job.policy_name,
        "holder": holder.to_dict(),
        "newest": max(checkpoint.sequence for checkpoint in store.checkpoints),
        "before": (older := before(info, store)) and older.checkpoint,
        "power_off": fenced.power_off,
    }
    return replace(plan, params=params)


def _with_power_off(plan: Plan, host: str) -> Plan:
    return replace(
        plan,
        steps=(power_off_step(host), *plan.steps) if plan.steps else (),
        confirm=Confirm.TYPE_NAME,
        confirm_name=host,
    )


def _before_it(job: str, older: CheckpointInfo | None) -> str | None:
    return (
        f"take the one before it: gpuguard restore {job} --from {older.checkpoint}"
        if older
        else None
    )


def _plan(
    request: RestoreRequest,
    plan_id: str,
    findings: list[Finding],
    target: str | None = None,
    info: CheckpointInfo | None = None,
    proof: Proof | None = None,
) -> Plan:
    chosen = info.checkpoint if info else None
    values = {"job": request.job, "host": target or "?", "checkpoint": chosen or "?", "source": ""}
    values["proof"] = proof.text if proof else "there is none"
    return Plan(
        plan_id,
        "restore",
        (request.job,),
        restore_steps(False, values) if target and info else (),
        tuple(findings),
        Confirm.YES_NO,
        params={
            "target": target,
            "checkpoint": chosen,
            "frozen": info and info.frozen,
            "proof": proof and proof.to_dict(),
        },
    )


def _nobody_knows(job: str, fleet: FleetView, store: StoreView) -> bool:
    asked_all = not fleet.unreachable()
    return asked_all and not (fleet.places(job) or store.checkpoints or store.holder)


def _none_durable(store: StoreView) -> str:
    if not store.checkpoints:
        return f"there is no checkpoint of it in {store.path}"
    states = ", ".join(f"{c.checkpoint} {c.state}" for c in store.checkpoints[:3])
    return f"{store.path} holds no durable checkpoint of it ({states})"


def _no_manifest(request: RestoreRequest, store: StoreView) -> Finding:
    text = f"the manifest of the checkpoint in {store.path} could not be read"
    return refuse("no-manifest", request.job, text, f"gpuguard checkpoints verify {request.job}")
