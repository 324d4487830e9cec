"""Errors that carry a sentence, a next command and an exit code."""

from typing import Any, Optional

from gpuguard.model.exit_codes import ExitCode


class GpuguardError(Exception):
    """Something failed: `message` says host, step and reason, `hint` the next command."""

    kind = "failed"
    exit_code = ExitCode.FAILED

    def __init__(
        self, message: str, hint: Optional[str] = None, details: Optional[dict[str, Any]] = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details = details or {}

    def to_dict(self) -> dict[str, Any]:
        """Return the error as it travels from a node and as `--output json` prints it."""
        return {
            "kind": self.kind,
            "message": self.message,
            "hint": self.hint,
            "details": self.details,
        }


class UsageError(GpuguardError):
    """The command line, the configuration or the inventory is wrong."""

    kind = "usage"
    exit_code = ExitCode.USAGE


class UnreachableError(GpuguardError):
    """A host did not answer, or refused to let us in."""

    kind = "unreachable"
    exit_code = ExitCode.UNREACHABLE


class RefusedError(GpuguardError):
    """A guard said no before anything was changed."""

    kind = "refused"
    exit_code = ExitCode.REFUSED


class BusyError(GpuguardError):
    """Another run holds the lock; `details` names the holder and since when."""

    kind = "busy"
    exit_code = ExitCode.BUSY


_KINDS = {
    cls.kind: cls for cls in (GpuguardError, UsageError, UnreachableError, RefusedError, BusyError)
}


def error_from_dict(data: dict[str, Any]) -> GpuguardError:
    """Build the error a node reported; an unknown kind becomes the plain failure."""
    cls = _KINDS.get(str(data.get("kind")), GpuguardError)
    return cls(
        str(data.get("message", "no reason given")), data.get("hint"), data.get("details") or {}
    )
