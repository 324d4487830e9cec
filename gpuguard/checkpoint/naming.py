"""Names of checkpoints: readable, sortable, safe as one folder name."""

import re
import secrets
from datetime import datetime, timezone
from typing import Optional

_CHECKPOINT = re.compile(r"\A[0-9]{8}T[0-9]{6}Z-[0-9a-f]{6}\Z")
_JOB = re.compile(r"\A[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")
PARTIAL_PREFIX = ".partial-"


def make_checkpoint_id(now: Optional[datetime] = None) -> str:
    """Return a fresh checkpoint id for `now` (UTC; the clock's time if None)."""
    moment = (now or datetime.now(timezone.utc)).astimezone(timezone.utc)
    return f"{moment:%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"


def is_checkpoint_id(text: str) -> bool:
    """Tell whether `text` has the form of a checkpoint id."""
    return _CHECKPOINT.match(text) is not None


def is_job_name(text: str) -> bool:
    """Tell whether `text` may name a job, and so a folder of a store."""
    return _JOB.match(text) is not None


def partial_name(checkpoint: str) -> str:
    """Return the folder name a checkpoint has while it is being written."""
    return PARTIAL_PREFIX + checkpoint


def partial_id(folder: str) -> Optional[str]:
    """Return the checkpoint id of a partial folder's name, None for another name."""
    if not folder.startswith(PARTIAL_PREFIX):
        return None
    rest = folder[len(PARTIAL_PREFIX) :]
    return rest if is_checkpoint_id(rest) else None
