"""Carry an operation on, or take it back, whose process is gone: by what its hosts say of it."""

from dataclasses import dataclass, field
from typing import Any

from gpuguard.model.codec import Record
from gpuguard.model.errors import BusyError, GpuguardError, RefusedError, UsageError
from gpuguard.model.exit_codes import ExitCode
from gpuguard.model.operations import Operation, OperationState
from gpuguard.model.plans import Plan
from gpuguard.model.procedures import ProcedureRequest, ProcedureState, ProcedureStatus
from gpuguard.running.desk import Desk
from gpuguard.running.following import ENDED, Follower, failure
from gpuguard.running.ids import procedure_id
from gpuguard.running.leftovers import finish_move
from gpuguard.running.migrate import Move
from gpuguard.state.operations import OperationLog

_OPEN = (ProcedureState.RUNNING, ProcedureState.HOLDING, ProcedureState.ABANDONED)


@dataclass(frozen=True)
class Settled(Record):
    """What was found of an operation, and what became of it."""

    operation: str
    verb: str
    state: OperationState
    found: tuple[str, ...]  # one line a procedure, as its host told of it
    text: str
    hint: str | None = None
    exit_code: int = 0


@dataclass
class _Part:
    """One procedure of the operation: its follower, and what its host says of it."""

    job: str
    follower: Follower
    request: dict[str, Any] | None = None  # None: its host never began it
    status: ProcedureStatus | None = None

    @property
    def line(self) -> str:
        """Return what was found, in one line."""
        what = f"{self.follower.host}: {self.follower.request.kind} of {self.job}"
        if self.status is None:
            return f"{what}: never begun"
        return f"{what}: {self.status.state.value}, step {self.status.step}"


@dataclass
class _Case:
    """An operation that is to be settled."""

    desk: Desk
    plan: Plan
    log: OperationLog
    parts: list[_Part] = field(default_factory=list)

    @property
    def begun(self) -> list[_Part]:
        """Return the procedures that their hosts have begun."""
        return [part for part in self.parts if part.status is not None]


def resume(desk: Desk, name: str) -> Settled:
    """Carry the operation on from where its hosts stand, or say how it ended without us.

    Raises:
        UsageError: there is no such operation.
        BusyError: its own process still works on it.
        UnreachableError: a host that has a part in it does not answer.
    """
    return _settle(desk, name, back=False)


def abort(desk: Desk, name: str) -> Settled:
    """Take the operation back where that is still possible; raise as `resume` does.

    Raises:
        RefusedError: it is past the point of no return.
    """
    return _settle(desk, name, back=True)


def _settle(desk: Desk, name: str, back: bool) -> Settled:
    operation = desk.operations.show(name)
    if operation.state is OperationState.RUNNING:
        text = f"{operation.id} is at work, process {operation.pid} of {operation.asked_by}"
        raise BusyError(text, f"let it end, or interrupt it: kill -INT {operation.pid}")
    if operation.state is OperationState.DONE:
        text = "it had been done to the end already"
        return Settled(operation.id, operation.verb, operation.state, (), text)
    case = _find(desk, operation)
    found = tuple(part.line for part in case.parts)
    try:
        state, text, hint = _carry_out(case, back)
    except RefusedError:
        raise  # nothing was done: the operation is as open as before
    except GpuguardError as error:
        case.log.end(OperationState.FAILED, error.exit_code, error, {"found": list(found)})
        raise
    code = _code(state, back)
    if not case.log.ended:
        problem = None if code is ExitCode.OK else GpuguardError(text, hint)
        case.log.end(state, code, problem, {"found": list(found), "settled": text})
    return Settled(operation.id, operation.verb, state, found, text, hint, int(code))


def _code(state: OperationState, back: bool) -> ExitCode:
    if state is OperationState.PARTIAL:
        return ExitCode.PARTIAL
    wished = OperationState.INTERRUPTED if back else OperationState.DONE
    return ExitCode.OK if state in (wished, OperationState.DONE) else ExitCode.FAILED


def _find(desk: Desk, operation: Operation) -> _Case:
    """Ask the hosts; the first contact also settles what nobody is at work on any more."""
    plan = Plan.from_dict(operation.plan)
    case = _Case(desk, plan, desk.operations.resume(operation.id))
    for host, kind, procedure, job in _procedures(plan):
        request = ProcedureRequest(id=procedure, kind=kind, params={"job": job})
        part = _Part(job, Follower(desk, case.log, host, request))
        try:
            answer = desk.session(host).call("procedures.show", id=procedure)
        except UsageError:
            case.parts.append(part)
            continue
        part.request, part.follower.asked = answer["request"], True
        part.status = part.follower.status = ProcedureStatus.from_dict(answer["status"])
        part.follower.note("found", part.status.state.value, part.status.step or "start")
        case.parts.append(part)
    return case


def _procedures(plan: Plan) -> list[tuple[str, str, str, str]]:
    """Return host, kind, id and job of every procedure the plan has."""
    params = plan.params
    if plan.verb == "checkpoint":
        return [
            (params["hosts"][job], "checkpoint", procedure_id(plan.id, "save", number), job)
            for number, job in enumerate(plan.jobs)
        ]
    job = plan.jobs[0]
    bring = (str(params["target"]), "restore", procedure_id(plan.id, "bring"), job)
    if plan.verb == "restore":
        return [bring]
    if plan.verb == "migrate":
        return [(params["source"], "checkpoint", procedure_id(plan.id, "save"), job), bring]
    raise UsageError(f"{plan.id}: a {plan.verb} has nothing to resume", "gpuguard ops show")


def _carry_out(case: _Case, back: bool) -> tuple[OperationState, str, str | None]:
    if not case.begun:
        job = " ".join(case.plan.jobs)
        hint = None if back else f"gpuguard {case.plan.verb} {job}"
        return OperationState.INTERRUPTED, "no host had begun it: nothing was changed", hint
    if case.plan.verb == "migrate":
        return _settle_move(case, back)
    return _settle_apart(case, back)


def _settle_apart(case: _Case, back: bool) -> tuple[OperationState, str, str | None]:
    """Settle procedures that do not need each other."""
    ended = []
    for part in case.begun:
        if back and part.status and part.status.state in _OPEN:
            part.follower.call_off()
        ended.append((part, part.follower.watch()))
    done = [part for part, status in ended if status.state is ProcedureState.DONE]
    errors = [
        failure(part.follower.host, status)
        for part, status in ended
        if status.state is not ProcedureState.DONE
    ]
    never = [part.line for part in case.parts if part not in case.begun]
    texts = [f"{part.follower.host}: {part.follower.request.kind} of {part.job} is done"
             for part in done]  # fmt: skip
    text = "; ".join([*texts, *(error.message for error in errors), *never])
    hint = next((error.hint for error in errors if error.hint), None)
    if back and not done and _undone(ended):
        return OperationState.INTERRUPTED, f"taken back: {text}", None
    if not errors and not never:
        return OperationState.DONE, text, None
    return OperationState.PARTIAL if done else OperationState.FAILED, text, hint


def _undone(ended: list[tuple[_Part, ProcedureStatus]]) -> bool:
    return all(status.state is ProcedureState.FAILED for _, status in ended)


def _settle_move(case: _Case, back: bool) -> tuple[OperationState, str, str | None]:
    source, target = case.parts
    job = case.plan.jobs[0]
    state = source.status.state if source.status else None
    if state is ProcedureState.DONE and back:
        raise RefusedError(
            f"too late: {source.follower.host} has given {job} away and ended its copy",
            f"gpuguard ops resume {case.plan.id}",
        )
    if state in _OPEN and not back and source.request is not None:
        move = Move(case.desk, case.log, case.plan, source.request["params"]["checkpoint"])
        brought = move.run()
        return OperationState.DONE, f"carried on: {job} runs on {brought.host}", None
    if finish_move(source.follower, target.follower):
        return OperationState.DONE, f"{job} runs on {target.follower.host}", None
    if state is ProcedureState.DONE:
        text = f"{source.follower.host} has given {job} away, and the copy on"
        text += f" {target.follower.host} is gone; its checkpoint is durable"
        return OperationState.FAILED, text, f"gpuguard restore {job}"
    ended = source.follower.status
    if ended is not None and ended.state not in ENDED | {ProcedureState.FAILED}:
        raise failure(source.follower.host, ended)
    text = f"taken back: {job} goes on on {source.follower.host}"
    return OperationState.INTERRUPTED, text, None if back else f"gpuguard migrate {job}"
