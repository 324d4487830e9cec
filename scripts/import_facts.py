"""Copy a file of facts into tests/data/ under a header that says where it came from.

    python scripts/import_facts.py PATH/TO/checkpoint_failures.yaml …

The tests read the copies alone, so they run from a bare checkout. Edit the facts at their source
and run this again; the header holds the source's SHA-256, so a copy edited by hand is noticed.
"""

import argparse
import hashlib
from pathlib import Path

HEADER = (
    "# Copied by scripts/import_facts.py from the project's fact files, file {name}.\n"
    "# Change the source and copy again; SHA-256 of everything below this line:\n"
    "# {digest}\n"
)
DATA = Path(__file__).resolve().parent.parent / "tests" / "data"


def copied(source: Path) -> bytes:
    """Return the bytes of the copy of `source`."""
    content = source.read_bytes()
    header = HEADER.format(name=source.name, digest=hashlib.sha256(content).hexdigest())
    return header.encode() + content


def main() -> None:
    """Copy every file named on the command line."""
    parser = argparse.ArgumentParser(description="Copy files of facts into tests/data/.")
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    for source in parser.parse_args().files:
        target = DATA / source.name
        target.write_bytes(copied(source))
        print(f"{target.relative_to(DATA.parent.parent)}: {target.stat().st_size} bytes")


if __name__ == "__main__":
    main()
