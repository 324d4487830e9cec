# ruff: noqa: PTH115, PTH116, PTH208
# A frozen job waits for these reads, and plain os calls cost a fraction of what Path does.
"""Read what the kernel says of a job's processes."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from gpuguard.model.manifests import ProcessRecord

_KIB = 1024


@dataclass(frozen=True)
class Task:
    """One process as /proc shows it."""

    pid: int  # as the agent sees it
    inner_pid: int  # in the process's own pid namespace
    parent: int
    start_time: int  # clock ticks since boot
    state: str  # one letter, see proc_pid_stat(5)
    tracer: int
    threads: int
    name: str
    resident: int  # bytes
    private: int  # bytes of anonymous memory
    switches: int  # context switches so far
    uid: Optional[int] = None

    @property
    def stopped(self) -> bool:
        """Tell whether it is stopped or traced."""
        return self.state in ("T", "t")

    @property
    def zombie(self) -> bool:
        """Tell whether only its exit code is left."""
        return self.state in ("Z", "X")


def read_task(pid: int) -> Optional[Task]:
    """Read one process, None if it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
        fields = _status(Path(f"/proc/{pid}/status").read_text(errors="replace"))
    except (FileNotFoundError, ProcessLookupError):
        return None
    return Task(
        pid=pid,
        inner_pid=int(fields.get("NSpid", str(pid)).split()[-1]),
        parent=int(fields["PPid"]),
        start_time=int(stat.rpartition(b")")[2].split()[19]),
        state=fields["State"][0],
        tracer=int(fields["TracerPid"]),
        threads=int(fields.get("Threads", "1")),
        name=fields["Name"],
        resident=_bytes(fields.get("VmRSS")),
        private=_bytes(fields.get("RssAnon")),
        switches=int(fields.get("voluntary_ctxt_switches", "0"))
        + int(fields.get("nonvoluntary_ctxt_switches", "0")),
        uid=int(fields["Uid"].split()[1]),
    )


def read_tree(root: int) -> list[Task]:
    """Read the process `root` and all its descendants, parents first; empty if it is gone."""
    tasks = {task.pid: task for task in map(read_task, _pids()) if task is not None}
    if root not in tasks:
        return []
    children: dict[int, list[int]] = {}
    for task in tasks.values():
        children.setdefault(task.parent, []).append(task.pid)
    found, waiting = [], [root]
    while waiting:
        pid = waiting.pop(0)
        found.append(tasks[pid])
        waiting += sorted(children.get(pid, []))
    return found


def refresh(tasks: Iterable[Task]) -> list[Optional[Task]]:
    """Read `tasks` again, in order; None where a process is gone or its number was reused."""
    return [_same(task, read_task(task.pid)) for task in tasks]


def record_tree(tasks: Iterable[Task]) -> tuple[ProcessRecord, ...]:
    """Return what a manifest keeps of the tree."""
    listed = list(tasks)
    inner = {task.pid: task.inner_pid for task in listed}
    return tuple(
        ProcessRecord(
            pid=task.inner_pid,
            parent=inner.get(task.parent, 0),
            threads=task.threads,
            name=task.name,
            cwd=_link(task.pid, "cwd"),
            exe=_link(task.pid, "exe"),
            resident=task.resident,
            uid=task.uid,
        )
        for task in listed
    )


def pids_of_space(pid: int) -> list[int]:
    """Return every process that lives in the pid namespace of process `pid`; none if it is gone."""
    space = _namespace(pid)
    return [] if space is None else [other for other in _pids() if _namespace(other) == space]


def real_user(pid: int) -> int:
    """Return the numeric user a process runs as.

    Raises:
        OSError: the process is gone.
    """
    return os.stat(f"/proc/{pid}").st_uid


def differs(kind: str, one: str, two: str) -> bool:
    """Tell whether two processes live in different namespaces of a kind, such as mnt."""
    try:
        return os.readlink(f"/proc/{one}/ns/{kind}") != os.readlink(f"/proc/{two}/ns/{kind}")
    except OSError:
        return False  # ended meanwhile, or a kernel without this kind


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _namespace(pid: int) -> Optional[str]:
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")
    except OSError:
        return None  # gone, or a zombie without namespaces


def _same(before: Task, now: Optional[Task]) -> Optional[Task]:
    return now if now is not None and now.start_time == before.start_time else None


def _link(pid: int, name: str) -> str:
    try:
        return os.readlink(f"/proc/{pid}/{name}")
    except OSError:
        return ""  # a zombie has none


def _status(text: str) -> dict[str, str]:
    pairs = (line.partition(":") for line in text.splitlines())
    return {key: value.strip() for key, _, value in pairs}


def _bytes(field: Optional[str]) -> int:
    return int(field.split()[0]) * _KIB if field else 0
