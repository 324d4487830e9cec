"""Measure gpuguard against its rivals: `.venv/bin/python scripts/bench [--write FILE]`.

Start-up and the reading of kernel lines need nothing; the other rows bring up a practice fleet and
need root.
"""

import argparse
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import kernel_lines
import startup
from measure import Row
from table import render

from gpuguard.sandbox.requirements import refusal

_GROUPS = ("startup", "kernel_lines", "overhead", "freeze")
_NEED_NOTHING = {"startup", "kernel_lines"}


def main() -> int:
    """Measure, print the table, write it if asked; the page says which budgets are not kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("groups", nargs="*", choices=[*_GROUPS, []], help="all by default")
    parser.add_argument("--write", type=Path, help="also write the table to this file")
    options = parser.parse_args()
    groups = options.groups or list(_GROUPS)
    no_fleet = refusal() if set(groups) - _NEED_NOTHING else None
    load = os.getloadavg()[0]
    rows = list(_measure(groups, Path(sys.executable).parent, no_fleet is None))
    left_out = [f"what needs the practice fleet: {no_fleet}"] if no_fleet else []
    page = render(rows, left_out, load)
    print(page)
    if options.write:
        options.write.parent.mkdir(parents=True, exist_ok=True)
        options.write.write_text(page)
    return 0


def _measure(groups: list[str], programs: Path, with_fleet: bool) -> Iterator[Row]:
    if "startup" in groups:
        yield from startup.rows(programs)
    if "kernel_lines" in groups:
        yield from kernel_lines.rows(programs)
    if with_fleet and set(groups) - _NEED_NOTHING:
        import freeze
        import overhead
        from practice import practice_fleet

        with practice_fleet(programs / "gpuguard") as practice:
            if "overhead" in groups:
                yield from overhead.rows(practice)
            if "freeze" in groups:
                yield from freeze.rows(practice)


if __name__ == "__main__":
    sys.exit(main())
