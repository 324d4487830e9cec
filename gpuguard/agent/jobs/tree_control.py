"""Let a stopped tree go on, prove that it does, or end it; never believe, always look."""

import os
import signal
import time
from collections.abc import Iterable
from typing import Callable

from gpuguard.agent.processes import alive, send_signal
from gpuguard.agent.survey.tree_record import Task, read_tree
from gpuguard.model.errors import GpuguardError
from gpuguard.model.jobs import ProcessRef

_POLL_SECONDS = 0.01


def resume_tree(root: ProcessRef, leave_stopped: Iterable[int], seconds: float) -> bool:
    """Continue every stopped process of the tree; False if the job has ended by itself.

    `leave_stopped` names the processes that were stopped before we came. A process that CRIU still
    traces is waited for, since CRIU resumes it by itself.

    Raises:
        GpuguardError: after `seconds` something is still stopped or traced.
    """
    return _until_running(root, set(leave_stopped), seconds, _continue)


def prove_running(root: ProcessRef, leave_stopped: Iterable[int], seconds: float) -> bool:
    """Wait until no process of the tree is stopped or traced; False if the job has ended.

    Raises:
        GpuguardError: after `seconds` something still is.
    """
    return _until_running(root, set(leave_stopped), seconds, lambda held: None)


def stop_problems(root: ProcessRef) -> list[str]:
    """Return why the tree cannot be called wholly stopped; an empty list means that it is."""
    if not alive(root):
        return ["the job is gone"]
    return [
        f"{task.name} ({task.pid}) is in state {task.state}"
        for task in read_tree(root.pid)
        if not (task.stopped or task.zombie) or task.tracer
    ]


def await_stop(root: ProcessRef, seconds: float) -> list[str]:
    """Give the tree `seconds` to stop; return what `stop_problems` then still finds.

    CRIU lets go of a process with a pending SIGSTOP: it stops before it does anything of its own,
    but on a busy machine not before the scheduler comes round to it.
    """
    deadline = time.monotonic() + seconds
    problems = stop_problems(root)
    while problems and alive(root) and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
        problems = stop_problems(root)
    return problems


def end_tree(root: ProcessRef, seconds: float) -> None:
    """Kill every process of the tree and wait until they are gone.

    Raises:
        GpuguardError: after `seconds` something is still there.
    """
    deadline = time.monotonic() + seconds
    targets = {task.pid: task.start_time for task in _living(root)}
    while True:
        left = [ref for ref in _refs(targets) if alive(ref)]
        if not left:
            return
        if time.monotonic() > deadline:
            names = ", ".join(str(ref.pid) for ref in left)
            raise GpuguardError(
                f"processes {names} of the job do not end, 9 was sent to each",
                "they wait inside the kernel: see /proc/PID/stack; reboot the host if they stay",
            )
        for ref in left:
            send_signal(ref, signal.SIGKILL)
        targets.update((task.pid, task.start_time) for task in _living(root))
        time.sleep(_POLL_SECONDS)


def _until_running(
    root: ProcessRef, leave: set[int], seconds: float, act: Callable[[list[Task]], None]
) -> bool:
    deadline = time.monotonic() + seconds
    began = _ticks()
    while alive(root):
        # What is born meanwhile nobody but the job itself can have stopped or traced.
        tree = [task for task in read_tree(root.pid) if task.start_time <= began]
        held = [task for task in tree if (task.stopped and task.pid not in leave) or task.tracer]
        if not held:
            return alive(root)
        if time.monotonic() > deadline:
            raise _still_held(held)
        act(held)
        time.sleep(_POLL_SECONDS)
    return False


def _ticks() -> int:
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))


def _continue(held: list[Task]) -> None:
    for task in held:
        if task.state == "T" and not task.tracer:
            send_signal(ProcessRef(task.pid, task.start_time), signal.SIGCONT)


def _still_held(held: list[Task]) -> GpuguardError:
    tracers = sorted({task.tracer for task in held if task.tracer})
    listed = " ".join(str(task.pid) for task in held)
    if tracers:
        return GpuguardError(
            f"processes {listed} of the job are held by the tracer {tracers}",
            f"see what process {tracers[0]} is; when it ends the job goes on by itself",
        )
    return GpuguardError(f"processes {listed} of the job stay stopped", f"kill -CONT {listed}")


def _living(root: ProcessRef) -> list[Task]:
    return [task for task in read_tree(root.pid) if not task.zombie] if alive(root) else []


def _refs(targets: dict[int, int]) -> list[ProcessRef]:
    return [ProcessRef(pid, start) for pid, start in targets.items()]
