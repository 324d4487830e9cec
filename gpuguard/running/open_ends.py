"""What is not settled: operations of this machine that were cut off, and procedures on hosts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gpuguard.model.codec import Record
from gpuguard.model.errors import GpuguardError
from gpuguard.model.operations import OperationState
from gpuguard.model.procedures import ProcedureState, ProcedureStatus
from gpuguard.remote.session import Session
from gpuguard.running.desk import Desk

_MANY = 200  # operations looked back
_OPEN = (ProcedureState.UNSETTLED, ProcedureState.ABANDONED)


@dataclass(frozen=True)
class OpenEnd(Record):
    """One thing that needs a look, and the command for it."""

    host: str  # empty: an operation of this machine
    id: str
    job: str
    state: str
    text: str
    hint: str


def open_ends(desk: Desk) -> tuple[list[OpenEnd], list[dict[str, Any]]]:
    """Return what is open, and one error for each host that did not answer."""
    ends = [
        OpenEnd(
            "",
            operation.id,
            " ".join(operation.jobs),
            operation.state.value,
            f"its process {operation.pid} died",
            f"gpuguard ops resume {operation.id}",
        )
        for operation in desk.operations.list(_MANY)
        if operation.state is OperationState.ABANDONED
    ]
    errors = []
    outcomes = desk.pool.map(desk.inventory.hosts.values(), lambda host, session: _ask(session))
    every = {name: outcome.get() for name, outcome in outcomes.items() if outcome.ok}
    for name, outcome in outcomes.items():
        if outcome.error is not None:
            errors.append({**outcome.error.to_dict(), "host": name})
    return [*ends, *_unsettled(every)], errors


def _ask(session: Session) -> list[ProcedureStatus]:
    try:
        return [ProcedureStatus.from_dict(item) for item in session.call("procedures.list")]
    except ValueError as error:
        raise GpuguardError(f"the agent's answer makes no sense: {error}") from error


def _unsettled(every: dict[str, list[ProcedureStatus]]) -> Sequence[OpenEnd]:
    """Return the procedures that ended badly and that nothing later of their job made good."""
    good: dict[str | None, str] = {}
    for statuses in every.values():
        for status in statuses:
            if status.state is ProcedureState.DONE:
                good[status.job] = max(good.get(status.job, ""), status.started_at)
    return [
        _end(host, status)
        for host, statuses in every.items()
        for status in statuses
        if status.state in _OPEN and status.started_at >= good.get(status.job, "")
    ]


def _end(host: str, status: ProcedureStatus) -> OpenEnd:
    error = status.error or {}
    text = str(error.get("message") or f"nobody is at work on it, step {status.step}")
    hint = str(error.get("hint") or f"gpuguard jobs show {status.job}")
    return OpenEnd(host, status.id, str(status.job or ""), status.state.value, text, hint)
