"""After the dump: prove that the job runs, or hold it stopped until somebody may take it over."""

from dataclasses import replace

from gpuguard.agent.checkpointing import facts
from gpuguard.agent.clock import utc_now
from gpuguard.agent.disk import write_json
from gpuguard.agent.jobs.register import load_job, save_job
from gpuguard.agent.jobs.tree_control import end_tree, prove_running, stop_problems
from gpuguard.agent.procedures.procedure import Context, Step
from gpuguard.agent.processes import alive
from gpuguard.model.errors import GpuguardError
from gpuguard.model.jobs import Job

GIVE_AWAY = "give_away"
DISCARD = "discard"
_PROVE_SECONDS = 10.0
_END_SECONDS = 60.0
_HOLD_SECONDS = 300.0


class GpuPlace(Step):
    """A place in the flow where GPU state is handled; CPU jobs have none."""

    def __init__(self, name: str) -> None:
        self.name = name

    def applies(self, ctx: Context) -> bool:
        """Nothing to do: the job's GPU state is not handled yet."""
        return False


class Prove(Step):
    """Look at every process: none stopped, none traced."""

    name = "prove"

    def applies(self, ctx: Context) -> bool:
        """Only where the job runs on."""
        return not facts.stays_stopped(ctx)

    def do(self, ctx: Context) -> None:
        """Wait a moment for the proof.

        Raises:
            GpuguardError: a process stays stopped, or is gone.
        """
        root = facts.root_ref(ctx)
        running = prove_running(root, ctx.facts.get("was_stopped", []), _PROVE_SECONDS)
        ctx.record("the job runs" if running else "the job has ended by itself since the dump")

    def undo(self, ctx: Context) -> None:
        """Let it go on, whatever is stopped."""
        facts.thaw(ctx)


class Hold(Step):
    """Keep the durable, stopped job until the target stands ready."""

    name = "hold"

    def applies(self, ctx: Context) -> bool:
        """Only for a move."""
        return ctx.params.get("after") == facts.HOLD

    def do(self, ctx: Context) -> None:
        """Wait to be told.

        Raises:
            GpuguardError: it was called off, or no word came: the job goes on here.
        """
        _require_stopped(ctx)
        seconds = float(ctx.params.get("hold_seconds") or _HOLD_SECONDS)
        told = ctx.hold((GIVE_AWAY, DISCARD), seconds)
        job = facts.job_name(ctx)
        if told is None:
            raise GpuguardError(
                f"no word came for job {job} within {seconds:.0f} s: it goes on here",
                f"its checkpoint is durable; start again: gpuguard migrate {job}",
            )
        word, data = told
        if word == DISCARD:
            raise GpuguardError(f"the move of job {job} was called off: it goes on here")
        _require_stopped(ctx)
        ctx.record("told to give it away", given_epoch=int(data.get("epoch", 0)))

    def undo(self, ctx: Context) -> None:
        """Let it go on."""
        facts.thaw(ctx)


class GiveAway(Step):
    """The point after which the job is another host's: written down before anything else."""

    name = "give-away"

    def applies(self, ctx: Context) -> bool:
        """Only for a move."""
        return ctx.params.get("after") == facts.HOLD

    def do(self, ctx: Context) -> None:
        """Journal it, then mark the job as gone from this host."""
        epoch = int(ctx.facts.get("given_epoch") or 0)
        ctx.commit(f"given away, epoch {epoch}")
        job = Job.from_dict(ctx.facts["job"])
        folder = ctx.paths.job(job.spec.name) / "gone"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        record = {
            "epoch": job.epoch,
            "given_to_epoch": epoch,
            "checkpoint": facts.checkpoint_id(ctx),
            "procedure": ctx.request.id,
            "at": utc_now(),
        }
        write_json(folder / f"{job.epoch}.json", record)


class End(Step):
    """End the stopped copy: its checkpoint is durable, or it was given away."""

    name = "end"

    def applies(self, ctx: Context) -> bool:
        """Only where the job does not run on here."""
        return facts.stays_stopped(ctx)

    def do(self, ctx: Context) -> None:
        """Kill the tree and see it gone.

        Raises:
            GpuguardError: a process does not end.
        """
        root = facts.root_ref(ctx)
        if ctx.alive(root.to_dict()):
            end_tree(root, _END_SECONDS)
        ctx.record(f"the copy on {ctx.params['host']} has ended")
        if ctx.params.get("after") == facts.STOP:
            note = f"stopped on purpose: checkpoint {facts.checkpoint_id(ctx)} is durable"
            job = load_job(ctx.paths, facts.job_name(ctx))
            save_job(ctx.paths, replace(job, note=note))
        # Not earlier: a target waits for the handover, and a large stage takes its time.
        facts.clear_stage(ctx)


def _require_stopped(ctx: Context) -> None:
    root = facts.root_ref(ctx)
    problems = stop_problems(root) if alive(root) else ["it has ended"]
    if problems:
        job = facts.job_name(ctx)
        raise GpuguardError(f"job {job} is not held stopped any more: " + "; ".join(problems))
