"""Locks between the agent's processes: flock on files that name their holder.

A lock belongs to the open file description: it is held as long as one process that inherited it
over fork lives, and the kernel drops it with the last one. No stale lock is possible.
"""

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

from gpuguard.agent.clock import utc_now
from gpuguard.agent.paths import NodePaths
from gpuguard.agent.processes import start_time
from gpuguard.model.errors import BusyError

_RETRY_SECONDS = 0.02
_FOLDER_TRIES = 10


@dataclass(frozen=True)
class Lock:
    """A lock that is held; close it to give it up."""

    path: Path
    descriptor: int

    def close(self) -> None:
        """Close this process's end of the lock."""
        os.close(self.descriptor)


def take_lock(path: Path, holder: dict[str, Any], wait: float = 0.0) -> Optional[Lock]:
    """Take the lock at `path` within `wait` seconds, None if another process keeps it.

    `holder` is written into the file, with pid, start time and time of day.
    """
    deadline = time.monotonic() + wait
    while True:
        lock = _try(path)
        if lock is not None:
            _name_holder(lock, holder)
            return lock
        if time.monotonic() >= deadline:
            return None
        time.sleep(_RETRY_SECONDS)


def read_holder(path: Path) -> dict[str, Any]:
    """Return what the lock file says of its holder; empty if nothing can be read there."""
    try:
        holder = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return holder if isinstance(holder, dict) else {}


def is_locked(path: Path) -> bool:
    """Tell whether a living process holds the lock at `path`."""
    try:
        descriptor = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def busy(job: str, holder: dict[str, Any]) -> BusyError:
    """Return the error that names who holds the job, and since when."""
    words = (holder.get("kind"), holder.get("procedure"))
    who = " ".join(str(word) for word in words if word) or "another run"
    asked_by = f" of {holder['asked_by']}" if holder.get("asked_by") else ""
    since = holder.get("since") or "an unknown time"
    hint = f"see how far it is: gpuguard jobs show {job}" if words[1] else None
    return BusyError(
        f"job {job} is held by {who}{asked_by} since {since}",
        hint or "try again in a moment",
        {"holder": holder},
    )


@contextlib.contextmanager
def job_lock(paths: NodePaths, name: str, kind: str, wait: float = 2.0) -> Iterator[None]:
    """Hold the lock of job `name` for the block; raises BusyError after `wait` seconds."""
    folder = paths.job(name)
    lock = _take_in(folder, kind, wait)
    if lock is None:
        raise busy(name, read_holder(folder / "lock"))
    try:
        yield
    finally:
        lock.close()


def _take_in(folder: Path, kind: str, wait: float) -> Optional[Lock]:
    """Take the lock; a holder may remove the folder of a job that never started or is forgotten."""
    for _ in range(_FOLDER_TRIES):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            return take_lock(folder / "lock", {"kind": kind}, wait)
        except FileNotFoundError:
            continue
    return None


def _try(path: Path) -> Optional[Lock]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _still_there(path, descriptor):
            return Lock(path, descriptor)
    except BlockingIOError:
        pass
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


def _still_there(path: Path, descriptor: int) -> bool:
    try:
        found = path.stat()
    except FileNotFoundError:
        return False
    mine = os.fstat(descriptor)
    return (found.st_dev, found.st_ino) == (mine.st_dev, mine.st_ino)


def _name_holder(lock: Lock, holder: dict[str, Any]) -> None:
    pid = os.getpid()
    full = {**holder, "pid": pid, "start_time": start_time(pid), "since": utc_now()}
    # The name only helps people: on a full disk the lock holds without it.
    with contextlib.suppress(OSError):
        os.ftruncate(lock.descriptor, 0)
        os.pwrite(lock.descriptor, json.dumps(full).encode(), 0)
