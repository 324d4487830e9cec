"""The epochs of a job in its store: who made the highest one holds the job."""

import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from gpuguard.agent.hashing import sync_path
from gpuguard.model.codec import Record
from gpuguard.model.errors import GpuguardError, RefusedError


@dataclass(frozen=True)
class EpochRecord(Record):
    """One claim: this host runs the job from this epoch on."""

    epoch: int
    host: str
    uid: str
    procedure: str
    at: str  # UTC, ISO 8601


def highest_epoch(job_folder: Path) -> Optional[EpochRecord]:
    """Return the record of the highest epoch in a store's job folder, None before the first.

    Raises:
        GpuguardError: the record cannot be read.
    """
    folder = job_folder / "epochs"
    numbers = [int(name) for name in _names(folder) if name.isdigit()]
    if not numbers:
        return None
    return _read(folder / str(max(numbers)))


def claim_epoch(job_folder: Path, record: EpochRecord) -> None:
    """Make `record` in the store, exclusively and synced.

    Asked again with the same procedure it does nothing, so that it can be carried on after a crash.

    Raises:
        RefusedError: another procedure holds this epoch or a higher one.
        GpuguardError: the store cannot be written.
    """
    folder = job_folder / "epochs"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        _link(folder, record)
        sync_path(folder)
    except FileExistsError:
        _check_own(folder, record)
    except OSError as error:
        raise GpuguardError(f"cannot claim epoch {record.epoch} in {folder}: {error}") from error
    top = highest_epoch(job_folder)
    if top is not None and top.epoch > record.epoch:
        raise RefusedError(
            f"epoch {record.epoch} of the job is outdated: {top.host} holds epoch {top.epoch}"
        )


def _link(folder: Path, record: EpochRecord) -> None:
    handle, name = tempfile.mkstemp(prefix=".claim-", dir=folder)
    try:
        with os.fdopen(handle, "w") as file:
            json.dump(record.to_dict(), file)
            file.flush()
            os.fsync(file.fileno())
        os.link(name, folder / str(record.epoch))
    finally:
        Path(name).unlink()


def _check_own(folder: Path, record: EpochRecord) -> None:
    held = _read(folder / str(record.epoch))
    if (held.procedure, held.host, held.uid) != (record.procedure, record.host, record.uid):
        raise RefusedError(
            f"epoch {record.epoch} of the job was claimed by {held.host} at {held.at}",
            "ask where the job runs (gpuguard jobs list) before restoring it again",
            {"holder": held.to_dict()},
        )


def _read(path: Path) -> EpochRecord:
    try:
        return EpochRecord.from_dict(json.loads(path.read_text()))
    except (OSError, ValueError, AttributeError) as error:
        raise GpuguardError(f"cannot read the epoch record {path}: {error}") from error


def _names(folder: Path) -> list[str]:
    try:
        return [entry.name for entry in folder.iterdir()]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise GpuguardError(f"cannot read {folder}: {error}") from error
