"""Whether CRIU, stage and store of a host can take a job's checkpoint."""

import os
from collections.abc import Iterator
from pathlib import Path

from gpuguard.agent.checkpointing.stage import free_bytes, require_executable
from gpuguard.agent.criu.invocations import criu_version, judge_version
from gpuguard.agent.host.facts import memory_available
from gpuguard.agent.paths import NodePaths
from gpuguard.agent.store.epochs import highest_epoch
from gpuguard.agent.store.identity import recognise_store
from gpuguard.agent.store.reading import job_folder, job_uid
from gpuguard.agent.store.write import probe_folder, unwritable
from gpuguard.agent.survey.open_files import capture_bytes
from gpuguard.agent.survey.survey import Survey
from gpuguard.checkpoint.limits import room_needed
from gpuguard.model.errors import GpuguardError
from gpuguard.model.plans import Finding

_MIB = 1024 * 1024
_MEMORY_SYSTEMS = ("tmpfs", "ramfs")


def check_host(paths: NodePaths, survey: Survey) -> Iterator[Finding]:
    """Check everything around the job; leaves nothing behind but the mark of a store's id."""
    problem = judge_version(criu_version(), os.uname().release)
    if problem:
        yield survey.found("criu-unfit", problem)
    yield from check_stage(survey)
    yield from _check_store(paths, survey)


def check_stage(survey: Survey) -> Iterator[Finding]:
    """Check that the stage can run the gate's script and hold the images."""
    stage = Path(survey.job.policy.stage)
    try:
        require_executable(stage)
    except GpuguardError as error:
        yield survey.found("stage-noexec", error.message)
    yield from check_room(survey, "stage", stage)
    need, free = needed(survey), memory_available()
    if _in_memory(stage) and free < need:
        text = (
            f"the stage {stage} is in memory, of which {free // _MIB} MiB are available; "
            f"the checkpoint may need {need // _MIB} MiB"
        )
        yield survey.found("stage-memory", text)


def check_room(survey: Survey, what: str, folder: Path) -> Iterator[Finding]:
    """Check that the `stage` or the `store` has room for the checkpoint."""
    need, free = needed(survey), free_bytes(folder)
    if free < need:
        text = (
            f"the {what} {folder} has {free // _MIB} MiB free, the checkpoint may need "
            f"{need // _MIB} MiB"
        )
        yield survey.found(f"{what}-room", text)


def needed(survey: Survey) -> int:
    """Return the bytes the checkpoint may need."""
    ghosts = sum(item.record.size for item in survey.files if item.record.deleted)
    captured = capture_bytes(survey.files, survey.job.policy.capture_limit)
    return room_needed(survey.resident, ghosts, captured, len(survey.tree))


def _check_store(paths: NodePaths, survey: Survey) -> Iterator[Finding]:
    job = survey.job
    if job.policy.store is None:
        yield survey.found("store-none", f"policy {job.spec.policy_name} names no store")
        return
    try:
        recognise_store(paths, job.policy.store)
        folder = job_folder(job.policy.store, job.spec.name)
        probe_folder(folder if folder.is_dir() else folder.parent)
        owner, top = job_uid(folder), highest_epoch(folder)
    except GpuguardError as error:
        yield survey.found("store-unfit", error.message, error.hint or "")
        return
    except OSError as error:
        told = unwritable(job.policy.store, error)
        yield survey.found("store-unfit", told.message, told.hint or "")
        return
    if owner is not None and owner != job.spec.uid:
        text = f"{folder} is of another job of this name (uid {owner})"
        yield survey.found("store-taken", text)
    elif top is not None and top.epoch > max(1, job.epoch):
        text = f"{top.host} holds epoch {top.epoch}, this copy is of epoch {job.epoch}"
        yield survey.found("job-outdated", text)
    yield from check_room(survey, "store", folder)


def _in_memory(folder: Path) -> bool:
    """Tell whether the nearest mount above `folder` is one that lives in memory."""
    best = ("", "")
    for line in Path("/proc/self/mounts").read_text(errors="replace").splitlines():
        where, kind = line.split()[1:3]
        inside = str(folder) == where or str(folder).startswith(where.rstrip("/") + "/")
        if inside and len(where) >= len(best[0]):
            best = (where, kind)
    return best[1] in _MEMORY_SYSTEMS
