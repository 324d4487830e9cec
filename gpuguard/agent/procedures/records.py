"""The folder of one procedure: its request, its state as told by its files, its result."""

import contextlib
import json
import os
from pathlib import Path
from typing import Any, Optional

from gpuguard.agent.clock import utc_now
from gpuguard.agent.disk import read_json, sync_folder, write_json
from gpuguard.agent.locks import is_locked
from gpuguard.agent.paths import NodePaths
from gpuguard.agent.procedures.journal import Journal
from gpuguard.model.errors import GpuguardError, UsageError
from gpuguard.model.procedures import (
    EntryState,
    ProcedureRequest,
    ProcedureState,
    ProcedureStatus,
)

REFUSED = "refused.json"


def write_request(folder: Path, request: ProcedureRequest) -> bool:
    """Write request.json synced; False if it was there before: the id was asked already."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    sync_folder(folder.parent)
    data = {**request.to_dict(), "asked_at": utc_now()}
    temporary = folder / f".request.{os.getpid()}.{os.urandom(4).hex()}"
    try:
        with temporary.open("x", encoding="utf-8") as file:
            json.dump(data, file)
            file.flush()
            os.fsync(file.fileno())
        os.link(temporary, folder / "request.json")
    except FileExistsError:
        return False
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(folder)
    return True


def read_request(folder: Path) -> ProcedureRequest:
    """Return what was asked; raises UsageError if the node has no such procedure."""
    data = read_json(folder / "request.json")
    if data is None:
        raise UsageError(
            f"this node has no procedure {folder.name}", "list them: gpuguard ops list"
        )
    return ProcedureRequest.from_dict(data)


def read_result(folder: Path) -> Optional[ProcedureStatus]:
    """Return how the procedure ended, None while it has not."""
    data = read_json(folder / "result.json")
    return ProcedureStatus.from_dict(data) if data else None


def write_result(folder: Path, status: ProcedureStatus) -> None:
    """Write the final status by rename, synced; raises OSError."""
    write_json(folder / "result.json", status.to_dict())


def read_status(folder: Path) -> ProcedureStatus:
    """Return where the procedure stands now; raises UsageError for an unknown one."""
    request = read_request(folder)
    result = read_result(folder)
    if result is not None:
        return result
    refused = read_json(folder / REFUSED)
    if refused is not None:
        return status_of(folder, request, ProcedureState.FAILED, refused)
    try:
        journal = Journal.read(folder)
    except GpuguardError as error:
        return status_of(folder, request, ProcedureState.UNSETTLED, error.to_dict())
    if not is_locked(folder / "lock"):
        # It may have ended between the two looks.
        return read_result(folder) or status_of(
            folder, request, ProcedureState.ABANDONED, journal=journal
        )
    held = journal.facts.get("holding")
    state = ProcedureState.HOLDING if held else ProcedureState.RUNNING
    return status_of(folder, request, state, journal=journal)


def status_of(
    folder: Path,
    request: ProcedureRequest,
    state: ProcedureState,
    error: Optional[dict[str, Any]] = None,
    journal: Optional[Journal] = None,
) -> ProcedureStatus:
    """Build a status from the request and the journal."""
    last = journal.entries[-1] if journal and journal.entries else None
    # Undoing walks back to the first step: what matters is the one that failed.
    failed = [e for e in journal.entries if e.state is EntryState.FAILED] if journal else []
    at = failed[-1] if failed else last
    job = request.params.get("job")
    result = journal.facts.get("result") if journal else None
    return ProcedureStatus(
        id=request.id,
        kind=request.kind,
        state=state,
        started_at=asked_at(folder),
        job=str(job) if job is not None else None,
        step=at.step if at else None,
        last_seq=last.seq if last else 0,
        result=result if state is ProcedureState.DONE else None,
        error=error,
    )


def asked_at(folder: Path) -> str:
    """Return when the procedure was asked for, UTC."""
    return str((read_json(folder / "request.json") or {}).get("asked_at", ""))


def every_folder(paths: NodePaths) -> list[Path]:
    """Return the folders of all procedures that were asked for, oldest first."""
    found = []
    with contextlib.suppress(FileNotFoundError):
        for folder in paths.procedures.iterdir():
            with contextlib.suppress(FileNotFoundError):
                found.append(((folder / "request.json").stat().st_mtime_ns, folder))
    return [folder for _, folder in sorted(found)]


def open_folders(paths: NodePaths) -> list[Path]:
    """Return the procedures that have begun and have no result yet."""
    return [
        folder
        for folder in every_folder(paths)
        if not (folder / "result.json").exists() and not (folder / REFUSED).exists()
    ]
