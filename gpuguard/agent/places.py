"""Errors as data: what happened, and the place in the agent where nobody expected it."""

import contextlib
import errno
import os
import traceback
from typing import Any

from gpuguard.model.errors import GpuguardError

_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)


def error_of(error: BaseException) -> dict[str, Any]:
    """Return any exception in the form of GpuguardError.to_dict()."""
    if isinstance(error, GpuguardError):
        return error.to_dict()
    if isinstance(error, OSError) and error.errno in _DISK:
        text = f"{error.strerror}: {error.filename or 'a file of gpuguard'}"
        return GpuguardError(text, "look at the disk on the node: df -h, mount").to_dict()
    frames = traceback.extract_tb(error.__traceback__)
    last = frames[-1] if frames else None
    place = f"{last.filename.rpartition('/')[2]}:{last.lineno} in {last.name}" if last else "?"
    reason = str(error) or "no reason given"
    details = {"place": place, "type": type(error).__name__}
    return GpuguardError(f"{type(error).__name__}: {reason} ({place})", details=details).to_dict()


def write_log(text: str) -> None:
    """Write a line to stderr, the log of a detached process.

    Straight to the descriptor and without a raise: a full disk must not end the way back.
    """
    with contextlib.suppress(OSError):
        os.write(2, f"{text}\n".encode(errors="replace"))


def log_exception() -> None:
    """Write the exception at hand with its trace to stderr; never raises."""
    write_log(traceback.format_exc())
