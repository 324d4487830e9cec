"""Run a soak: ``python -m tests.soak --minutes 10 --seed 7`` (as root)."""

import argparse
import os
import sys
import tempfile
from pathlib import Path

from gpuguard.sandbox import fleet
from gpuguard.sandbox.requirements import refusal
from tests.soak.actions import HOSTS
from tests.soak.soak import Broken, Soak

NICE = 5  # a soak is long; whoever works beside it goes first


def main() -> int:
    """Run one soak on a fleet of its own; return 0 if every promise held."""
    parser = argparse.ArgumentParser(prog="soak", description=str(__doc__))
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--name", default="soak", help="name of the practice fleet")
    parser.add_argument("--keep", action="store_true", help="leave the fleet up after a failure")
    options = parser.parse_args()
    hindrance = refusal()
    if hindrance is not None:
        print(f"soak: {hindrance}", file=sys.stderr)  # noqa: T201
        return 5
    os.nice(NICE)
    root = Path(tempfile.mkdtemp(prefix="gpuguard-soak-"))
    sandbox = fleet.up(options.name, hosts=len(HOSTS), root=root)
    keep = False
    try:
        soak = Soak(sandbox, options.seed, root / "operators", _say)
        count = soak.run(options.minutes * 60)
        _say(f"seed {options.seed}: {count} actions in {options.minutes:g} min, all promises held")
        return 0
    except Broken as broken:
        keep = options.keep
        _say(str(broken))
        _say(f"the fleet is kept: {root}" if keep else "again: the same seed")
        return 1
    finally:
        if not keep:
            sandbox.down()
            _remove(root)


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201


def _remove(root: Path) -> None:
    import shutil

    shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
