"""End the moves whose operator's process died in the middle, before anything new is planned.

A source that waits would let its job go on by itself when its time is up, and a target would drop
its copy; this only spares the wait, and carries a move on whose source has given the job away.
"""

from gpuguard.model.errors import GpuguardError, UsageError
from gpuguard.model.operations import Operation, OperationState
from gpuguard.model.plans import Plan
from gpuguard.model.procedures import ProcedureRequest, ProcedureState
from gpuguard.planning.views import FleetView
from gpuguard.running.desk import Desk
from gpuguard.running.following import Follower
from gpuguard.running.ids import procedure_id
from gpuguard.running.locating import locate

_MANY = 200  # operations looked back


def look(desk: Desk, settle: bool) -> FleetView:
    """Return the view of the fleet; with `settle` after ending what was left half done."""
    fleet = locate(desk)
    if settle and settle_leftovers(desk, fleet):
        return locate(desk)
    return fleet


def settle_leftovers(desk: Desk, fleet: FleetView) -> int:
    """End abandoned moves of this journal whose hosts answer; return how many were ended."""
    abandoned = [
        operation
        for operation in desk.operations.list(_MANY)
        if operation.state is OperationState.ABANDONED and operation.verb == "migrate"
    ]
    return sum(_settle(desk, fleet, operation) for operation in abandoned)


def _settle(desk: Desk, fleet: FleetView, operation: Operation) -> bool:
    plan = Plan.from_dict(operation.plan)
    names = (plan.params["source"], plan.params["target"])
    if not all(name in fleet.hosts and fleet.hosts[name].reachable for name in names):
        return False
    log = desk.operations.resume(operation.id)
    source = _follow(desk, plan, names[0], "checkpoint", "save")
    target = _follow(desk, plan, names[1], "restore", "bring")
    error: GpuguardError | None = None
    try:
        done = finish_move(source, target)
    except GpuguardError as problem:
        error, done = problem, False
    state = OperationState.DONE if done else OperationState.FAILED
    log.end(state, 0 if done else 1, error, {"settled": "after its process had died"})
    return True


def finish_move(source: Follower, target: Follower) -> bool:
    """Carry the move on if the source has given the job away, undo it if not; True if it moved."""
    gave = _state(source) is ProcedureState.DONE
    holds = _state(target) is ProcedureState.HOLDING
    if gave and holds:
        target.tell("go")
        target.finish()
        return True
    if gave:
        return _state(target) is ProcedureState.DONE
    target.discard()
    source.discard()
    return False


def _state(follower: Follower) -> ProcedureState | None:
    """Return where the procedure stands, None if the host never began it."""
    try:
        return follower.watch().state
    except UsageError:
        follower.asked = False
        return None


def _follow(desk: Desk, plan: Plan, host: str, kind: str, part: str) -> Follower:
    request = ProcedureRequest(
        id=procedure_id(plan.id, part), kind=kind, params={"job": plan.jobs[0]}
    )
    follower = Follower(desk, desk.operations.resume(plan.id), host, request)
    follower.asked = True
    return follower
