"""The epochs of a job in its store: who made the highest one holds the job."""

import contextlib
import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from gpuguard.agent.clock import utc_now
from gpuguard.agent.disk import write_json
from gpuguard.agent.store.hashing import sync_path
from gpuguard.model.codec import Record
from gpuguard.model.errors import BusyError, GpuguardError, RefusedError


@dataclass(frozen=True)
class EpochRecord(Record):
    """One claim: this host runs the job from this epoch on."""

    epoch: int
    host: str
    uid: str
    procedure: str
    at: str  # UTC, ISO 8601
    asked_by: str = ""
    checkpoint: Optional[str] = None  # what the job was restored from
    sequence: Optional[int] = None  # the newest one the store held then; later ones are strays


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
        BusyError: another procedure was faster; the message names it.
        RefusedError: a higher epoch is held already.
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
        hint = f"free or mount the store, then gpuguard restore {job_folder.name}"
        text = f"cannot claim epoch {record.epoch} in {folder}: {error}"
        raise GpuguardError(text, hint) from error
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
        raise taken(held)


def taken(held: EpochRecord) -> BusyError:
    """Return the error that names who took the job over, and since when."""
    who = f" ({held.procedure}{' of ' + held.asked_by if held.asked_by else ''})"
    return BusyError(
        f"{held.host} holds the job since {held.at}: epoch {held.epoch} was claimed by it{who}",
        "ask where the job runs (gpuguard jobs list) before restoring it again",
        {"holder": held.to_dict()},
    )


def read_claims(job_folder: Path) -> list[EpochRecord]:
    """Return every readable epoch record; raises GpuguardError if there can be no look at all."""
    folder = job_folder / "epochs"
    found = []
    for name in filter(str.isdigit, _names(folder)):
        with contextlib.suppress(GpuguardError):
            found.append(_read(folder / name))
    return found


def void_epoch(job_folder: Path, epoch: int, procedure: str) -> None:
    """Write beside the claim of `procedure` that its copy was ended before it ever ran.

    Does nothing if the claim was never made. Raises OSError, GpuguardError.
    """
    claim = job_folder / "epochs" / str(epoch)
    if claim.exists() and _read(claim).procedure == procedure:
        write_json(claim.with_name(f"{epoch}.void"), {"procedure": procedure, "at": utc_now()})


def is_void(job_folder: Path, epoch: int) -> bool:
    """Tell whether the copy of this epoch is known to have been ended before it ran."""
    return (job_folder / "epochs" / f"{epoch}.void").exists()


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
