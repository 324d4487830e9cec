"""Start a job's supervisor in fresh namespaces, and find it again among the host's processes."""

import json
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Optional

from gpuguard.agent import processes
from gpuguard.agent.jobs.status import read_status
from gpuguard.agent.procedures.detach import scope_argv, systemd_runs
from gpuguard.model.errors import GpuguardError
from gpuguard.model.jobs import JobPolicy, JobSpec, ProcessRef

FIRST_LAST_PID = 999  # the job root becomes pid 1000 of its namespace
_POLL_SECONDS = 0.01
_FOUND_SECONDS = 60.0  # a loaded node; ends at once if the supervisor does


@dataclass(frozen=True)
class Launch:
    """What a supervisor is started with."""

    folder: Path  # the job's folder: status and supervisor.log are written here
    words: tuple[str, ...]  # run_words(…) or restore_words(…)
    order: dict[str, Any] = field(default_factory=dict)  # the job to run; {} for a restore
    pass_fds: tuple[int, ...] = ()  # closed in the supervisor once the job runs
    deadline: Optional[float] = None  # seconds; None: as long as the supervisor lives


@dataclass(frozen=True)
class Supervised:
    """A job under its supervisor, by the host's pids."""

    supervisor: ProcessRef
    root: Optional[ProcessRef]  # None: it has ended already
    namespace_pid: int  # 0: it ended before anyone saw it


def run_words(folder: Path, last: int = FIRST_LAST_PID) -> tuple[str, ...]:
    """Return the supervisor's words for a new job."""
    return ("run", str(last), str(folder / "status"))


def restore_words(folder: Path, last: int, criu: tuple[str, ...]) -> tuple[str, ...]:
    """Return the supervisor's words for a restore; `criu` must hold --pidfile PATH."""
    return ("restore", str(last), str(folder / "status"), "--", *criu)


def lease_order(spec: JobSpec, policy: JobPolicy, epoch: int) -> dict[str, Any]:
    """Return what the supervisor's order says of the job's lease; nothing if it keeps none."""
    if policy.lease is None or policy.store is None:
        return {}
    lease = {"store": policy.store, "job": spec.name, "uid": spec.uid}
    return {"lease": {**lease, "epoch": epoch, "seconds": policy.lease}}


def supervisor_argv(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the whole command line, namespaces first."""
    program = str(Path(__file__).resolve().with_name("supervisor.py"))
    spaces = ("unshare", "-p", "-i", "-m", "--propagation", "slave", "--fork", "--mount-proc")
    return (*spaces, sys.executable, "-I", program, *words)


def start_supervised(
    launch: Launch, on_supervisor: Callable[[ProcessRef], None] = lambda ref: None
) -> Supervised:
    """Start a supervisor and wait until the job runs, or for a restore stands stopped.

    `on_supervisor` is called once the supervisor is known and before it does anything.

    Raises:
        GpuguardError: with the program's own reason; nothing of the job is left then. If the
            deadline passed, the supervisor lives and details["supervisor"] names it.
    """
    (launch.folder / "status").unlink(missing_ok=True)
    outer = _spawn(launch)
    supervisor = _wait_for_supervisor(launch, outer)
    on_supervisor(supervisor)
    _feed(outer, json.dumps(launch.order).encode())
    number = _wait_for_job(launch, supervisor)
    return Supervised(supervisor, host_ref(supervisor, number), number)


def find_supervisor(folder: Path) -> Optional[ProcessRef]:
    """Find the supervisor of a job's folder among all processes, None if there is none."""
    status = str(folder / "status").encode()
    for pid, entry in processes.every_process().items():
        words = processes.command_line(pid)
        ours = len(words) > 5 and words[2].endswith(b"/supervisor.py") and words[5] == status
        if ours and not entry.ended and _is_init(pid):
            return entry.ref
    return None


def host_ref(supervisor: ProcessRef, namespace_pid: int) -> Optional[ProcessRef]:
    """Return the host's view of a process inside the supervisor's namespace, None if gone."""
    for pid, inside in processes.in_namespace(supervisor.pid).items():
        if inside == namespace_pid:
            return processes.ref(pid)
    return None


def end_supervised(supervisor: ProcessRef) -> bool:
    """Kill the supervisor: the kernel then ends everything in its namespace at once."""
    return processes.send_signal(supervisor, 9)


def _spawn(launch: Launch) -> "subprocess.Popen[bytes]":
    command = supervisor_argv(launch.words)
    if systemd_runs():
        unit = f"gpuguard-job-{launch.folder.name}-{time.monotonic_ns():x}"
        command = scope_argv(unit, command)
    try:
        with (launch.folder / "supervisor.log").open("ab") as log:
            outer = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd="/",
                pass_fds=launch.pass_fds,
                start_new_session=True,
            )
    except OSError as error:
        raise GpuguardError(
            f"cannot start {command[0]}: {error}", "install util-linux on the node"
        ) from error
    # unshare waits for the supervisor and must be waited for in turn, as long as we live.
    threading.Thread(target=outer.wait, daemon=True).start()
    return outer


def _feed(outer: "subprocess.Popen[bytes]", data: bytes) -> None:
    pipe = outer.stdin
    if pipe is None:
        return
    try:
        pipe.write(data)
        pipe.close()
    except BrokenPipeError:
        return  # it ended already; the wait that follows says why


def _wait_for_supervisor(launch: Launch, outer: "subprocess.Popen[bytes]") -> ProcessRef:
    deadline = time.monotonic() + _FOUND_SECONDS
    while time.monotonic() < deadline:
        for pid in processes.children(outer.pid):
            found = processes.ref(pid)
            if found is not None and _is_init(pid) and processes.command_line(pid)[1:2] == [b"-I"]:
                return found
        if outer.poll() is not None:
            break
        time.sleep(_POLL_SECONDS)
    raise GpuguardError(
        f"the job's supervisor did not start: {_reason(launch)}",
        "see what the node lacks: gpuguard doctor",
    )


def _wait_for_job(launch: Launch, supervisor: ProcessRef) -> int:
    began = time.monotonic()
    while True:
        alive = processes.alive(supervisor)
        status = read_status(launch.folder / "status")
        if status.kind in ("running", "exit", "signal", "lapsed"):
            return status.number if status.kind == "running" else 0
        if status.kind == "failed" or not alive:
            raise GpuguardError(
                f"the job did not start: {_reason(launch)}",
                "correct the command, its folder or its user, then say the same again",
            )
        if launch.deadline is not None and time.monotonic() - began > launch.deadline:
            raise GpuguardError(
                f"the job did not start within {launch.deadline:.0f} s",
                details={"supervisor": supervisor.to_dict()},
            )
        time.sleep(_POLL_SECONDS)


def _is_init(pid: int) -> bool:
    numbers = processes.namespace_pids(pid)
    return len(numbers) > 1 and numbers[-1] == 1


def _reason(launch: Launch) -> str:
    status = read_status(launch.folder / "status")
    if status.kind == "failed":
        return status.text
    log = (launch.folder / "supervisor.log").read_text(encoding="utf-8", errors="replace")
    return log.strip().rpartition("\n")[2] or "no reason given"
