"""Tell processes outside of a job's tree from those it forks while it is looked at."""

import time
from typing import Callable, TypeVar

from gpuguard.agent.processes import stat
from gpuguard.agent.survey.connections import shared_outside
from gpuguard.agent.survey.tree_record import Task, pids_of_space, read_task

APART_SECONDS = 0.05
_TRIES = 5
_DEEP = 4096  # generations; more is a ring made of pids used again
_Key = TypeVar("_Key")
_Value = TypeVar("_Value")
Pid = tuple[int, int]  # with the start time: the same process, not the same number


def lasting(look: Callable[[], dict[_Key, _Value]]) -> dict[_Key, _Value]:
    """Return what two looks some time apart both find, as the later one sees it."""
    first = look()
    if not first:
        return {}
    time.sleep(APART_SECONDS)
    return {key: value for key, value in look().items() if key in first}


def strangers(supervisor: int, root: int) -> list[Task]:
    """Return the living processes of the supervisor's pid namespace that `root` is no parent of."""

    def look() -> dict[Pid, Task]:
        tasks = (read_task(pid) for pid in pids_of_space(supervisor) if pid != supervisor)
        return {
            (task.pid, task.start_time): task
            for task in tasks
            if task is not None and not task.zombie and not belongs(task.pid, root)
        }

    return list(lasting(look).values())


def holders_outside(root: int, targets: set[str], known: set[int]) -> dict[int, list[str]]:
    """Return which of the pipes and sockets `targets` processes outside of the tree hold, by pid.

    `known` are processes of the tree, which need not be looked at.
    """

    def look() -> dict[Pid, list[str]]:
        found = shared_outside(known, targets)
        entries = {pid: stat(pid) for pid in found}
        return {
            (pid, entry.start_time): found[pid]
            for pid, entry in entries.items()
            if entry is not None and not entry.ended and not belongs(pid, root)
        }

    return {pid: names for (pid, _), names in lasting(look).items()}


def belongs(pid: int, root: int) -> bool:
    """Tell whether `pid` descends from `root`, or has ended: then it is nobody's any more."""
    for _ in range(_TRIES):
        above = pid
        for _ in range(_DEEP):
            if above == root:
                return True
            if above <= 1:
                return False
            entry = stat(above)
            if entry is None:
                break  # a parent ended just now, and its children have another
            above = entry.parent
        if stat(pid) is None:
            return True
    return False
