"""Measure gpuguard against its rivals: `.venv/bin/python scripts/bench [--write FILE]`."""

import argparse
import sys
from pathlib import Path

import startup
from table import render


def main() -> int:
    """Measure, print the table, write it if asked; 1 if a budget is broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, help="also write the table to this file")
    options = parser.parse_args()
    programs = Path(sys.executable).parent
    rows = list(startup.rows(programs))
    page = render(rows, [])
    print(page)
    if options.write:
        options.write.parent.mkdir(parents=True, exist_ok=True)
        options.write.write_text(page)
    return 0 if all(row.kept for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
