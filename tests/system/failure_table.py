"""Write what came of every cut as a page, one table a verb."""

from pathlib import Path

from tests.system.points import VERBS
from tests.system.waves import Case

_HEAD = """\
# What happens when it is cut

Written by `make failure-points`: each line is a place in the journal of a procedure, each column
what was killed there, on the practice fleet (real SSH, real CRIU, real processes). A cell says the
exit code of the command, what a person had to type afterwards (*nothing* where none is named), and
where the job was then. In every case there was one copy of the job, counted on every host; its
steps were those of one unbroken run; the checkpoint that was good before was good after.

A code of -9 is that of the killed command itself. `place+words` is not the beginning of a step but
the line with these words in it.
"""


def write_table(path: Path, cases: list[Case]) -> None:
    """Write the page; cases whose check failed are marked as such."""
    parts = [_HEAD]
    for verb in VERBS.values():
        own = [case for case in cases if case.verb is verb]
        if own:
            parts.append(_table(verb.name, own))
    path.write_text("\n".join(parts))


def _table(name: str, cases: list[Case]) -> str:
    victims = list(dict.fromkeys(case.victim for case in cases))
    points = list(dict.fromkeys(case.point for case in _in_order(cases)))
    lines = [f"## {name}", "", f"| struck at | {' | '.join(victims)} |"]
    lines.append(f"| --- |{' --- |' * len(victims)}")
    for point in points:
        cells = [_cell(cases, point.short, victim) for victim in victims]
        lines.append(f"| {point.short} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def _in_order(cases: list[Case]) -> list[Case]:
    order = {point: place for place, point in enumerate(cases[0].verb.points)}
    return sorted(cases, key=lambda case: order[case.point])


def _cell(cases: list[Case], point: str, victim: str) -> str:
    found = [case for case in cases if (case.point.short, case.victim) == (point, victim)]
    if not found:
        return ""
    case = found[0]
    code = case.ended.code if case.ended else "?"
    typed = "".join(f"; {word}" for word in case.recovered_by)
    failed = "; **FAILED**" if case.problems else ""
    return f"{code}{typed}; {case.outcome}{failed}"
