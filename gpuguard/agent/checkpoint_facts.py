"""What the steps of a checkpoint tell each other, and the next process after a crash."""

from pathlib import Path
from typing import Any

from gpuguard.agent.procedure import Context
from gpuguard.agent.stage import Stage
from gpuguard.agent.tree_control import resume_tree
from gpuguard.model.jobs import ProcessRef

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
    resume_tree(ProcessRef.from_dict(root), ctx.facts.get("was_stopped", []), RESUME_SECONDS)


def clear_stage(ctx: Context) -> None:
    """Remove the stage; one that cannot be removed costs room, not the procedure."""
    stage = stage_of(ctx)
    try:
        stage.remove(ctx.folder)
    except OSError as error:
        ctx.record(f"{stage.folder} could not be removed ({error}): remove it by hand")
