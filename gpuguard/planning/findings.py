"""Build findings: one sentence, one remedy."""

from gpuguard.model.errors import (
    BusyError,
    GpuguardError,
    RefusedError,
    UnreachableError,
    UsageError,
)
from gpuguard.model.plans import Finding, Level, Plan

# What is wrong with the command line or the way there has exit codes of its own.
_KINDS: dict[str, type[GpuguardError]] = {
    "job-unknown": UsageError,
    "host-unreachable": UnreachableError,
    "job-busy": BusyError,
}


def refuse(code: str, subject: str, text: str, remedy: str | None = None) -> Finding:
    """Return a finding that forbids the plan."""
    return Finding(Level.ERROR, code, subject, text, remedy)


def warn(code: str, subject: str, text: str, remedy: str | None = None) -> Finding:
    """Return a finding that a person should see before agreeing."""
    return Finding(Level.WARNING, code, subject, text, remedy)


def inform(code: str, subject: str, text: str) -> Finding:
    """Return a finding that only tells."""
    return Finding(Level.INFO, code, subject, text)


def refusal(plan: Plan) -> GpuguardError:
    """Return the error that says why `plan` is refused, first reason first."""
    errors = [finding for finding in plan.findings if finding.level is Level.ERROR]
    message = "; ".join(f"{finding.subject}: {finding.text}" for finding in errors)
    kind = _KINDS.get(errors[0].code, RefusedError) if errors else RefusedError
    return kind(
        message,
        next((finding.remedy for finding in errors if finding.remedy), None),
        {"findings": [finding.to_dict() for finding in plan.findings]},
    )
