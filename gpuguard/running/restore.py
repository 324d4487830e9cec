"""Bring a job back from a checkpoint."""

from dataclasses import dataclass, replace
from typing import Any

from gpuguard.checkpoint.naming import is_checkpoint_id
from gpuguard.model.codec import Record
from gpuguard.model.errors import RefusedError, UsageError
from gpuguard.model.exit_codes import ExitCode
from gpuguard.model.operations import OperationState
from gpuguard.model.plans import Plan
from gpuguard.model.procedures import ProcedureRequest
from gpuguard.planning.requests import RestoreRequest
from gpuguard.planning.restore import choose_checkpoint, holder_of, plan_restore
from gpuguard.planning.views import EpochHolder, FleetView
from gpuguard.running.desk import Desk
from gpuguard.running.enrolling import allowed_signers
from gpuguard.running.following import Follower
from gpuguard.running.ids import asked_by, operation_id, procedure_id
from gpuguard.running.journal import journalled
from gpuguard.running.leftovers import look
from gpuguard.running.locating import locate
from gpuguard.running.policies import job_policy
from gpuguard.running.proofs import gather_proofs, make_sure_off
from gpuguard.running.stores import find_store, with_manifest
from gpuguard.running.verdicts import Wanted, with_verdicts
from gpuguard.state.clock import stamp


@dataclass(frozen=True)
class Brought(Record):
    """A job that runs again."""

    job: str
    host: str
    checkpoint: str
    source: str | None = None  # the host it came from, in a move
    record: dict[str, Any] | None = None  # Job.to_dict()


def prepare(desk: Desk, request: RestoreRequest, settle: bool = True) -> Plan:
    """Look at fleet and store and return the plan; `settle` ends what was left half done.

    Raises:
        UsageError: the inventory has no such host, or the checkpoint's id is none.
        GpuguardError: no store is known, or the checkpoint's manifest cannot be read.
    """
    _require_names(desk, request)
    fleet = look(desk, settle)
    store = find_store(desk, fleet, request.job)
    info, _ = choose_checkpoint(request, store)
    if info is not None:
        store = with_manifest(desk, store, request.job, info.checkpoint)
        store = with_verdicts(desk, fleet, store, Wanted(request.job, info.checkpoint))
        holder = holder_of(store, info)
        fleet = _look_again(desk, request.job, holder, fleet)
        fleet, store = gather_proofs(desk, request, holder, fleet, store, wait=settle)
    now = desk.clock.now()
    return plan_restore(request, fleet, store, stamp(now), operation_id("restore", now))


def _look_again(desk: Desk, job: str, holder: EpochHolder, fleet: FleetView) -> FleetView:
    """Ask the holder anew if it answered before it became the holder.

    Store and fleet are read one after the other; another operator's restore can claim in between.
    """
    view = fleet.hosts.get(holder.host)
    if view is None or not view.reachable or holder.void:
        return fleet
    record = view.job(job)
    if record is not None and record.epoch >= holder.epoch:
        return fleet
    return FleetView({**fleet.hosts, **locate(desk, [holder.host]).hosts})


def _require_names(desk: Desk, request: RestoreRequest) -> None:
    if request.to is not None:
        desk.inventory.host(request.to)
    if request.checkpoint is not None and not is_checkpoint_id(request.checkpoint):
        raise UsageError(
            f"{request.checkpoint!r} is no id of a checkpoint",
            f"gpuguard checkpoints list {request.job}",
        )


def bring_back(desk: Desk, plan: Plan) -> Brought:
    """Carry `plan` out: the node fetches, verifies, restores, claims and lets the job go on.

    Raises:
        RefusedError: the plan is refused, or the node refuses (bad image, no proof).
        GpuguardError: the restore failed and was undone; no copy is left.
    """
    job, params = plan.jobs[0], plan.params
    with journalled(desk, plan) as log:
        if params.get("power_off"):
            proof = make_sure_off(desk, log, params["power_off"])
            plan = replace(plan, params={**params, "proof": proof.to_dict()})
        request = restore_request(desk, plan, params["checkpoint"], hold_seconds=None)
        follower = Follower(desk, log, params["target"], request)
        try:
            follower.start()
            result = follower.finish().result or {}
        except KeyboardInterrupt:
            follower.leave()
            raise
        except RefusedError as error:
            raise _with_way_out(plan, error) from error
        brought = Brought(job, params["target"], params["checkpoint"], None, result.get("job"))
        log.end(OperationState.DONE, ExitCode.OK, None, brought.to_dict())
    return brought


def _with_way_out(plan: Plan, error: RefusedError) -> RefusedError:
    """Name the checkpoint before the one that is not to be trusted."""
    older = plan.params.get("before")
    if older is None or "findings" not in error.details:
        return error
    way = f"take the one before it: gpuguard restore {plan.jobs[0]} --from {older}"
    hint = f"{way}; or {error.hint}" if error.hint else way
    return RefusedError(error.message, hint, error.details)


def restore_request(
    desk: Desk, plan: Plan, checkpoint: str, hold_seconds: float | None
) -> ProcedureRequest:
    """Return the node's part of a restore or, with `hold_seconds`, of a move."""
    params = plan.params
    host = desk.inventory.host(params["target"])
    return ProcedureRequest(
        id=procedure_id(plan.id, "bring"),
        kind="restore",
        params={
            "job": plan.jobs[0],
            "checkpoint": checkpoint,
            "store": params["store"],
            "host": host.name,
            "allowed_signers": allowed_signers(desk.folder),
            "policy": job_policy(desk.inventory, params["policy_name"], host).to_dict(),
            "hold": hold_seconds is not None,
            "hold_seconds": hold_seconds or 0.0,
            "proof": params["proof"],
            "holder": params.get("holder"),
            "newest": params.get("newest"),
        },
        asked_by=asked_by(),
        words=("go", "discard") if hold_seconds is not None else (),
    )
