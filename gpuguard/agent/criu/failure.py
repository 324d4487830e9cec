"""Turn a failed run of CRIU into an error that names the cause and the way out."""

import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

from gpuguard.model.errors import GpuguardError

if TYPE_CHECKING:
    from gpuguard.checkpoint.diagnosis import Diagnosis


@dataclass(frozen=True)
class FailedRun:
    """What is left of a run of CRIU that failed."""

    what: str  # "could not save job train-7"
    host: str
    log: Path
    said: str  # what came out beside the log
    code: Optional[int]
    kept: Optional[Path] = None  # where the log will lie once all is undone


def explain_failure(run: FailedRun, known: Mapping[str, Any], state: str) -> GpuguardError:
    """Return the error of a failed run; `known` is the context of the diagnosis.

    `state` tells the operator how the job or the checkpoint stands now.
    """
    # Its tables take tens of milliseconds to load, which a start of the agent must not pay.
    from gpuguard.checkpoint.diagnosis import diagnose

    context = {"host": run.host, "kernel": platform.release(), **known}
    log = _lines(run.log)
    place = str(run.kept or run.log)
    # Without a log CRIU did not come far, and what it said outside is all there is.
    found = diagnose(log or run.said.splitlines(), context, run.code, place)
    text = f"{run.host}: CRIU {run.what}: {_reason(found, run.said, bool(log))}"
    hint = (
        f"{found.remedy} CRIU's log, with pids as the job sees them: {place} on {run.host}; {state}"
    )
    details = {"exit_code": run.code, "log": place, "reason": found.line}
    return GpuguardError(text, hint, {**details, "diagnosis": found.to_dict()})


def _reason(found: "Diagnosis", said: str, logged: bool) -> str:
    if found.recognised or not said:
        return found.sentence
    return f"{said}; {found.sentence}" if logged else said


def _lines(log: Path) -> list[str]:
    try:
        return log.read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return []
