"""Move a running job: the handover that cannot make two copies.

The source saves and stays stopped, the target restores and stays stopped. Only when the source has
written down that the job is given away and has ended its copy does the target go on. Every failure
before that lets the job go on where it was.
"""

from dataclasses import replace
from typing import NoReturn

from gpuguard.checkpoint.limits import copy_seconds, restore_seconds
from gpuguard.checkpoint.naming import make_checkpoint_id
from gpuguard.model.errors import GpuguardError, RefusedError, UnreachableError
from gpuguard.model.exit_codes import ExitCode
from gpuguard.model.jobs import Job, JobState
from gpuguard.model.operations import OperationState
from gpuguard.model.plans import Finding, Plan
from gpuguard.model.procedures import ProcedureRequest, ProcedureState
from gpuguard.planning.migrate import plan_migrate
from gpuguard.planning.requests import MigrateRequest
from gpuguard.planning.views import StoreView
from gpuguard.running.desk import Desk
from gpuguard.running.following import Follower, demand_done, failure
from gpuguard.running.ids import asked_by, operation_id, procedure_id
from gpuguard.running.journal import journalled
from gpuguard.running.leftovers import look
from gpuguard.running.policies import with_stores_now
from gpuguard.running.restore import Brought, restore_request
from gpuguard.running.stores import view_store
from gpuguard.running.undisturbed import undisturbed
from gpuguard.running.verdicts import Wanted, preflight, with_verdicts
from gpuguard.state.clock import stamp
from gpuguard.state.operations import OperationLog

_SHORTEST_HOLD = 300.0  # seconds the source waits, stopped, before it lets the job go on
_OFF = "what ran there is gone"
_UNWIND_PATIENCE = "it lets the job go on by itself when its time to wait is over"


def prepare(desk: Desk, request: MigrateRequest, settle: bool = True) -> Plan:
    """Look at fleet and store and return the plan; `settle` ends what was left half done.

    Raises:
        UsageError: the inventory has no such host.
    """
    if request.to is not None:
        desk.inventory.host(request.to)  # a name that is none is told before anybody is asked
    fleet = with_stores_now(desk.inventory, look(desk, settle))
    places = fleet.places(request.job)
    path = places[0].job.policy.store if places else None
    store = view_store(desk, fleet, request.job, path) if path else StoreView("")
    ahead: tuple[Finding, ...] = ()
    if path and places[0].job.state is JobState.RUNNING:
        ahead, record = preflight(desk, places[0].host, request.job, store=path)
        targets = fleet.without(places[0].host)
        store = replace(store, manifest=record)
        store = with_verdicts(desk, targets, store, Wanted(request.job))
    now = desk.clock.now()
    plan_id = operation_id("migrate", now)
    plan = plan_migrate(request, fleet, store, stamp(now), plan_id, ahead)
    return replace(plan, params={**plan.params, "hold_seconds": hold_seconds(store)})


def hold_seconds(store: StoreView) -> float:
    """Return how long the source waits for the target, from the size of the last checkpoint."""
    size = max((info.bytes for info in store.checkpoints[:3]), default=0)
    return max(_SHORTEST_HOLD, 60.0 + copy_seconds(size) + restore_seconds(size, 16))


def move(desk: Desk, plan: Plan) -> Brought:
    """Carry the move out and return where the job runs now.

    Raises:
        RefusedError: the plan is refused; nothing was begun.
        GpuguardError: it failed; the message says where the job is and the hint what goes on.
    """
    with journalled(desk, plan) as log:
        return Move(desk, log, plan).run()


class Move:
    """One move; with `checkpoint` one that was begun under this id, and is carried on."""

    def __init__(
        self, desk: Desk, log: OperationLog, plan: Plan, checkpoint: str | None = None
    ) -> None:
        self.desk = desk
        self.log = log
        self.plan = plan
        self.job = plan.jobs[0]
        self.params = plan.params
        self.checkpoint = checkpoint or make_checkpoint_id(desk.clock.now())
        self.source = Follower(desk, log, self.params["source"], self._source_request())
        request = restore_request(desk, plan, self.checkpoint, desk.patience + 60.0)
        self.target = Follower(desk, log, self.params["target"], request)

    def run(self) -> Brought:
        """Move the job; procedures that were begun earlier are gone on with."""
        try:
            self._hold(self.source)
            self._hold(self.target)
        except BaseException as error:
            with undisturbed(self._say_unwinding):
                self._unwind(error)
        with undisturbed(self._say_no_way_back):
            brought = self._hand_over()
            self.log.end(OperationState.DONE, ExitCode.OK, None, brought.to_dict())
        return brought

    def _source_request(self) -> ProcedureRequest:
        return ProcedureRequest(
            id=procedure_id(self.plan.id, "save"),
            kind="checkpoint",
            params={
                "job": self.job,
                "checkpoint": self.checkpoint,
                "host": self.params["source"],
                "after": "hold",
                "hold_seconds": self.params["hold_seconds"],
                "store": self.params["store"],
            },
            asked_by=asked_by(),
            words=("give_away", "discard"),
        )

    def _hold(self, follower: Follower) -> None:
        follower.start()
        status = follower.watch()
        if status.state is not ProcedureState.HOLDING:
            raise failure(follower.host, status)

    def _unwind(self, error: BaseException) -> NoReturn:
        """Discard the target's copy, then let the source go on; raise what led here."""
        self._discard(self.target)
        problem = self._discard(self.source)
        if self.source.status and self.source.status.state is ProcedureState.DONE:
            raise self._nowhere(GpuguardError(str(error))) from error
        if not isinstance(error, GpuguardError) or not self.source.asked:
            raise error
        if problem is not None:
            again = problem.startswith(error.message)
            text = problem if again else f"{error.message}; {problem}"
            verb = "restore" if _is_off(error) and again else "jobs show"
            raise type(error)(text, f"gpuguard {verb} {self.job}", error.details) from error
        where, hint = self._how_it_is()
        raise type(error)(f"{error.message}; {where}", hint or error.hint, error.details) from error

    def _how_it_is(self) -> tuple[str, str | None]:
        """Say what the source reports of the job now: undone is not running after a reboot."""
        host = self.source.host
        try:
            records = map(Job.from_dict, self.desk.session(host).call("jobs.list"))
            state = next((job.state for job in records if job.spec.name == self.job), None)
        except (GpuguardError, ValueError) as error:
            return (
                f"{host} does not say how {self.job} is: {error}",
                f"gpuguard jobs show {self.job}",
            )
        if state is JobState.RUNNING:
            return f"{self.job} goes on on {host} as before", None
        seen = state.value if state else "unknown"
        return f"on {host} {self.job} is {seen}", f"gpuguard restore {self.job}"

    def _discard(self, follower: Follower) -> str | None:
        """Have one side undone; return what is wrong with it, None if nothing is."""
        try:
            status = follower.discard()
        except GpuguardError as error:
            follower.note("lost", error.message, "discard")
            return f"{error.message}; {_OFF if _is_off(error) else _UNWIND_PATIENCE}"
        if status is not None and status.state is ProcedureState.UNSETTLED:
            return failure(follower.host, status).message
        return None

    def _hand_over(self) -> Brought:
        self._give_away()
        try:
            self.target.tell("go")
            result = self.target.finish().result or {}
        except GpuguardError as error:
            raise self._nowhere(error) from error
        return Brought(
            self.job, self.target.host, self.checkpoint, self.source.host, result.get("job")
        )

    def _give_away(self) -> None:
        try:
            self.source.tell("give_away", epoch=self.params["epoch"], host=self.target.host)
            status = self.source.watch()
        except RefusedError as error:
            self._unwind(error)
        except GpuguardError as error:
            raise self._unknown(error) from error
        if status.state is ProcedureState.FAILED:
            self._unwind(failure(self.source.host, status))
        if status.state is not ProcedureState.DONE:
            # Its copy may still be there, stopped: the target must not go on.
            self._discard(self.target)
            demand_done(self.source.host, status)

    def _unknown(self, error: GpuguardError) -> GpuguardError:
        text = (
            f"{error.message}; it is not known whether it gave {self.job} away, so the copy on"
            f" {self.target.host} was not let go on; the checkpoint {self.checkpoint} is durable"
        )
        hint = f"when {self.source.host} answers: gpuguard restore {self.job}"
        return UnreachableError(text, hint, error.details)

    def _nowhere(self, error: GpuguardError) -> GpuguardError:
        text = (
            f"{error.message}; {self.source.host} has given {self.job} away and ended its copy;"
            f" the checkpoint {self.checkpoint} is durable"
        )
        return type(error)(text, f"gpuguard restore {self.job}", error.details)

    def _say_unwinding(self) -> None:
        self.source.note("wait", "the job is being put back as it was", "discard")

    def _say_no_way_back(self) -> None:
        self.source.note("wait", f"too late to stop: {self.job} goes to {self.target.host}", "move")


def _is_off(error: GpuguardError) -> bool:
    return error.details.get("power") == "off"
