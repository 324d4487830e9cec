"""Carry out checkpoints, side by side, each on its own host."""

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from gpuguard.checkpoint.naming import make_checkpoint_id
from gpuguard.checkpoint.ordering import newest_durable
from gpuguard.model.codec import Record
from gpuguard.model.errors import GpuguardError, error_from_dict
from gpuguard.model.exit_codes import ExitCode
from gpuguard.model.operations import OperationState
from gpuguard.model.plans import Finding, Plan
from gpuguard.model.procedures import ProcedureRequest
from gpuguard.planning.checkpoint import plan_checkpoint
from gpuguard.planning.requests import CheckpointRequest
from gpuguard.planning.views import FleetView
from gpuguard.running.desk import Desk
from gpuguard.running.following import Follower
from gpuguard.running.ids import asked_by, operation_id, procedure_id
from gpuguard.running.journal import journalled
from gpuguard.running.leftovers import look
from gpuguard.running.policies import with_stores_now
from gpuguard.running.stores import store_paths, view_store
from gpuguard.running.verdicts import preflight
from gpuguard.state.operations import OperationLog

_FANOUT = 32


@dataclass(frozen=True)
class Saved(Record):
    """What came of one job: its checkpoint, or the error in its place."""

    job: str
    host: str
    checkpoint: str
    info: dict[str, Any] | None = None  # CheckpointInfo.to_dict()
    times: dict[str, Any] | None = None  # Times.to_dict()
    error: dict[str, Any] | None = None  # GpuguardError.to_dict()
    exit_code: int = 0


def prepare(desk: Desk, request: CheckpointRequest, settle: bool = True) -> Plan:
    """Look at the fleet and return the plan; `settle` ends what was left half done.

    Without it, for a dry run, each job's preflight is asked too; else it is the first step.
    """
    plan_id = operation_id("checkpoint", desk.clock.now())
    fleet = with_stores_now(desk.inventory, look(desk, settle))
    plan = plan_checkpoint(request, fleet, plan_id, desk.inventory.store_remedy)
    if plan.refused:
        return replace(plan, findings=tuple(_way_on(desk, fleet, item) for item in plan.findings))
    if settle:
        return plan
    found = [
        item
        for job, host in plan.params["hosts"].items()
        for item in preflight(desk, host, job, store=plan.params["stores"][job])[0]
    ]
    return replace(plan, findings=(*plan.findings, *found))


def save(desk: Desk, plan: Plan) -> list[Saved]:
    """Carry `plan` out and return what came of each job, in the plan's order.

    Raises:
        RefusedError: the plan is refused.
    """
    with journalled(desk, plan) as log:
        results = _side_by_side(desk, log, plan)
        state, code = _summary(results)
        told = {"jobs": [result.to_dict() for result in results]}
        log.end(state, code, _first_error(results), told)
    return results


def exit_code(results: list[Saved]) -> ExitCode:
    """Return 0 if all went well, 3 if some did, else the code of the first failure."""
    return _summary(results)[1]


def _way_on(desk: Desk, fleet: FleetView, finding: Finding) -> Finding:
    """Return `finding` without the advice to restore a job that no store has a checkpoint of."""
    if finding.code != "job-not-running" or finding.remedy != f"gpuguard restore {finding.subject}":
        return finding
    job = finding.subject
    views = (view_store(desk, fleet, job, path) for path in store_paths(desk, fleet, job))
    if any(newest_durable(view.checkpoints, None) for view in views):
        return finding
    return replace(finding, remedy=f"gpuguard jobs logs {job}")


def _side_by_side(desk: Desk, log: OperationLog, plan: Plan) -> list[Saved]:
    workers = ThreadPoolExecutor(min(_FANOUT, len(plan.jobs)), "gpuguard-checkpoint")
    futures: list[Future[Saved]] = [
        workers.submit(_one, desk, log, plan, number) for number in range(len(plan.jobs))
    ]
    try:
        return [future.result() for future in futures]
    except BaseException:
        # The hosts go on by themselves; our threads must not wait for them.
        desk.stop.set()
        desk.pool.close()
        raise
    finally:
        workers.shutdown(wait=True, cancel_futures=True)


def _one(desk: Desk, log: OperationLog, plan: Plan, number: int) -> Saved:
    job = plan.jobs[number]
    host = plan.params["hosts"][job]
    checkpoint = make_checkpoint_id(desk.clock.now())
    request = ProcedureRequest(
        id=procedure_id(plan.id, "save", number),
        kind="checkpoint",
        params={
            "job": job,
            "checkpoint": checkpoint,
            "host": host,
            "after": plan.params["after"],
            "hold_seconds": 0.0,
            "store": plan.params["stores"][job],
        },
        asked_by=asked_by(),
    )
    follower = Follower(desk, log, host, request)
    try:
        follower.start()
        result = follower.finish().result or {}
    except GpuguardError as error:
        code = int(error.exit_code)
        return Saved(job, host, checkpoint, error=error.to_dict(), exit_code=code)
    return Saved(job, host, checkpoint, result.get("info"), result.get("times"))


def _first_error(results: list[Saved]) -> GpuguardError | None:
    errors = (error_from_dict(result.error) for result in results if result.error)
    return next(errors, None)


def _summary(results: list[Saved]) -> tuple[OperationState, ExitCode]:
    failed = [result for result in results if result.error]
    if not failed:
        return OperationState.DONE, ExitCode.OK
    if len(failed) < len(results):
        return OperationState.PARTIAL, ExitCode.PARTIAL
    return OperationState.FAILED, ExitCode(failed[0].exit_code)
