"""Marks in a store: left by one host and looked for by the others, to prove that it is shared."""

import os
import re
from pathlib import Path

from gpuguard.model.errors import GpuguardError, UsageError

_TOKEN = re.compile(r"[a-z0-9]{8,64}\Z")


def mark_store(store: Path, token: str, action: str) -> bool:
    """Leave, see or remove the mark `token` in `store`; return whether it stands there now.

    Raises:
        UsageError: `token` or `action` is none.
        GpuguardError: the store does not take it.
    """
    if not _TOKEN.match(token) or action not in ("leave", "see", "remove"):
        raise UsageError(f"store.mark cannot {action!r} {token!r}")
    mark = store / f".gpuguard-mark-{token}"
    try:
        if action == "leave":
            os.close(os.open(mark, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        elif action == "remove":
            mark.unlink(missing_ok=True)
        return mark.exists()
    except OSError as error:
        raise GpuguardError(f"cannot {action} a mark in {store}: {error.strerror}") from error
