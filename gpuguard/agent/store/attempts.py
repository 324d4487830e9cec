"""Who is bringing a job back now: numbered records in its store, made with link(2).

The holder of the newest record moves its counter as long as it is at work. Another one judges it
by that counter on its own clock: a counter that stands still for the record's whole term is dead.
Clocks are never compared. The record only spares work: who holds the job is decided by its epoch.
"""

import json
import os
import tempfile
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Callable, Optional

from gpuguard.agent.places import log_exception
from gpuguard.agent.store.epochs import highest_epoch
from gpuguard.agent.store.hashing import sync_path
from gpuguard.agent.store.reading import job_folder as store_job_folder
from gpuguard.agent.store.reading import require_store
from gpuguard.model.codec import Record
from gpuguard.model.errors import BusyError, GpuguardError

SECONDS = 10.0
_FOLDER = "restoring"
_BYTES = 512  # written in one piece, so that a reader sees the old or the new record
_POLL_SECONDS = 0.2
_TRIES = 5
_STOP_SECONDS = 5.0


@dataclass(frozen=True)
class Attempt(Record):
    """One attempt to bring the job back."""

    procedure: str
    host: str
    asked_by: str
    since: str  # UTC, ISO 8601
    seconds: float = SECONDS  # a counter that stands still for so long is dead
    counter: int = 0
    released: bool = False


class Held:
    """An attempt that is ours: its counter moves until `release` or the end of this process."""

    def __init__(self, path: Path, attempt: Attempt) -> None:
        self._path = path
        self._attempt = attempt
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._keep, daemon=True)
        self._thread.start()

    def _keep(self) -> None:
        while not self._over.wait(self._attempt.seconds / 8):
            self._attempt = replace(self._attempt, counter=self._attempt.counter + 1)
            try:
                _write(self._path, self._attempt)
            except FileNotFoundError:
                return  # others found us dead and went on long ago
            except OSError:
                log_exception()

    def stop(self) -> None:
        """Let the counter stand still."""
        self._over.set()
        # One that hangs in a dead store does not come back to write anything later.
        self._thread.join(_STOP_SECONDS)


_ours: dict[str, Held] = {}


def take_attempt(
    job_folder: Path, attempt: Attempt, clock: Callable[[], float] = time.monotonic
) -> Held:
    """Write down that we bring the job back, unless somebody alive does so already.

    Raises:
        BusyError: it is being brought back; the message says by whom and since when.
        GpuguardError: the store cannot be written.
    """
    folder = job_folder / _FOLDER
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        for _ in range(_TRIES):
            number, last = newest_attempt(job_folder)
            if last is not None and _lives(job_folder, number, last, attempt, clock):
                raise _busy(job_folder.name, last)
            if _link(folder / str(number + 1), attempt):
                _sweep(folder, number)
                _ours[attempt.procedure] = Held(folder / str(number + 1), attempt)
                return _ours[attempt.procedure]
    except OSError as error:
        raise GpuguardError(f"cannot write to {folder}: {error}", "gpuguard doctor") from error
    raise GpuguardError(f"others take {folder} again and again", "try again in a moment")


def release_attempt(job_folder: Path, procedure: str) -> None:
    """Say that `procedure` is at work no more; does nothing if it never was. Raises OSError."""
    held = _ours.pop(procedure, None)
    if held is not None:
        held.stop()
    number, last = newest_attempt(job_folder)
    if last is not None and last.procedure == procedure and not last.released:
        _write(job_folder / _FOLDER / str(number), replace(last, released=True))


def newest_attempt(job_folder: Path) -> tuple[int, Optional[Attempt]]:
    """Return number and record of the newest attempt, (0, None) before the first."""
    try:
        names = os.listdir(job_folder / _FOLDER)  # noqa: PTH208 - names alone
    except FileNotFoundError:
        return 0, None
    numbers = [int(name) for name in names if name.isdigit()]
    return (max(numbers), _read(job_folder / _FOLDER / str(max(numbers)))) if numbers else (0, None)


def read_lease(store: str, job: str) -> Optional[dict[str, Any]]:
    """Return the lease of the job's highest epoch, as its supervisor keeps it; None: it has none.

    Raises:
        GpuguardError: the store cannot be read, or the record makes no sense.
    """
    require_store(store)
    folder = store_job_folder(store, job)
    highest = highest_epoch(folder)
    path = folder / "leases" / str(highest.epoch if highest else 0)
    try:
        data: dict[str, Any] = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise GpuguardError(f"cannot read the lease {path}: {error}") from error
    return data


def _lives(
    job_folder: Path, number: int, last: Attempt, mine: Attempt, clock: Callable[[], float]
) -> bool:
    """Watch the counter for the record's term; ours of before a crash is no hindrance."""
    if last.released or last.procedure == mine.procedure:
        return False
    deadline = clock() + last.seconds
    while clock() < deadline:
        time.sleep(_POLL_SECONDS)
        found, now = newest_attempt(job_folder)
        if now is None or (now.released and found == number):
            return False
        if found != number or now.counter != last.counter:
            return True
    return False


def _busy(job: str, last: Attempt) -> BusyError:
    who = f"{last.procedure} of {last.asked_by}" if last.asked_by else last.procedure
    return BusyError(
        f"job {job} is being brought back on {last.host} by {who} since {last.since}",
        f"see how far it is: gpuguard jobs show {job}",
        {"holder": last.to_dict()},
    )


def _link(path: Path, attempt: Attempt) -> bool:
    handle, name = tempfile.mkstemp(prefix=".attempt-", dir=path.parent)
    os.close(handle)
    try:
        _write(Path(name), attempt)
        os.link(name, path)
    except FileExistsError:
        return False
    finally:
        Path(name).unlink()
    sync_path(path.parent)
    return True


def _write(path: Path, attempt: Attempt) -> None:
    # In place: readers of a network file system ask for the newest content of a file they know.
    text = json.dumps(attempt.to_dict()).encode()[: _BYTES - 1]
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.pwrite(descriptor, text.ljust(_BYTES - 1) + b"\n", 0)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _read(path: Path) -> Optional[Attempt]:
    try:
        return Attempt.from_dict(json.loads(path.read_text()))
    except (FileNotFoundError, ValueError):
        return None


def _sweep(folder: Path, number: int) -> None:
    for old in range(max(1, number - 8), number):
        (folder / str(old)).unlink(missing_ok=True)
