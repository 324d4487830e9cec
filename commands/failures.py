"""Turn whatever went wrong into `error:` and `hint:` lines, or a JSON object, and an exit code."""

import sys
import traceback
from typing import Any

from gpuguard.commands.options import asks_json, settings
from gpuguard.commands.output import complain, write_json
from gpuguard.model.errors import GpuguardError
from gpuguard.model.exit_codes import ExitCode


def report(error: BaseException, argv: list[str]) -> int:
    """Print `error` in the form the command line asked for and return its exit code."""
    if type(error).__name__ == "NoArgsIsHelpError":
        sys.stderr.write(f"{error.args[0]}\n")
        return int(ExitCode.USAGE)
    told = _told(error)
    if settings().debug:
        traceback.print_exception(error, file=sys.stderr)
    if asks_json(argv):
        code = int(told["code"])
        write_json({"schema": "gpuguard.error/1", "error": told, "code": code})
    else:
        complain(str(told["message"]), told["hint"])
    return int(told["code"])


def _told(error: BaseException) -> dict[str, Any]:
    if isinstance(error, GpuguardError):
        return {**error.to_dict(), "code": int(error.exit_code)}
    usage = _usage(error)
    if usage is not None:
        return usage
    if isinstance(error, OSError) and error.strerror:
        place = f"{error.filename}: " if error.filename else ""
        return {
            **GpuguardError(f"{place}{error.strerror}").to_dict(),
            "code": int(ExitCode.FAILED),
        }
    return {
        "kind": "failed",
        "message": f"gpuguard itself failed: {type(error).__name__}: {error}",
        "hint": "run the same command with --debug and report the traceback",
        "details": {},
        "code": int(ExitCode.FAILED),
    }


def _usage(error: BaseException) -> dict[str, Any] | None:
    """Describe an error of the command line's parser; None for any other error."""
    if not hasattr(error, "format_message"):
        return None
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "gpuguard"
    message = " ".join(str(error.format_message()).split()).rstrip(".")
    return {
        "kind": "usage",
        "message": message,
        "hint": f"run: {path} --help",
        "details": {},
        "code": int(ExitCode.USAGE),
    }
