"""The methods `procedures.*`: start, watch, tell, list, show."""

import shutil
import time
from pathlib import Path
from typing import Any, Callable

from gpuguard.agent.disk import read_json
from gpuguard.agent.locks import is_locked
from gpuguard.agent.paths import NodePaths
from gpuguard.agent.procedures import records
from gpuguard.agent.procedures.detach import start_watchdog, systemd_runs
from gpuguard.agent.procedures.journal import Journal
from gpuguard.agent.procedures.kinds import find_kind
from gpuguard.agent.procedures.recovery import recover_abandoned
from gpuguard.agent.procedures.told import call_off, tell
from gpuguard.model.errors import GpuguardError, UsageError, error_from_dict
from gpuguard.model.procedures import ProcedureRequest, ProcedureState, ProcedureStatus

_POLL_SECONDS = 0.005
_START_SECONDS = 30.0
_TAKEN_SECONDS = 5.0
_WORDS = ("go", "give_away", "discard")
CALL_OFF = "call_off"  # taken at any time before the commit, holding or not


def start_procedure(paths: NodePaths, request: ProcedureRequest) -> ProcedureStatus:
    """Start a procedure, or answer where it stands if its id was asked before.

    Returns when its watchdog holds the locks.

    Raises:
        BusyError: another run holds the job; nothing was done.
        GpuguardError: it could not be started.
    """
    find_kind(request.kind)
    folder = paths.procedure(request.id)
    job = request.params.get("job")
    if job is not None:
        paths.job(str(job))
        recover_abandoned(paths, str(job))
    if records.write_request(folder, request) or not _has_begun(folder):
        start_watchdog(paths, "watchdog", request.id)
        _wait_for_start(folder)
    return records.read_status(folder)


def watch_procedure(
    paths: NodePaths,
    procedure_id: str,
    after_seq: int,
    emit: Callable[[dict[str, Any]], None],
    pause: Callable[[float], None] = time.sleep,
) -> ProcedureStatus:
    """Emit each journal entry after `after_seq` until the procedure holds or ends."""
    folder = paths.procedure(procedure_id)
    size = -1
    while True:
        status = records.read_status(folder)
        found = _size(folder / "journal.jsonl")
        if found != size:
            size, after_seq = found, _emit_new(folder, after_seq, emit)
        if status.state is not ProcedureState.RUNNING and status.last_seq <= after_seq:
            return status
        pause(0.02)


def tell_procedure(
    paths: NodePaths, procedure_id: str, word: str, data: dict[str, Any]
) -> ProcedureStatus:
    """Tell a holding procedure a word; return its status when it has taken it.

    Raises:
        RefusedError: it does not wait for that word.
    """
    folder = paths.procedure(procedure_id)
    request = records.read_request(folder)
    if word == CALL_OFF:
        call_off(folder)
        return records.read_status(folder)
    if word not in _WORDS or (request.words and word not in request.words):
        raise UsageError(f"procedure {procedure_id} knows no word {word!r}")
    tell(folder, word, data)
    deadline = time.monotonic() + _TAKEN_SECONDS
    status = records.read_status(folder)
    while status.state is ProcedureState.HOLDING and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
        status = records.read_status(folder)
    return status


def list_procedures(paths: NodePaths) -> list[ProcedureStatus]:
    """Return every procedure of this node, oldest first."""
    return [records.read_status(folder) for folder in records.every_folder(paths)]


def show_procedure(paths: NodePaths, procedure_id: str) -> dict[str, Any]:
    """Return the status of a procedure, its journal entries and what was asked for."""
    folder = paths.procedure(procedure_id)
    status = records.read_status(folder)
    entries = [entry.to_dict() for entry in Journal.read(folder).entries]
    request = records.read_request(folder).to_dict()
    return {"status": status.to_dict(), "entries": entries, "request": request}


def _has_begun(folder: Path) -> bool:
    return (folder / "journal.jsonl").exists() or (folder / "result.json").exists()


def _wait_for_start(folder: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while not _has_begun(folder):
        refused = read_json(folder / records.REFUSED)
        if refused is not None:
            # Nothing was done under this id: it may be asked again.
            shutil.rmtree(folder, ignore_errors=True)
            raise error_from_dict(refused)
        if time.monotonic() > deadline or (not systemd_runs() and not is_locked(folder / "lock")):
            raise GpuguardError(
                f"the procedure {folder.name} did not start", f"read {folder}/runner.log"
            )
        time.sleep(_POLL_SECONDS)


def _emit_new(folder: Path, after_seq: int, emit: Callable[[dict[str, Any]], None]) -> int:
    for entry in Journal.read(folder).entries:
        if entry.seq > after_seq:
            emit({"entry": entry.to_dict()})
            after_seq = entry.seq
    return after_seq


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
