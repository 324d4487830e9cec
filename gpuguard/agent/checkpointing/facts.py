"""What the steps of a checkpoint tell each other, and the next process after a crash."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from gpuguard.agent.checkpointing.stage import Stage
from gpuguard.agent.jobs.fencing import superseded
from gpuguard.agent.jobs.register import save_job
from gpuguard.agent.jobs.tree_control import end_tree, resume_tree
from gpuguard.agent.procedures.procedure import Context
from gpuguard.model.jobs import Job, JobState, ProcessRef

RUN = "run"
STOP = "stop"
HOLD = "hold"
RESUME_SECONDS = 60.0


def job_name(ctx: Context) -> str:
    """Return the job's name."""
    return str(ctx.params["job"])


def checkpoint_id(ctx: Context) -> str:
    """Return the id the checkpoint gets."""
    return str(ctx.params["checkpoint"])


def stays_stopped(ctx: Context) -> bool:
    """Tell whether the tree stays stopped after the dump."""
    return ctx.params.get("after", RUN) in (STOP, HOLD)


def root_ref(ctx: Context) -> ProcessRef:
    """Return the job's first process, recorded by preflight."""
    return ProcessRef.from_dict(ctx.facts["root"])


def stage_of(ctx: Context) -> Stage:
    """Return the stage, recorded before it was made."""
    return Stage(Path(ctx.facts["stage"]))


def store_of(ctx: Context) -> str:
    """Return the store's folder."""
    return str(ctx.facts["store"])


def record_path(ctx: Context) -> Path:
    """Return where the dump leaves what the manifest needs."""
    return ctx.folder / "dumped.json"


def thaw(ctx: Context) -> None:
    """Make sure that the job runs as before; every undo begins with this.

    Raises:
        GpuguardError: it cannot be brought to run.
    """
    root: Any = ctx.facts.get("root")
    if root is None or not ctx.alive(root):
        return  # nothing was touched yet, or the job has ended by itself
    if stays_stopped(ctx) and end_if_superseded(ctx):
        return
    resume_tree(ProcessRef.from_dict(root), ctx.facts.get("was_stopped", []), RESUME_SECONDS)


def end_if_superseded(ctx: Context) -> bool:
    """End the stopped copy instead of letting it go on if another host has taken the job over."""
    job = Job.from_dict(ctx.facts["job"])
    newer = superseded(job)
    if newer is None:
        return False
    ctx.record(f"it does not go on: {newer.host} holds epoch {newer.epoch} since {newer.at}")
    end_tree(root_ref(ctx), RESUME_SECONDS)
    note = f"stopped: {newer.host} took the job over while it was held here"
    save_job(ctx.paths, replace(job, state=JobState.STALE, note=note))
    return True


def clear_stage(ctx: Context) -> None:
    """Remove the stage; one that cannot be removed costs room, not the procedure."""
    stage = stage_of(ctx)
    try:
        stage.remove(ctx.folder)
    except OSError as error:
        ctx.record(f"{stage.folder} could not be removed ({error}): remove it by hand")
