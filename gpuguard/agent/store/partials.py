"""Remove by rule what a dead procedure left half written in the store, or on the stage.

A partial checkpoint is never listed as one that counts and never restored; it only takes room. Each
is the work of one procedure of the job, and a node makes one checkpoint of a job at a time, so
whatever partial of the job is not being written now, and has not been for an hour, is nobody's.
"""

import time
from pathlib import Path

from gpuguard.agent.paths import NodePaths
from gpuguard.agent.procedures import records
from gpuguard.agent.store.write import remove_folder
from gpuguard.checkpoint.naming import is_checkpoint_id, partial_id
from gpuguard.model.procedures import ProcedureState

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


def sweep(paths: NodePaths, job_folder: Path, stage: Path) -> list[str]:
    """Remove the job's old partials but the one of `stage`, and old stages beside it."""
    now = time.time()
    told = remove_old_partials(job_folder, stage.name, now)
    return told + sweep_stages(paths, stage.parent, now)


def sweep_stages(paths: NodePaths, stages: Path, now: float) -> list[str]:
    """Remove the checkpoints on a stage that no procedure of this node needs; tell what was done.

    Needed is one whose procedure has not ended, or ended unsettled, and any of the last hour.
    """
    told = []
    needed = _needed(paths)
    for folder in sorted(stages.iterdir()) if stages.is_dir() else []:
        if not is_checkpoint_id(folder.name) or folder.name in needed:
            continue
        if now - _last_written(folder) < OLD_SECONDS:
            continue
        try:
            remove_folder(folder)
        except OSError as error:
            told.append(f"the old stage {folder} could not be removed: {error}")
        else:
            told.append(f"removed the old stage {folder.name}: no procedure needs it")
    return told


def _needed(paths: NodePaths) -> set[str]:
    ended = (ProcedureState.DONE, ProcedureState.FAILED)
    return {
        str(records.read_request(folder).params.get("checkpoint"))
        for folder in records.every_folder(paths)
        for result in [records.read_result(folder)]
        if result is None or result.state not in ended
    }


def _last_written(folder: Path) -> float:
    """Return when a file or folder in `folder` was last changed; infinity if it vanishes."""
    try:
        return max(item.lstat().st_mtime for item in [folder, *folder.rglob("*")])
    except OSError:
        return float("inf")
