"""Processes of a sandbox: known by pid, start time and the machine's boot, ended only by those."""

import os
import select
import signal
import time
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


def namespace_inits(word: str) -> list[ProcessMark]:
    """Return the processes that are pid 1 of a pid namespace and carry `word` as an argument."""
    found = []
    for entry in _PROC.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            arguments = (entry / "cmdline").read_bytes().split(b"\0")
            own = word.encode() in arguments and _is_namespace_init(entry)
        except (FileNotFoundError, ProcessLookupError):
            continue
        mark = mark_of(int(entry.name)) if own else None
        if mark:
            found.append(mark)
    return found


def end_process(mark: ProcessMark, seconds: float = 10.0) -> None:
    """End a process at once and wait until it is gone.

    Raises GpuguardError if it is still there after `seconds`: then it hangs in the kernel.
    """
    try:
        descriptor = os.pidfd_open(mark.pid)
    except ProcessLookupError:
        return
    try:
        # Looked at after opening: from here on the descriptor cannot mean another process.
        if not mark.alive():
            return
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        _wait_gone(mark, descriptor, seconds)
    finally:
        os.close(descriptor)


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
