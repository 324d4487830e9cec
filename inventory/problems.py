"""What is wrong with a file, and where: gathered first, reported all at once."""

from dataclasses import dataclass
from typing import NoReturn

from gpuguard.model.codec import Record
from gpuguard.model.errors import UsageError

_SHOWN = 40  # a screen; the rest stays in the error's details


@dataclass(frozen=True)
class Problem(Record):
    """One fault of a file; lines and columns count from 1, 0 stands for the whole file."""

    line: int
    column: int
    key: str  # dotted; empty for the whole file
    reason: str


def describe(file: str, problem: Problem) -> str:
    """Return the problem as ``file:line:column: key: reason``, which editors can jump to."""
    place = f"{file}:{problem.line}:{problem.column}" if problem.line else file
    return (
        f"{place}: {problem.key}: {problem.reason}" if problem.key else f"{place}: {problem.reason}"
    )


def refuse(file: str, problems: list[Problem], hint: str | None = None) -> NoReturn:
    """Raise one UsageError that names every problem; `details` carries them as a list."""
    ordered = sorted(dict.fromkeys(problems), key=lambda problem: (problem.line, problem.column))
    lines = [describe(file, problem) for problem in ordered]
    if len(lines) > 1:
        shown = lines[:_SHOWN]
        if len(lines) > _SHOWN:
            shown.append(f"and {len(lines) - _SHOWN} more")
        lines = [f"{file}: {len(lines)} problems", *shown]
    details = {"file": file, "problems": [problem.to_dict() for problem in ordered]}
    raise UsageError("\n".join(lines), hint, details)
