"""How much room and time a checkpoint or a restore may take, from its size and its past."""

from collections.abc import Sequence

MIB = 1024 * 1024
# Slowest rates seen on a busy two-core machine, so that a limit is overdue and not merely slow.
_DUMP_RATE = 50 * MIB
_RESTORE_RATE = 50 * MIB
_STORE_RATE = 10 * MIB
_BASE_SECONDS = 15.0
_PER_TASK_SECONDS = 0.1
_HISTORY_FACTOR = 4.0
_IMAGE_OVERHEAD = 16 * MIB
_PER_TASK_BYTES = 1 * MIB
GHOST_FLOOR = 1 * MIB


def dump_seconds(resident: int, tasks: int, history: Sequence[float] = ()) -> float:
    """Return after how many seconds a dump of `resident` bytes in `tasks` tasks is overdue.

    `history` holds the lengths of earlier dumps of the same job in seconds.
    """
    return _seconds(resident / _DUMP_RATE, tasks, history)


def restore_seconds(image: int, tasks: int, history: Sequence[float] = ()) -> float:
    """Return after how many seconds a restore of `image` bytes counts as hung."""
    return _seconds(image / _RESTORE_RATE, tasks, history)


def copy_seconds(image: int) -> float:
    """Return after how many seconds copying `image` bytes to a store is overdue."""
    return _seconds(image / _STORE_RATE, 0, ())


def room_needed(resident: int, ghosts: int, captured: int, tasks: int) -> int:
    """Return the bytes a stage or store must have free for one checkpoint."""
    return resident + ghosts + captured + _IMAGE_OVERHEAD + tasks * _PER_TASK_BYTES


def ghost_limit(largest: int) -> int:
    """Return the byte limit to give CRIU when `largest` is the biggest deleted open file.

    Twice the size, since the file may grow until the tree is frozen.
    """
    return max(GHOST_FLOOR, largest * 2)


def _seconds(by_size: float, tasks: int, history: Sequence[float]) -> float:
    sized = _BASE_SECONDS + by_size + tasks * _PER_TASK_SECONDS
    return max([sized, *(length * _HISTORY_FACTOR for length in history)])
