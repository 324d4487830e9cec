"""Dump the tree with CRIU, and decide at the commit gate whether the dump may count."""

import json
import os
import platform
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

from gpuguard import __version__
from gpuguard.agent.checkpointing import facts
from gpuguard.agent.checkpointing.stage import Stage, free_bytes
from gpuguard.agent.clock import utc_now
from gpuguard.agent.criu.failure import FailedRun, explain_failure
from gpuguard.agent.criu.gate import Gate, open_gate
from gpuguard.agent.criu.invocations import DumpOrder, dump_command, lasting_options
from gpuguard.agent.criu.remains import end_helpers, lift_rules
from gpuguard.agent.host.facts import cpu_flags
from gpuguard.agent.jobs.tree_control import await_stop
from gpuguard.agent.procedures.procedure import Context, Step
from gpuguard.agent.processes import ref
from gpuguard.agent.survey.open_files import capture_files, read_open_files
from gpuguard.agent.survey.tree_record import read_tree, record_tree
from gpuguard.checkpoint.completeness import judge_images
from gpuguard.checkpoint.criu_stats import DumpStats, parse_dump_stats
from gpuguard.checkpoint.limits import dump_seconds, ghost_limit
from gpuguard.model.errors import GpuguardError
from gpuguard.model.jobs import Job
from gpuguard.model.manifests import Manifest, Times

_LEAST_FREE = 1024 * 1024
_CAPTURE_RATE = 20 * 1024 * 1024
_GATE_SECONDS = 30
_LOOK_SECONDS = 0.5
_STOP_SECONDS = 10.0


@dataclass
class _Seen:
    """What was read of the job while it was frozen."""

    tree: tuple[Any, ...] = ()
    files: tuple[Any, ...] = ()
    frozen_at: str = ""
    problem: Optional[str] = None


class Dump(Step):
    """Save the tree onto the stage; afterwards it runs on, or stays stopped if asked."""

    name = "dump"

    def do(self, ctx: Context) -> None:
        """Run CRIU to its end, however long it takes.

        Raises:
            GpuguardError: with CRIU's first error and where its log lies.
        """
        stage = facts.stage_of(ctx)
        ctx.record(f"stage {stage.folder}", staged=True)
        stage.make()
        seconds = _GATE_SECONDS + int(ctx.facts["capture"] / _CAPTURE_RATE)
        gate = open_gate(stage.logs, seconds)
        began = time.monotonic()
        try:
            seen, code = _run_criu(ctx, stage, gate)
        finally:
            gate.close()
        _judge_end(ctx, stage, seen, code)
        _leave_record(ctx, stage, seen, time.monotonic() - began)
        ctx.record("dumped", criu=None)

    def undo(self, ctx: Context) -> None:
        """Let the job go on, prove it, and clear the stage; CRIU's log is kept."""
        facts.thaw(ctx)
        if ctx.facts.get("criu"):  # it was started and did not end well
            # The job is proven to run, so nothing of that CRIU is at work on it any more.
            for line in [*end_helpers(int(ctx.facts["criu"]["pid"])), *lift_rules()]:
                ctx.tell(line)
        if ctx.facts.get("staged"):
            facts.clear_stage(ctx)


def _run_criu(ctx: Context, stage: Stage, gate: Gate) -> tuple[_Seen, int]:
    nothing = ctx.folder / "no-plugins"  # must exist and be empty, else CRIU's CUDA plugin is used
    nothing.mkdir(exist_ok=True)
    handles = [
        os.open(path, os.O_RDONLY | os.O_DIRECTORY) for path in (stage.images, stage.logs, nothing)
    ]
    try:
        command = dump_command(_order(ctx, handles))
        with (ctx.folder / "criu.out").open("wb") as output:
            criu = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=(*handles, *gate.for_criu()),
                start_new_session=True,
                cwd="/",
            )
    finally:
        for handle in handles:
            os.close(handle)
    gate.started()
    limit = dump_seconds(ctx.facts["resident"], ctx.facts["tasks"], ctx.facts["history"])
    try:
        _note_criu(ctx, criu.pid, limit)
        seen = _pass_gate(ctx, stage, gate, limit, criu)
    except BaseException:
        # Never killed: without a yes at the gate it ends by itself, and the job goes on.
        gate.close()
        criu.wait()
        raise
    return seen, criu.wait()


def _order(ctx: Context, handles: list[int]) -> DumpOrder:
    job = Job.from_dict(ctx.facts["job"])
    inside = job.supervisor is not None
    root = job.namespace_pid if inside else facts.root_ref(ctx).pid
    return DumpOrder(
        root=root or facts.root_ref(ctx).pid,
        supervisor=job.supervisor.pid if job.supervisor else None,
        images=handles[0],
        work=handles[1],
        plugins=handles[2],
        ghost_limit=ghost_limit(ctx.facts["ghost"]),
        shell_job=job.shell_job,
        leave_stopped=facts.stays_stopped(ctx),
    )


def _note_criu(ctx: Context, pid: int, limit: float) -> None:
    process = ref(pid)
    text = f"criu is process {pid}; overdue after {limit:.0f} s, by size, tasks and the last time"
    ctx.record(text, criu=process.to_dict() if process else None)


def _pass_gate(
    ctx: Context, stage: Stage, gate: Gate, limit: float, criu: "subprocess.Popen[bytes]"
) -> _Seen:
    word = _wait_at_gate(gate, limit, criu)
    while word == "silent":
        ctx.record(f"overdue: CRIU is at work for more than {limit:.0f} s; it is waited for")
        word = _wait_at_gate(gate, limit, criu)
    seen = _Seen(frozen_at=utc_now())
    if word == "frozen":
        try:
            _look(ctx, stage, seen)
        except (OSError, GpuguardError) as error:
            seen.problem = str(error)
        gate.tell(seen.problem is None)
    return seen


def _wait_at_gate(gate: Gate, limit: float, criu: "subprocess.Popen[bytes]") -> str:
    """Wait for the question; a CRIU that was killed may leave a child that keeps the pipe open."""
    deadline = time.monotonic() + limit
    while True:
        word = gate.wait(min(_LOOK_SECONDS, max(0.0, deadline - time.monotonic())))
        if word != "silent":
            return word
        if criu.poll() is not None:
            return "ended"
        if time.monotonic() >= deadline:
            return "silent"


def _look(ctx: Context, stage: Stage, seen: _Seen) -> None:
    """Read what must be read while the tree stands still; every millisecond is the job's."""
    job = Job.from_dict(ctx.facts["job"])
    tree = [task for task in read_tree(facts.root_ref(ctx).pid) if not task.zombie]
    seen.tree = record_tree(tree)
    problems = judge_images(stage.image_sizes(), seen.tree, sum(task.private for task in tree))
    if free_bytes(stage.folder) < _LEAST_FREE:
        problems.append(f"the stage {stage.folder} is full")
    if problems:
        seen.problem = "the dump is not complete: " + "; ".join(problems)
        return
    files = read_open_files([task.pid for task in tree])
    seen.files = capture_files(files, stage.folder, job.policy.capture_limit)


def _judge_end(ctx: Context, stage: Stage, seen: _Seen, code: int) -> None:
    log = stage.logs / "dump.log"
    if code == 0 and seen.problem is None and seen.tree:
        if facts.stays_stopped(ctx):
            problems = await_stop(facts.root_ref(ctx), _STOP_SECONDS)
            if problems:
                raise GpuguardError("the job did not stay stopped: " + "; ".join(problems))
        return
    kept = ctx.folder / "dump.log"
    host, job, state = str(ctx.params["host"]), facts.job_name(ctx), "the job runs on"
    if not ctx.alive(ctx.facts["root"]):
        raise _ended(host, job, code, str(kept))
    full = free_bytes(stage.folder) < _LEAST_FREE
    if code != 0 and full and seen.problem is None:
        seen.problem = f"the stage {stage.folder.parent} is full"
    problem = seen.problem or ("it never asked at the commit gate" if code == 0 else None)
    if problem:
        text = f"{host}: CRIU could not save job {job}: {problem}"
        details = {"exit_code": code, "log": str(kept), "reason": problem}
        raise GpuguardError(text, f"read {kept} on {host}; {state}", details)
    said = _said(ctx.folder / "criu.out")
    run = FailedRun(f"could not save job {job}", host, log, said, code, kept)
    known = {"job": job, "criu": ctx.facts["criu_version"], "pid": facts.root_ref(ctx).pid}
    raise explain_failure(run, known, state)


def _ended(host: str, job: str, code: int, log: str) -> GpuguardError:
    text = f"{host}: job {job} ended while it was being saved; there is no new checkpoint"
    hint = f"see how it ended: gpuguard jobs show {job}; to go back: gpuguard restore {job}"
    return GpuguardError(text, hint, {"exit_code": code, "log": log, "reason": "job-ended"})


def _said(output: Path) -> str:
    return output.read_text(errors="replace").strip()


def _leave_record(ctx: Context, stage: Stage, seen: _Seen, seconds: float) -> None:
    """Write the manifest as far as it is known: the copy adds hashes and the later times."""
    job = Job.from_dict(ctx.facts["job"])
    stats = _stats(stage.logs / "stats-dump")
    times = Times(frozen=seen.frozen_at, dumped=utc_now(), freeze_seconds=stats.frozen)
    manifest = Manifest(
        checkpoint=facts.checkpoint_id(ctx),
        job=job.spec,
        origin=job.origin,
        host=str(ctx.params["host"]),
        epoch=max(1, job.epoch),
        sequence=0,
        namespace_pid=job.namespace_pid or facts.root_ref(ctx).pid,
        shell_job=job.shell_job,
        criu_options=lasting_options(job.shell_job),
        times=times,
        bytes=0,
        files=(),
        tree=seen.tree,
        open_files=seen.files,
        versions=_versions(ctx),
        cpu_flags=cpu_flags(),
        notes=tuple(ctx.facts.get("notes", ())),
        log=job.log,
        listens=tuple(ctx.facts.get("listens", ())),
    )
    facts.record_path(ctx).write_text(json.dumps(manifest.to_dict()))
    ctx.progress(f"frozen for {stats.frozen:.3f} s, dump took {seconds:.3f} s")
    journal = (ctx.folder / "journal.jsonl").read_bytes()
    (stage.logs / "journal.jsonl").write_bytes(journal)


def read_record(ctx: Context) -> Manifest:
    """Return what the dump left for the manifest."""
    data: dict[str, Any] = json.loads(facts.record_path(ctx).read_text())
    return Manifest.from_dict(data)


def _stats(path: Path) -> DumpStats:
    try:
        return parse_dump_stats(path.read_bytes())
    except (OSError, ValueError) as error:
        raise GpuguardError(f"CRIU's statistics cannot be read: {error}") from error


def _versions(ctx: Context) -> dict[str, str]:
    return {
        "gpuguard": __version__,
        "criu": str(ctx.facts["criu_version"]),
        "kernel": platform.release(),
        "arch": platform.machine(),
    }
