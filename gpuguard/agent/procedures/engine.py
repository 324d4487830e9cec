"""Carry a procedure out, step by step, and walk back when a step fails or its process died."""

import time
from typing import Any, Optional

from gpuguard.agent.places import error_of, log_exception
from gpuguard.agent.procedures.procedure import Context, Procedure, Step
from gpuguard.agent.procedures.told import close_told, is_called_off
from gpuguard.model.errors import GpuguardError
from gpuguard.model.procedures import EntryState, ProcedureState

_CRIU_POLL_SECONDS = 0.05


class Outcome:
    """How a procedure ended."""

    def __init__(self, state: ProcedureState, error: Optional[dict[str, Any]] = None) -> None:
        self.state = state
        self.error = error


def run(procedure: Procedure, ctx: Context) -> Outcome:
    """Do every step that is not done yet; on a failure walk back, unless committed."""
    try:
        for step in procedure.steps:
            _do(procedure, step, ctx)
    except Exception as error:
        log_exception()
        return _fail(procedure, ctx, error_of(error))
    return Outcome(ProcedureState.DONE)


def recover(procedure: Procedure, ctx: Context) -> Outcome:
    """Settle a procedure whose process died: forward after the commit, else back.

    A CRIU that is still at work is waited for, however long it takes: killed in the wrong moment
    it takes the job with it.
    """
    close_told(ctx.folder)
    failure = ctx.facts.get("failure") or _died(ctx)
    _wait_for_criu(ctx)
    if ctx.committed or _cut_off_done(procedure, ctx):
        return run(procedure, ctx)
    return _fail(procedure, ctx, failure)


def _cut_off_done(procedure: Procedure, ctx: Context) -> bool:
    """Tell whether the step that was cut off had its effect, so that going back would be a lie."""
    cut = [step for step in procedure.steps if ctx.journal.states(step.name) == {EntryState.BEGIN}]
    return len(cut) == 1 and cut[0].happened(ctx)


def _do(procedure: Procedure, step: Step, ctx: Context) -> None:
    if EntryState.DONE in ctx.journal.states(step.name) or not step.applies(ctx):
        return
    ctx.step = step.name
    if not ctx.committed and is_called_off(ctx.folder):
        raise GpuguardError(f"it was called off before step {step.name}")
    ctx.journal.append(step.name, EntryState.BEGIN)
    step.do(ctx)
    data: dict[str, Any] = {"result": ctx.result} if ctx.result else {}
    if step.name == procedure.commit:
        data["committed"] = True
    ctx.journal.append(step.name, EntryState.DONE, data=data)


def _fail(procedure: Procedure, ctx: Context, failure: dict[str, Any]) -> Outcome:
    ctx.journal.release_reserve()
    data = {"failure": failure, "holding": None}
    ctx.journal.append_anyway(ctx.step, EntryState.FAILED, brief(failure), data)
    if ctx.committed:
        return Outcome(ProcedureState.UNSETTLED, _with_hint(ctx, failure))
    problems = [problem for step in _begun(procedure, ctx) if (problem := _undo(step, ctx))]
    if problems:
        return Outcome(ProcedureState.UNSETTLED, _not_undone(ctx, failure, problems))
    return Outcome(ProcedureState.FAILED, failure)


def brief(failure: dict[str, Any]) -> str:
    """Return the step's line; the error itself, told right after, has the whole list."""
    return str((failure.get("details") or {}).get("brief") or failure["message"])


def _begun(procedure: Procedure, ctx: Context) -> list[Step]:
    marks = {step.name: ctx.journal.states(step.name) for step in procedure.steps}
    begun = [step for step in procedure.steps if EntryState.BEGIN in marks[step.name]]
    return [step for step in reversed(begun) if EntryState.UNDONE not in marks[step.name]]


def _undo(step: Step, ctx: Context) -> Optional[dict[str, Any]]:
    ctx.step = step.name
    try:
        step.undo(ctx)
    except Exception as error:
        log_exception()
        problem = error_of(error)
        text = f"undo failed: {problem['message']}"
        ctx.journal.append_anyway(step.name, EntryState.NOTE, text)
        return problem
    ctx.journal.append_anyway(step.name, EntryState.UNDONE)
    return None


def _wait_for_criu(ctx: Context) -> None:
    criu = ctx.facts.get("criu") or {}
    if not ctx.alive(criu):
        return
    ctx.journal.append_anyway(ctx.step, EntryState.NOTE, f"waits for criu, pid {criu['pid']}")
    while ctx.alive(criu):
        time.sleep(_CRIU_POLL_SECONDS)


def _died(ctx: Context) -> dict[str, Any]:
    last = ctx.journal.entries[-1].step if ctx.journal.entries else "start"
    ctx.step = last
    if ctx.same_boot:
        text = f"step {last} was cut off: the process at work on it was killed"
        return GpuguardError(text).to_dict()
    job = ctx.params.get("job")
    hint = f"a job that was here ended with the node; if it is lost: gpuguard restore {job}"
    return GpuguardError(f"step {last} was cut off: the node was rebooted", hint).to_dict()


def _with_hint(ctx: Context, failure: dict[str, Any]) -> dict[str, Any]:
    hint = f"the step cannot be taken back; see gpuguard ops show {ctx.request.id}"
    return {**failure, "hint": failure.get("hint") or hint}


def _not_undone(
    ctx: Context, failure: dict[str, Any], problems: list[dict[str, Any]]
) -> dict[str, Any]:
    texts = "; ".join(str(problem["message"]) for problem in problems)
    hints = [problem["hint"] for problem in problems if problem.get("hint")]
    hint = hints[0] if hints else f"see gpuguard ops show {ctx.request.id}, then look at the job"
    details = {**(failure.get("details") or {}), "not_undone": problems}
    message = f"{failure['message']}; and it could not be undone: {texts}"
    return {**failure, "message": message, "hint": hint, "details": details}
