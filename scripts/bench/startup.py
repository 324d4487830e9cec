"""How long the command line takes to answer, against clush of the same environment."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from measure import Row, in_turn, wall

_RUNS = 21
_LIMIT = 0.100
_RATIO = 1.5


def rows(programs: Path) -> Iterator[Row]:
    """Yield `--help` and `--version`, each in turn with `clush --version`."""
    rival = (str(programs / "clush"), "--version")
    for option in ("--help", "--version"):
        command = (str(programs / "gpuguard"), option)
        ours, theirs = in_turn(partial(wall, command), partial(wall, rival), _RUNS, 2)
        yield Row(f"`{option}`", ours, "`clush --version`", theirs, _LIMIT, _RATIO)
