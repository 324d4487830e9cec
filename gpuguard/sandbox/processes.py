"""Processes of a sandbox: known by pid, start time and the machine's boot, ended only by those."""

import os
import select
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from gpuguard.model.errors import GpuguardError

_PROC = Path("/proc")


@dataclass(frozen=True)
class ProcessMark:
    """One process, safe against a pid that was given to another one since."""

    pid: int
    start: int  # clock ticks since the machine's boot
    boot: str

    def alive(self) -> bool:
        """Say whether the process still runs; a zombie does not."""
        if self.boot != machine_boot():
            return False
        fields = _stat(self.pid)
        return bool(fields) and int(fields[19]) == self.start and fields[0] not in "ZX"


def machine_boot() -> str:
    """Return the machine's own boot id."""
    return (_PROC / "sys/kernel/random/boot_id").read_text().strip()


def read_mark(path: Path) -> ProcessMark | None:
    """Return the process a file names, or None if there is no file or it is not yet written."""
    try:
        words = path.read_text().split()
    except FileNotFoundError:
        return None
    return ProcessMark(int(words[0]), int(words[1]), words[2]) if len(words) == 3 else None


def mark_of(pid: int) -> ProcessMark | None:
    """Return the mark of a running process, or None if there is no such process."""
    fields = _stat(pid)
    return ProcessMark(pid, int(fields[19]), machine_boot()) if fields else None


def namespace_inits(folder: Path) -> list[ProcessMark]:
    """Return the processes that are pid 1 of a pid namespace and were started for `folder`.

    That is: one of their arguments is the folder, or a path below it.
    """
    own, below = str(folder).encode(), f"{folder}/".encode()
    found = []
    for entry in _PROC.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            arguments = (entry / "cmdline").read_bytes().split(b"\0")
            named = any(word == own or word.startswith(below) for word in arguments)
            if not named or not _is_namespace_init(entry):
                continue
        except (FileNotFoundError, ProcessLookupError):
            continue
        mark = mark_of(int(entry.name))
        if mark:
            found.append(mark)
    return found


def end_processes(marks: Iterable[ProcessMark | None], seconds: float = 10.0) -> None:
    """End processes at once, all of them first, and wait until they are gone.

    Raises GpuguardError if one is still there after `seconds`: then it hangs in the kernel.
    """
    ended: list[tuple[ProcessMark, int]] = []
    try:
        for mark in marks:
            descriptor = _kill(mark) if mark else None
            if mark and descriptor is not None:
                ended.append((mark, descriptor))
        for mark, descriptor in ended:
            _wait_gone(mark, descriptor, seconds)
    finally:
        for _, descriptor in ended:
            os.close(descriptor)


def _kill(mark: ProcessMark) -> int | None:
    """Send KILL and return the descriptor that tells the end, or None if it already came."""
    try:
        descriptor = os.pidfd_open(mark.pid)
    except ProcessLookupError:
        return None
    # Looked at after opening: from here on the descriptor cannot mean another process.
    if not mark.alive():
        os.close(descriptor)
        return None
    signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    return descriptor


def _wait_gone(mark: ProcessMark, descriptor: int, seconds: float) -> None:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    deadline = time.monotonic() + seconds
    while not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
        if time.monotonic() >= deadline:
            raise GpuguardError(
                f"sandbox: process {mark.pid} is still there {seconds:g} s after KILL",
                f"see where it hangs: cat /proc/{mark.pid}/stack; then run the command again",
            )


def _is_namespace_init(entry: Path) -> bool:
    for line in (entry / "status").read_text().splitlines():
        if line.startswith("NSpid:"):
            pids = line.split()[1:]
            return len(pids) > 1 and pids[-1] == "1"
    return False


def _stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat from the state on, or nothing for no process."""
    try:
        return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []
