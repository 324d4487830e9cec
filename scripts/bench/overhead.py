"""What gpuguard adds to a checkpoint and to a restore, the unavoidable work taken off."""

from collections.abc import Iterator

from measure import Row
from practice import Practice

_RUNS = 7
_SIZE = 16  # MiB
_LIMIT = 0.7
_JOB = "small"
# What a restore cannot do without: reading the image to check it, and CRIU's own work.
_RESTORE_WORK = ("verify", "restore")


def rows(practice: Practice) -> Iterator[Row]:
    """Yield the overhead of a checkpoint, then of a restore, as seen by who waits for them."""
    practice.start_job(_JOB, "node1", _SIZE)
    saves = [_checkpoint(practice) for _ in range(_RUNS + 1)][1:]
    yield Row(f"own part of a checkpoint, {_SIZE} MiB", saves, "-", limit=_LIMIT)
    restores = [_restore(practice, ("node2", "node1")[run % 2]) for run in range(_RUNS + 1)][1:]
    yield Row(f"own part of a restore, {_SIZE} MiB", restores, "-", limit=_LIMIT)


def _checkpoint(practice: Practice) -> float:
    total, answer = practice.ask("checkpoint", _JOB)
    times = answer["items"][0]["times"]
    parts = ("freeze_seconds", "copy_seconds", "hash_seconds")
    return total - sum(float(times[part]) for part in parts)


def _restore(practice: Practice, target: str) -> float:
    practice.gpuguard("checkpoint", _JOB, "--stop", "--yes")
    total, _ = practice.ask("restore", _JOB, "--to", target, "--yes")
    _, listed = practice.ask("ops", "list", "-n", "1")
    _, shown = practice.ask("ops", "show", listed["items"][0]["id"])
    work = sum(
        float(step["seconds"] or 0)
        for step in shown["steps"]
        if step["step"] in _RESTORE_WORK and step["state"] == "done"
    )
    return total - work
