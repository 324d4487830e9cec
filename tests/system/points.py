"""The points at which procedures are cut: every step name of docs/protocol.md, and places within.

A step that does not apply (`lock-gpu`, `save-gpu`, `resume-gpu`, `restore-gpu` of a CPU job;
`prove` of a job that stays stopped) never begins, so nothing can fail at it.
"""

from dataclasses import dataclass

from tests.system.cutting import RENAMED, Point

CRIU = "criu is process"
COPIES = "copies to"
COMMITTED = '"committed": true'
WAITS = "waits for"
ENDED = "has ended"
SUPERVISOR = "supervisor is process"
STANDS = "restored, stopped"


@dataclass(frozen=True)
class Verb:
    """What a user types, and where its procedure can be cut."""

    name: str
    words: tuple[str, ...]  # JOB and TARGET are filled in
    kind: str
    places: tuple[tuple[str, str], ...]
    on_target: bool = False  # the procedure runs on the target, not where the job was

    @property
    def points(self) -> tuple[Point, ...]:
        """Return the points in the order of the steps."""
        return tuple(Point(self.kind, step, mark) for step, mark in self.places)


def _begin(*steps: str) -> tuple[tuple[str, str], ...]:
    return tuple((step, "") for step in steps)


CHECKPOINT = Verb(
    "checkpoint",
    ("checkpoint", "JOB"),
    "checkpoint",
    (
        *_begin("preflight", "dump"),
        ("dump", CRIU),
        *_begin("prove", "copy"),
        ("copy", COPIES),
        *_begin("publish"),
        ("publish", RENAMED),
    ),
)
STOP = Verb(
    "checkpoint --stop",
    ("checkpoint", "JOB", "--stop", "--yes"),
    "checkpoint",
    (
        *_begin("preflight", "dump"),
        ("dump", CRIU),
        *_begin("copy", "publish"),
        ("publish", RENAMED),
        ("publish", COMMITTED),
        *_begin("end"),
    ),
)
RESTORE = Verb(
    "restore",
    ("restore", "JOB", "--to", "TARGET", "--yes"),
    "restore",
    (
        *_begin("preflight", "fence", "verify", "files", "restore"),
        ("restore", SUPERVISOR),
        *_begin("claim", "go", "prove"),
    ),
    on_target=True,
)
SOURCE = Verb(
    "migrate, source",
    ("migrate", "JOB", "--to", "TARGET", "--yes"),
    "checkpoint",
    (
        *_begin("preflight", "dump", "copy", "publish", "hold"),
        ("hold", WAITS),
        *_begin("give-away"),
        ("give-away", COMMITTED),
        *_begin("end"),
        ("end", ENDED),
    ),
)
TARGET = Verb(
    "migrate, target",
    ("migrate", "JOB", "--to", "TARGET", "--yes"),
    "restore",
    (
        *_begin("preflight", "fence", "verify", "files", "restore"),
        ("restore", STANDS),
        *_begin("hold"),
        ("hold", WAITS),
        *_begin("claim", "go", "prove"),
    ),
    on_target=True,
)
VERBS = {verb.name: verb for verb in (CHECKPOINT, STOP, RESTORE, SOURCE, TARGET)}
