"""Drop the records of procedures that ended well long ago, so that a start stays cheap."""

import contextlib
import shutil
import time
from pathlib import Path

from gpuguard.agent.paths import NodePaths
from gpuguard.agent.procedures import records
from gpuguard.model.procedures import ProcedureState

KEEP_NEWEST = 200
KEEP_SECONDS = 7 * 86400.0

_SETTLED = (ProcedureState.DONE, ProcedureState.FAILED)


def prune_procedures(paths: NodePaths) -> None:
    """Remove settled procedures older than a week beyond the newest 200; unsettled ones stay."""
    for folder in records.every_folder(paths)[:-KEEP_NEWEST]:
        with contextlib.suppress(OSError, ValueError):
            if _is_old(folder):
                shutil.rmtree(folder)


def _is_old(folder: Path) -> bool:
    if time.time() - (folder / "request.json").stat().st_mtime < KEEP_SECONDS:
        return False
    result = records.read_result(folder)
    return result is not None and result.state in _SETTLED
