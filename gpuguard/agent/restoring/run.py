"""Bring the tree back, stopped, under a fresh supervisor; claim it; let it go on."""

import re
import time
from pathlib import Path

from gpuguard.agent.clock import boot_id, utc_now
from gpuguard.agent.criu.failure import FailedRun, explain_failure
from gpuguard.agent.criu.invocations import restore_command
from gpuguard.agent.criu.log import trim_log
from gpuguard.agent.criu.remains import remove_ghosts
from gpuguard.agent.disk import read_json, write_json, write_synced
from gpuguard.agent.jobs import register as jobs
from gpuguard.agent.jobs.supervision import (
    Launch,
    end_supervised,
    find_supervisor,
    lease_order,
    restore_words,
    start_supervised,
)
from gpuguard.agent.jobs.tree_control import await_stop, prove_running, resume_tree, stop_problems
from gpuguard.agent.procedures.procedure import Context, Step
from gpuguard.agent.processes import alive, wait_gone
from gpuguard.agent.restoring import facts
from gpuguard.agent.restoring.fence import leave_attempt
from gpuguard.agent.store.epochs import EpochRecord, claim_epoch, void_epoch
from gpuguard.agent.store.reading import list_checkpoints
from gpuguard.agent.store.write import probe_folder, unwritable
from gpuguard.agent.survey.tree_record import Task, read_tree
from gpuguard.checkpoint.limits import restore_seconds
from gpuguard.checkpoint.ordering import PARTIAL
from gpuguard.checkpoint.restart_pids import first_free_pid
from gpuguard.model.errors import GpuguardError, RefusedError
from gpuguard.model.jobs import Job, JobState, ProcessRef
from gpuguard.model.manifests import Manifest

_CORE = re.compile(r"\Aimages/core-([0-9]+)\.img\Z")
_GONE_SECONDS = 30.0
_GO_SECONDS = 30.0
_STOP_SECONDS = 10.0
_LIVES_SECONDS = 0.1  # what dies of its restore does so within a few ms
_MOVES_SECONDS = 5.0


class Restore(Step):
    """Restore the tree into fresh namespaces; every process stays stopped."""

    name = "restore"

    def do(self, ctx: Context) -> None:
        """Run CRIU under the job's new supervisor.

        Raises:
            GpuguardError: with CRIU's first error; a restore that hangs is ended with its
                namespaces, which harms nothing outside them.
        """
        manifest, folder = facts.verified_manifest(ctx), ctx.paths.job(facts.job_name(ctx))
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        ctx.record("restores", restoring=True, before=_found(folder))
        launch = Launch(
            folder=folder,
            words=restore_words(folder, _last_pid(manifest), _criu(ctx, manifest)),
            order=lease_order(manifest.job, facts.policy_of(ctx), int(ctx.facts["epoch"])),
            deadline=restore_seconds(manifest.bytes, len(manifest.tree)),
        )
        try:
            started = start_supervised(launch, lambda ref: _note(ctx, ref))
        except GpuguardError as error:
            _stop_hanging(ctx, error)
            raise _explained(ctx, error) from error
        root = started.root
        problems = await_stop(root, _STOP_SECONDS) if root else ["it is gone"]
        if root is None or problems:
            raise GpuguardError("the restored job does not stand stopped: " + "; ".join(problems))
        ctx.record("restored, stopped", root=root.to_dict())
        jobs.save_job(ctx.paths, _job(ctx, manifest, root, started.namespace_pid))

    def undo(self, ctx: Context) -> None:
        """End the fresh namespaces with all that lives in them; put the job's record back."""
        if not ctx.facts.get("restoring"):
            return
        folder = ctx.paths.job(facts.job_name(ctx))
        supervisor = facts.supervisor_ref(ctx)
        for ref in (supervisor if ctx.same_boot else None, find_supervisor(folder)):
            if ref is not None and alive(ref):
                _end(ref)
        _put_back(folder, ctx.facts.get("before") or {})
        _void_claim(ctx)
        deleted = [item.path for item in facts.verified_manifest(ctx).open_files if item.deleted]
        for line in remove_ghosts(deleted):
            ctx.tell(line)


class Hold(Step):
    """Wait, stopped, until the source has given the job away."""

    name = "hold"

    def applies(self, ctx: Context) -> bool:
        """Only for a move."""
        return bool(ctx.params.get("hold"))

    def do(self, ctx: Context) -> None:
        """Wait to be told.

        Raises:
            GpuguardError: it was called off, or no word came: this copy is discarded.
        """
        _require_claimable(ctx)
        seconds = float(ctx.params.get("hold_seconds") or 300.0)
        told = ctx.hold(("go", "discard"), seconds)
        name = facts.job_name(ctx)
        if told is None:
            text = f"no word came for job {name} within {seconds:.0f} s: the copy here is discarded"
            raise GpuguardError(text, f"ask where it runs: gpuguard jobs show {name}")
        word, data = told
        if word == "discard":
            raise GpuguardError(f"the restore of job {name} was called off: the copy is discarded")
        ctx.record("told to go on", go=data)


def _require_claimable(ctx: Context) -> None:
    """Find out before the source gives the job away that the store cannot be written here."""
    folder = facts.source_folder(ctx).parent
    try:
        probe_folder(folder)
    except OSError as error:
        raise unwritable(str(folder.parent), error) from error


class Claim(Step):
    """Make the store's next epoch record: from here on this host holds the job."""

    name = "claim"

    def do(self, ctx: Context) -> None:
        """Claim the epoch exclusively.

        Raises:
            BusyError: another host was faster.
            RefusedError: the old copy has shown that it lives.
            GpuguardError: the restored copy has vanished, or the store refuses.
        """
        problems = stop_problems(facts.root_ref(ctx))
        if problems:
            raise GpuguardError("the restored job is not held any more: " + "; ".join(problems))
        uid = facts.verified_manifest(ctx).job.uid
        epoch, host = int(ctx.facts["epoch"]), facts.host_name(ctx)
        folder = facts.source_folder(ctx)
        record = EpochRecord(
            epoch,
            host,
            uid,
            ctx.request.id,
            utc_now(),
            asked_by=ctx.request.asked_by,
            checkpoint=folder.name,
            sequence=_require_silence(ctx, folder.parent),
        )
        claim_epoch(folder.parent, record)


def _require_silence(ctx: Context, folder: Path) -> int:
    """Return the number of the newest checkpoint, which must not have come since the plan."""
    listed = list_checkpoints(str(ctx.params["store"]), folder.name)
    numbers = [info.sequence for info in listed if info.state != PARTIAL]
    seen = ctx.params.get("newest")
    newest = max(listed, key=lambda info: info.sequence, default=None)
    if newest and seen is not None and newest.sequence > int(seen) and not ctx.params.get("hold"):
        raise RefusedError(
            f"the old copy lives: {newest.host} has written checkpoint {newest.checkpoint} since "
            "this restore was planned",
            f"look at {newest.host}, then: gpuguard restore {folder.name}",
        )
    return max(numbers, default=0)


class Go(Step):
    """Let every process go on."""

    name = "go"

    def do(self, ctx: Context) -> None:
        """Continue the tree.

        Raises:
            GpuguardError: it has vanished, or a process stays stopped.
        """
        root = facts.root_ref(ctx)
        if not ctx.alive(root.to_dict()) or not resume_tree(root, (), _GO_SECONDS):
            raise _gone(ctx)


class Prove(Step):
    """Look whether the job really goes on."""

    name = "prove"

    def do(self, ctx: Context) -> None:
        """Wait for a sign of life of every process.

        Raises:
            GpuguardError: the job ended at once or does not move.
        """
        root = facts.root_ref(ctx)
        if not ctx.alive(root.to_dict()) or not prove_running(root, (), _GO_SECONDS):
            raise _gone(ctx)
        before = read_tree(root.pid)
        time.sleep(_LIVES_SECONDS)
        if not alive(root):
            raise _gone(ctx)
        _wait_for_moves(ctx, root, before)
        job = jobs.load_job(ctx.paths, facts.job_name(ctx))
        ctx.result.update(job=job.to_dict(), checkpoint=ctx.params["checkpoint"])
        leave_attempt(ctx)


def _void_claim(ctx: Context) -> None:
    """Say in the store that a claim cut off halfway came to nothing: no proof is needed then."""
    try:
        void_epoch(facts.source_folder(ctx).parent, int(ctx.facts["epoch"]), ctx.request.id)
    except (OSError, GpuguardError) as error:
        ctx.record(f"a claim in the store may stay, though its copy was ended: {error}")


def _criu(ctx: Context, manifest: Manifest) -> tuple[str, ...]:
    work = ctx.folder / "criu"
    nothing = ctx.folder / "no-plugins"
    for folder in (work, nothing):
        folder.mkdir(mode=0o700, exist_ok=True)
    pid_file = work / "root.pid"
    pid_file.unlink(missing_ok=True)
    images = facts.source_folder(ctx) / "images"
    return restore_command(
        str(images), str(work), str(nothing), str(pid_file), manifest.criu_options
    )


def _last_pid(manifest: Manifest) -> int:
    taken = {process.pid for process in manifest.tree}
    matches = (_CORE.match(item.path) for item in manifest.files)
    taken |= {int(match.group(1)) for match in matches if match}
    limit = int(Path("/proc/sys/kernel/pid_max").read_text())
    return first_free_pid(taken, limit)


def _note(ctx: Context, ref: ProcessRef) -> None:
    ctx.record(f"supervisor is process {ref.pid}", supervisor=ref.to_dict())


def _job(ctx: Context, manifest: Manifest, root: ProcessRef, namespace_pid: int) -> Job:
    return Job(
        spec=manifest.job,
        origin=manifest.origin,
        state=JobState.RUNNING,
        epoch=int(ctx.facts["epoch"]),
        boot_id=boot_id(),
        root=root,
        supervisor=facts.supervisor_ref(ctx),
        namespace_pid=namespace_pid,
        shell_job=manifest.shell_job,
        started_at=utc_now(),
        log=manifest.log,
        policy=facts.policy_of(ctx),
    )


def _stop_hanging(ctx: Context, error: GpuguardError) -> None:
    """End a restore past its deadline at once, and keep the ends of the log it filled.

    CRIU writes a line for each turn of an endless loop: more than a gigabyte in a minute.
    """
    supervisor = error.details.get("supervisor")
    if supervisor:
        _end(ProcessRef.from_dict(supervisor))
    trim_log(ctx.folder / "criu" / "restore.log")


def _explained(ctx: Context, error: GpuguardError) -> GpuguardError:
    log = ctx.folder / "criu" / "restore.log"
    host, name = facts.host_name(ctx), facts.job_name(ctx)
    # A supervisor in the details is one that still waits: CRIU has no exit status.
    code = None if "supervisor" in error.details else 1
    run = FailedRun(f"could not restore job {name}", host, log, error.message, code)
    told = explain_failure(run, {"job": name}, "the checkpoint is not touched")
    told.details = {**error.details, **told.details}
    return told


def _found(folder: Path) -> dict[str, object]:
    """Return the job's record and status as they are, to put them back."""
    status = folder / "status"
    return {
        "job": read_json(folder / "job.json"),
        "status": status.read_text(errors="replace") if status.exists() else None,
    }


def _put_back(folder: Path, before: dict[str, object]) -> None:
    if before.get("job"):
        write_json(folder / "job.json", before["job"])
    else:
        (folder / "job.json").unlink(missing_ok=True)
    status = before.get("status")
    if isinstance(status, str):
        write_synced(folder / "status", status.encode())
    else:
        (folder / "status").unlink(missing_ok=True)


def _end(supervisor: ProcessRef) -> None:
    end_supervised(supervisor)
    if not wait_gone(supervisor, _GONE_SECONDS):
        raise GpuguardError(
            f"the restored copy does not end, its supervisor is process {supervisor.pid}",
            f"kill -9 {supervisor.pid}; if it stays, reboot this host before the job runs again",
        )


def _wait_for_moves(ctx: Context, root: ProcessRef, before: list[Task]) -> None:
    """Every process sleeps for an event or uses the CPU; at least one moved, if any works."""
    deadline = time.monotonic() + _MOVES_SECONDS
    switches = {task.pid: task.switches for task in before}
    while alive(root):
        now = read_tree(root.pid)
        moved = any(task.switches != switches.get(task.pid) for task in now)
        if moved or all(task.state in ("S", "I", "R", "Z") for task in now):
            ctx.record("the job goes on" if moved else "the job waits for an event")
            return
        if time.monotonic() > deadline:
            states = " ".join(f"{task.pid}:{task.state}" for task in now)
            raise GpuguardError(f"the restored job does not move: {states}")
        time.sleep(_LIVES_SECONDS)
    raise _gone(ctx)


def _gone(ctx: Context) -> GpuguardError:
    name = facts.job_name(ctx)
    if not ctx.same_boot:
        text = f"the node was rebooted when job {name} had been restored here; it went with it"
        return GpuguardError(text, f"gpuguard restore {name}")
    status = jobs.load_job(ctx.paths, name)
    return GpuguardError(
        f"job {name} ended right after it was restored: {status.state.value}, "
        f"exit code {status.exit_code}",
        f"read its log (gpuguard jobs logs {name}), then gpuguard restore {name}",
    )
