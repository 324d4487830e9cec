"""Time things in pairs and say how sure the numbers are."""

import statistics
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One line of the table: ours and the rival's seconds, run by run, and the budget."""

    what: str
    ours: Sequence[float]
    rival: str
    theirs: Sequence[float] = ()
    limit: float | None = None  # seconds
    ratio_limit: float | None = None

    @property
    def ratio(self) -> float | None:
        """The median of the ratios pair by pair, so that a drifting machine cancels out."""
        if not self.theirs:
            return None
        pairs = zip(self.ours, self.theirs, strict=True)
        return statistics.median(ours / theirs for ours, theirs in pairs)

    @property
    def kept(self) -> bool:
        """Whether the budget holds."""
        if self.limit is not None and statistics.median(self.ours) > self.limit:
            return False
        ratio = self.ratio
        return self.ratio_limit is None or (ratio is not None and ratio <= self.ratio_limit)


def in_turn(
    ours: Callable[[], float], theirs: Callable[[], float], runs: int, warm_up: int = 1
) -> tuple[list[float], list[float]]:
    """Measure both `runs` times in turn, the first of each pair changing; warm-ups not counted."""
    mine, other = [], []
    for run in range(runs + warm_up):
        first, second = (ours, theirs) if run % 2 == 0 else (theirs, ours)
        pair = (first(), second())
        mine_now, other_now = pair if run % 2 == 0 else pair[::-1]
        if run >= warm_up:
            mine.append(mine_now)
            other.append(other_now)
    return mine, other


def wall(command: Sequence[str]) -> float:
    """Return the seconds `command` takes as a whole; raises CalledProcessError."""
    begin = time.perf_counter()
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, capture_output=True)
    return time.perf_counter() - begin


def spread(values: Sequence[float]) -> str:
    """Return the median with minimum and maximum, as in ``61 ms (58-70)``."""
    low, middle, high = min(values), statistics.median(values), max(values)
    if middle < 1:
        return f"{middle * 1000:.0f} ms ({low * 1000:.0f}-{high * 1000:.0f})"
    return f"{middle:.2f} s ({low:.2f}-{high:.2f})"
