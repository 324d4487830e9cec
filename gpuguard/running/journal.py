"""Write an operation's beginning and end around what is done in between."""

from collections.abc import Iterator
from contextlib import contextmanager

from gpuguard.model.errors import GpuguardError
from gpuguard.model.exit_codes import ExitCode
from gpuguard.model.operations import OperationState
from gpuguard.model.plans import Plan
from gpuguard.planning.findings import refusal
from gpuguard.running.desk import Desk
from gpuguard.running.ids import asked_by
from gpuguard.state.operations import OperationLog


@contextmanager
def journalled(desk: Desk, plan: Plan) -> Iterator[OperationLog]:
    """Give out the log of `plan`; write how it ended, whatever happens.

    Raises:
        RefusedError: a finding forbids the plan; nothing is begun.
    """
    if plan.refused:
        raise refusal(plan)
    log = desk.operations.begin(plan, asked_by())
    try:
        yield log
    except KeyboardInterrupt:
        # A signal that was put off may arrive after all was done.
        if not log.ended:
            log.end(OperationState.INTERRUPTED, ExitCode.INTERRUPTED)
        raise
    except GpuguardError as error:
        log.end(OperationState.FAILED, error.exit_code, error)
        raise
    except BaseException as error:
        log.end(OperationState.FAILED, ExitCode.FAILED, GpuguardError(repr(error)))
        raise
