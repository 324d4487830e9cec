"""Print the measurements as a table that is readable as text and as Markdown."""

import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime

from measure import Row, spread

_TITLES = ("what", "ours", "rival", "theirs", "ratio", "budget", "kept")


def render(rows: Sequence[Row], left_out: Sequence[str], load: float) -> str:
    """Return the page: the machine, the table, what could not be measured and why.

    `load` is the load average before the measurements: what others were doing.
    """
    cells = [_TITLES, *(_cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(_TITLES))]
    lines = [_line(line, widths) for line in cells]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    page = ["# Measurements", "", _machine(load), "", *lines, "", _READING]
    page += [f"\nNot measured: {reason}" for reason in left_out]
    broken = [row.what for row in rows if not row.kept]
    page += [f"\nBudgets not kept: {', '.join(broken) or 'none'}."]
    return "\n".join(page) + "\n"


_READING = (
    "Medians, minimum and maximum in brackets. Ours and the rival's run in turn; the ratio is the "
    "median of the pairs. Made by `make bench`."
)


def _machine(load: float) -> str:
    day = datetime.now(UTC).date().isoformat()
    release = ".".join(platform.release().split(".")[:2])
    cores = os.cpu_count()
    others = "" if load < 1 else ": others were at work, so lengths are too long"
    return (
        f"{day}, Linux {release}, {cores} cores, Python {platform.python_version()}; "
        f"load average before: {load:.1f}{others}."
    )


def _cells(row: Row) -> tuple[str, ...]:
    ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
    theirs = spread(row.theirs) if row.theirs else ""
    return (
        *(row.what, spread(row.ours), row.rival, theirs, ratio),
        *(_budget(row), "yes" if row.kept else "NO"),
    )


def _budget(row: Row) -> str:
    parts = []
    if row.limit is not None:
        parts.append(f"≤ {row.limit:g} s" if row.limit >= 0.2 else f"≤ {row.limit * 1000:.0f} ms")
    if row.ratio_limit is not None:
        parts.append(f"≤ {row.ratio_limit:g} x")
    return ", ".join(parts)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
    return "| " + " | ".join(padded) + " |"
