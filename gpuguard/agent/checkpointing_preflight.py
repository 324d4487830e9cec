"""Everything that would make a checkpoint fail, found before the job is touched."""

import os
from dataclasses import dataclass, field
from pathlib import Path

from gpuguard.agent import checkpoint_facts as facts
from gpuguard.agent.clock import utc_now
from gpuguard.agent.connections import (
    open_connections,
    open_terminals,
    read_descriptors,
    shared_outside,
)
from gpuguard.agent.criu import require_criu
from gpuguard.agent.epochs import EpochRecord, claim_epoch, highest_epoch
from gpuguard.agent.jobs import load_job
from gpuguard.agent.open_files import (
    SeenFile,
    capture_bytes,
    largest_deleted,
    read_open_files,
    too_large,
)
from gpuguard.agent.procedure import Context, Step
from gpuguard.agent.shared_memory import host_memory_segments
from gpuguard.agent.stage import free_bytes, require_executable
from gpuguard.agent.store import load_manifest
from gpuguard.agent.store_id import recognise_store
from gpuguard.agent.store_write import claim_job_folder, unwritable
from gpuguard.agent.tree_record import Task, read_task, read_tree, strangers
from gpuguard.checkpoint.limits import room_needed
from gpuguard.checkpoint.naming import is_checkpoint_id
from gpuguard.model.errors import RefusedError, UsageError
from gpuguard.model.jobs import Job, JobState

_MIB = 1024 * 1024


@dataclass
class _Survey:
    """What was seen of the job, and what forbids the checkpoint."""

    job: Job
    tree: list[Task]
    files: list[SeenFile]
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class Preflight(Step):
    """Look at job, host, stage and store; change nothing but our own marks in the store."""

    name = "preflight"

    def do(self, ctx: Context) -> None:
        """Record what the later steps rely on.

        Raises:
            RefusedError: with the whole list of reasons.
        """
        job = load_job(ctx.paths, facts.job_name(ctx))
        _require_request(ctx)
        version = require_criu(os.uname().release, str(ctx.params["host"]))
        survey = _survey(job)
        store = _require_store(job)
        _recognise(ctx, store)
        folder = claim_job_folder(store, job.spec.name, job.spec.uid)
        _require_epoch(ctx, job, folder)
        stage = Path(job.policy.stage) / facts.checkpoint_id(ctx)
        require_executable(stage)
        _check_room(survey, stage, folder)
        if survey.problems:
            raise _refusal(job, survey.problems)
        ctx.record(
            f"{len(survey.tree)} processes, {_resident(survey.tree) // _MIB} MiB",
            job=job.to_dict(),
            root=job.root.to_dict() if job.root else None,
            was_stopped=[task.pid for task in survey.tree if task.stopped],
            resident=_resident(survey.tree),
            tasks=len(survey.tree),
            ghost=largest_deleted(survey.files),
            capture=capture_bytes(survey.files, job.policy.capture_limit),
            criu_version=version,
            history=_last_freeze(folder),
            stage=str(stage),
            store=store,
            notes=survey.notes,
        )


def _require_request(ctx: Context) -> None:
    if not is_checkpoint_id(facts.checkpoint_id(ctx)):
        raise UsageError(f"{facts.checkpoint_id(ctx)!r} is no checkpoint id")
    if ctx.params.get("after", facts.RUN) not in (facts.RUN, facts.STOP, facts.HOLD):
        raise UsageError(f"a checkpoint cannot be followed by {ctx.params['after']!r}")


def _require_store(job: Job) -> str:
    if job.policy.store is None:
        hint = f"name a store in policy {job.spec.policy_name} of the inventory"
        raise UsageError(f"job {job.spec.name} has no store", hint)
    return job.policy.store


def _recognise(ctx: Context, store: str) -> None:
    try:
        recognise_store(ctx.paths, store)
    except OSError as error:
        raise unwritable(store, error) from error


def _require_epoch(ctx: Context, job: Job, folder: Path) -> None:
    top = highest_epoch(folder)
    epoch = max(1, job.epoch)
    if top is not None and top.epoch > epoch:
        raise RefusedError(
            f"this copy of {job.spec.name} is outdated: {top.host} holds epoch {top.epoch}, "
            f"this one is of epoch {epoch}",
            f"end this copy: gpuguard jobs forget {job.spec.name} --force",
        )
    if top is None or top.epoch < epoch:
        host = str(ctx.params["host"])
        claim_epoch(folder, EpochRecord(epoch, host, job.spec.uid, ctx.request.id, utc_now()))


def _survey(job: Job) -> _Survey:
    if job.state is not JobState.RUNNING or job.root is None:
        why = {JobState.STOPPED: "it is stopped", JobState.EXITED: "it has ended"}
        text = why.get(job.state, f"its state is {job.state.value}")
        hint = f"gpuguard jobs show {job.spec.name}"
        raise RefusedError(f"job {job.spec.name} cannot be saved: {text}", hint)
    tree = read_tree(job.root.pid)
    if not tree or tree[0].start_time != job.root.start_time:
        raise RefusedError(f"job {job.spec.name} ended just now")
    pids = [task.pid for task in tree]
    survey = _Survey(job, tree, read_open_files(pids))
    _check_strangers(survey)
    _check_descriptors(survey, read_descriptors(pids))
    survey.notes += too_large(survey.files, job.policy.capture_limit)
    return survey


def _check_strangers(survey: _Survey) -> None:
    tracers = {task.tracer for task in survey.tree if task.tracer}
    survey.problems += [f"a process of it is traced by process {pid}" for pid in sorted(tracers)]
    if survey.job.supervisor is None:
        return
    for task in strangers(survey.job.supervisor.pid, survey.tree):
        survey.problems.append(
            f"process {task.pid} ({task.name}) lives in its namespaces but is not of its tree: "
            "it would be lost without a word"
        )


def _check_descriptors(survey: _Survey, descriptors: set[str]) -> None:
    for pid, names in shared_outside({task.pid for task in survey.tree}, descriptors).items():
        other = read_task(pid)
        name = other.name if other else "?"
        survey.problems.append(
            f"process {pid} ({name}) outside of its tree holds {', '.join(names)} of it: "
            "it would stay behind, and the job would lose the other end"
        )
    shared = host_memory_segments(task.pid for task in survey.tree)
    if shared:
        survey.problems.append(
            f"it uses System V shared memory of the host ({', '.join(shared)}), which CRIU saves "
            "only in an IPC namespace of the job's own: start it with gpuguard jobs run"
        )
    terminals = open_terminals(descriptors)
    if terminals:
        survey.problems.append(f"it uses the terminal {', '.join(terminals)}: start it without one")
    links = open_connections(survey.tree[0].pid, descriptors)
    if links and survey.job.policy.tcp == "refuse":
        survey.problems.append("it has open TCP connections: " + ", ".join(links))
    elif links:
        survey.notes.append("TCP connections closed in the checkpoint: " + ", ".join(links))


def _check_room(survey: _Survey, stage: Path, store: Path) -> None:
    ghosts = sum(item.record.size for item in survey.files if item.record.deleted)
    captured = capture_bytes(survey.files, survey.job.policy.capture_limit)
    need = room_needed(_resident(survey.tree), ghosts, captured, len(survey.tree))
    for what, folder in (("stage", stage), ("store", store)):
        free = free_bytes(folder)
        if free < need:
            survey.problems.append(
                f"the {what} {folder} has {free // _MIB} MiB free, the checkpoint may need "
                f"{need // _MIB} MiB"
            )


def _last_freeze(folder: Path) -> list[float]:
    """Return how long the newest checkpoint froze the job, in seconds, if one tells."""
    names = sorted(item.name for item in folder.iterdir() if is_checkpoint_id(item.name))
    manifest = load_manifest(folder / names[-1], names[-1])[0] if names else None
    return [manifest.times.freeze_seconds] if manifest else []


def _refusal(job: Job, problems: list[str]) -> RefusedError:
    text = f"job {job.spec.name} cannot be saved: " + "; ".join(problems)
    hint = f"remove the reasons, then try again: gpuguard checkpoint {job.spec.name}"
    return RefusedError(text, hint, {"problems": problems})


def _resident(tree: list[Task]) -> int:
    return sum(task.resident for task in tree)
