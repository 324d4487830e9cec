"""Everything that would make a checkpoint fail, found before the job is touched."""

from pathlib import Path

from gpuguard.agent.checkpointing import facts
from gpuguard.agent.clock import utc_now
from gpuguard.agent.criu.invocations import criu_version
from gpuguard.agent.jobs.late_store import keep_store, with_store
from gpuguard.agent.jobs.register import load_job
from gpuguard.agent.procedures.procedure import Context, Step
from gpuguard.agent.store.epochs import EpochRecord, claim_epoch, highest_epoch
from gpuguard.agent.store.reading import load_manifest
from gpuguard.agent.store.write import claim_job_folder
from gpuguard.agent.survey.listening import listening_places
from gpuguard.agent.survey.open_files import capture_bytes, largest_deleted
from gpuguard.agent.survey.room_findings import check_host
from gpuguard.agent.survey.survey import Survey, survey_job
from gpuguard.checkpoint.naming import is_checkpoint_id
from gpuguard.model.errors import RefusedError, UsageError
from gpuguard.model.jobs import Job
from gpuguard.model.plans import Finding, Level

_MIB = 1024 * 1024


class Preflight(Step):
    """Look at job, host, stage and store; change nothing but our own marks in the store."""

    name = "preflight"

    def do(self, ctx: Context) -> None:
        """Record what the later steps rely on.

        Raises:
            RefusedError: with the whole list of reasons.
        """
        job = with_store(load_job(ctx.paths, facts.job_name(ctx)), ctx.params.get("store"))
        _require_request(ctx)
        survey = survey_job(job)
        survey.findings.extend(check_host(ctx.paths, survey))
        errors = [item for item in survey.findings if item.level is Level.ERROR]
        if errors or job.policy.store is None:
            raise _refusal(ctx, errors)
        folder = claim_job_folder(job.policy.store, job.spec.name, job.spec.uid)
        keep_store(ctx.paths, job)
        _claim_epoch(ctx, job, folder)
        _record(ctx, survey, job.policy.store, folder)


def _record(ctx: Context, survey: Survey, store: str, folder: Path) -> None:
    job, files = survey.job, survey.files
    ctx.record(
        f"{len(survey.tree)} processes, {survey.resident // _MIB} MiB",
        job=job.to_dict(),
        root=job.root.to_dict() if job.root else None,
        was_stopped=[task.pid for task in survey.tree if task.stopped],
        resident=survey.resident,
        tasks=len(survey.tree),
        ghost=largest_deleted(files),
        capture=capture_bytes(files, job.policy.capture_limit),
        criu_version=criu_version(),
        history=_last_freeze(folder),
        stage=str(Path(job.policy.stage) / facts.checkpoint_id(ctx)),
        store=store,
        notes=survey.texts(Level.WARNING),
        listens=listening_places(survey.tree[0].pid, survey.handles),
    )


def _require_request(ctx: Context) -> None:
    if not is_checkpoint_id(facts.checkpoint_id(ctx)):
        raise UsageError(f"{facts.checkpoint_id(ctx)!r} is no checkpoint id")
    if ctx.params.get("after", facts.RUN) not in (facts.RUN, facts.STOP, facts.HOLD):
        raise UsageError(f"a checkpoint cannot be followed by {ctx.params['after']!r}")


def _claim_epoch(ctx: Context, job: Job, folder: Path) -> None:
    top = highest_epoch(folder)
    epoch = max(1, job.epoch)
    if top is None or top.epoch < epoch:
        host = str(ctx.params["host"])
        claim_epoch(folder, EpochRecord(epoch, host, job.spec.uid, ctx.request.id, utc_now()))


def _last_freeze(folder: Path) -> list[float]:
    """Return how long the newest checkpoint froze the job, in seconds, if one tells."""
    names = sorted(item.name for item in folder.iterdir() if is_checkpoint_id(item.name))
    manifest = load_manifest(folder / names[-1], names[-1])[0] if names else None
    return [manifest.times.freeze_seconds] if manifest else []


def _refusal(ctx: Context, errors: list[Finding]) -> RefusedError:
    host, name = str(ctx.params["host"]), facts.job_name(ctx)
    text = f"{host}: job {name} cannot be saved: " + "; ".join(item.text for item in errors)
    return RefusedError(
        text,
        next((item.remedy for item in errors if item.remedy), f"gpuguard doctor --job {name}"),
        {
            "brief": f"refused: {', '.join(item.code for item in errors)}",
            "problems": [item.text for item in errors],
            "findings": [item.to_dict() for item in errors],
        },
    )
