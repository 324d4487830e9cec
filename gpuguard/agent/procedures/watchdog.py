"""The process beside a procedure: takes the locks, forks the runner, settles what it leaves.

Runner and watchdog share one open file description of each lock, so the job stays locked while
either lives, and whoever finds the procedure's lock free knows that nobody is at work on it.
"""

import os
import signal
import time
from pathlib import Path
from typing import Callable, Optional

from gpuguard.agent.clock import boot_id
from gpuguard.agent.disk import write_json
from gpuguard.agent.jobs.fencing import fence_held
from gpuguard.agent.locks import Lock, busy, read_holder, take_lock
from gpuguard.agent.paths import NodePaths
from gpuguard.agent.places import log_exception, write_log
from gpuguard.agent.procedures import boot_unit, engine, records
from gpuguard.agent.procedures.journal import Journal
from gpuguard.agent.procedures.kinds import find_kind
from gpuguard.agent.procedures.procedure import Context
from gpuguard.agent.procedures.retention import prune_procedures
from gpuguard.model.errors import GpuguardError
from gpuguard.model.procedures import EntryState, ProcedureState

_RECOVERIES = 3
_LOCK_SECONDS = 0.5  # a reader looks at the lock with a shared one for an instant
_RECOVER_LOCK_SECONDS = 600.0


def watch(paths: NodePaths, procedure_id: str, ready: Callable[[], None]) -> int:
    """Carry the procedure out beside a runner; return the exit code of this process.

    `ready` is called once the procedure has begun, or was refused.
    """
    begun = _begin(paths, procedure_id)
    ready()
    if not begun:
        return 0
    if not _in_child(lambda: run_procedure(paths, procedure_id)):
        _settle(paths, procedure_id)
    boot_unit.stand_down(paths)
    _fence(paths, procedure_id)
    prune_procedures(paths)
    return 0


def _fence(paths: NodePaths, procedure_id: str) -> None:
    """Stop a stale copy that first contact had to leave alone because we were at work on it."""
    request = records.read_request(paths.procedure(procedure_id))
    name = find_kind(request.kind).lock(request)
    if name is not None and (paths.job(name) / "job.json").exists():
        _in_child(lambda: _say_fenced(name, fence_held(paths, name)))


def _say_fenced(name: str, stopped: bool) -> None:
    if stopped:
        write_log(f"job {name}: the copy here was stale and is stopped")


def recover(paths: NodePaths, procedure_id: str, ready: Callable[[], None]) -> int:
    """Settle a procedure whose watchdog and runner are gone; return the exit code."""
    ready()
    folder = paths.procedure(procedure_id)
    own = take_lock(folder / "lock", {"procedure": procedure_id}, _LOCK_SECONDS)
    if own is None or records.read_result(folder):
        return 0
    request = records.read_request(folder)
    job = _take_job_lock(paths, folder, _RECOVER_LOCK_SECONDS)
    if job is None and find_kind(request.kind).lock(request):
        return 1
    (folder / records.REFUSED).unlink(missing_ok=True)
    _settle(paths, procedure_id)
    boot_unit.stand_down(paths)
    return 0


def _begin(paths: NodePaths, procedure_id: str) -> bool:
    folder = paths.procedure(procedure_id)
    own = take_lock(folder / "lock", {"procedure": procedure_id}, _LOCK_SECONDS)
    if own is None or records.read_result(folder) or (folder / "journal.jsonl").exists():
        return False
    request = records.read_request(folder)
    job = _take_job_lock(paths, folder, _LOCK_SECONDS)
    if job is None and find_kind(request.kind).lock(request):
        return False
    boot_unit.stand_ready(paths)
    journal = Journal.create(folder)
    journal.append("start", EntryState.NOTE, f"watchdog {os.getpid()}", {"boot_id": boot_id()})
    return True


def run_procedure(paths: NodePaths, procedure_id: str) -> None:
    """Run every step of the procedure and write its result."""
    _conclude(paths, procedure_id, engine.run)


def recover_procedure(paths: NodePaths, procedure_id: str) -> None:
    """Walk an interrupted procedure back, or forward after its commit, and write its result."""
    folder = paths.procedure(procedure_id)
    if not (folder / "journal.jsonl").exists():
        Journal.create(folder).close()
    _conclude(paths, procedure_id, engine.recover)


def _conclude(
    paths: NodePaths,
    procedure_id: str,
    work: Callable[..., engine.Outcome],
) -> None:
    folder = paths.procedure(procedure_id)
    request = records.read_request(folder)
    ctx = Context(request, paths, Journal.resume(folder), folder)
    outcome = work(find_kind(request.kind), ctx)
    ctx.journal.release_reserve()
    status = records.status_of(folder, request, outcome.state, outcome.error, ctx.journal)
    records.write_result(folder, status)
    ctx.journal.close()


def _take_job_lock(paths: NodePaths, folder: Path, wait: float) -> Optional[Lock]:
    request = records.read_request(folder)
    name = find_kind(request.kind).lock(request)
    if name is None:
        return None
    job = paths.job(name)
    job.mkdir(mode=0o700, parents=True, exist_ok=True)
    holder = {"procedure": request.id, "kind": request.kind, "asked_by": request.asked_by}
    lock = take_lock(job / "lock", holder, wait)
    if lock is None:
        write_json(folder / records.REFUSED, busy(name, read_holder(job / "lock")).to_dict())
    return lock


def _settle(paths: NodePaths, procedure_id: str) -> None:
    for attempt in range(_RECOVERIES):
        time.sleep(attempt)
        if _in_child(lambda: recover_procedure(paths, procedure_id)):
            return
    folder = paths.procedure(procedure_id)
    if records.read_result(folder):
        return
    error = GpuguardError(
        f"procedure {procedure_id} was cut off and could not be settled in {_RECOVERIES} tries",
        f"read {folder}/runner.log on the node, then look at the job: gpuguard jobs show",
    )
    request = records.read_request(folder)
    status = records.status_of(folder, request, ProcedureState.UNSETTLED, error.to_dict())
    records.write_result(folder, status)


def _in_child(work: Callable[[], None]) -> bool:
    """Run `work` in a forked process; True if it went through to its end."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            log_exception()
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    if status != 0:
        write_log(f"child {pid} ended with wait status {status}")
    return status == 0


def shield() -> None:
    """Outlive what ends a login: a procedure ends by itself, done or undone.

    Handlers, not SIG_IGN: an ignored signal stays ignored in whatever is executed from here.
    """
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
