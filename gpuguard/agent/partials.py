"""Remove by rule what a dead procedure left half written in the store.

A partial checkpoint is never listed as one that counts and never restored; it only takes room. Each
is the work of one procedure of the job, and a node makes one checkpoint of a job at a time, so
whatever partial of the job is not being written now, and has not been for an hour, is nobody's.
"""

import time
from pathlib import Path

from gpuguard.agent.store_write import remove_folder
from gpuguard.checkpoint.naming import partial_id

OLD_SECONDS = 3600.0


def remove_old_partials(
    job_folder: Path, keep: str, now: float, older: float = OLD_SECONDS
) -> list[str]:
    """Remove the job's partials but `keep` that nothing was written to for `older` seconds.

    Returns what was done, one line each; one that cannot be removed is told and stays. `now` is
    in seconds since the epoch. One that seems to be of the future stays.
    """
    told = []
    for folder in sorted(job_folder.glob(".partial-*")):
        checkpoint = partial_id(folder.name)
        if checkpoint is None or checkpoint == keep or now - _last_written(folder) < older:
            continue
        try:
            remove_folder(folder)
        except OSError as error:
            told.append(f"the partial checkpoint {checkpoint} could not be removed: {error}")
        else:
            told.append(f"removed the partial checkpoint {checkpoint}: nobody was writing it")
    return told


def sweep(job_folder: Path, keep: str) -> list[str]:
    """Remove the job's old partials but `keep`, by the clock of this node."""
    return remove_old_partials(job_folder, keep, time.time())


def _last_written(folder: Path) -> float:
    """Return when a file or folder in `folder` was last changed; infinity if it vanishes."""
    try:
        return max(item.lstat().st_mtime for item in [folder, *folder.rglob("*")])
    except OSError:
        return float("inf")
