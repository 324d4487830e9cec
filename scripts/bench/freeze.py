"""How long a job of 1 GiB stands still, by its own clock: ours against bare CRIU."""

import os
import re
import time
from collections.abc import Iterator
from functools import partial

from measure import Row, in_turn
from practice import Practice

_RUNS = 5
_SIZE = 1024  # MiB
_RATIO = 1.10
_JOB = "large"
_HOST = "node1"
_BARE = "/var/lib/gpuguard/stage/bare"  # the same stage
_GAP = re.compile(r"gap ([0-9.]+)")


def rows(practice: Practice) -> Iterator[Row]:
    """Yield the freeze, ours and bare CRIU's in turn on the same job."""
    practice.start_job(_JOB, _HOST, _SIZE)
    ours = partial(_gap_during, practice, partial(_ours, practice))
    theirs = partial(_gap_during, practice, partial(_bare, practice))
    mine, other = in_turn(ours, theirs, _RUNS)
    what = f"freeze of a checkpoint, {_SIZE // 1024} GiB"
    yield Row(what, mine, "`criu dump --leave-running`", other, ratio_limit=_RATIO)


def _gap_during(practice: Practice, act: "partial[None]") -> float:
    """Return the longest time the job stood still while `act` ran, in seconds."""
    os.sync()  # what the one before left in the page cache must not slow this one down
    seen = len(practice.log(_JOB, _HOST))
    act()
    time.sleep(0.5)
    gaps = [float(text) for text in _GAP.findall(practice.log(_JOB, _HOST)[seen:])]
    if not gaps:
        raise RuntimeError("the job did not stand still: nothing was saved")
    return max(gaps)


def _ours(practice: Practice) -> None:
    practice.gpuguard("checkpoint", _JOB)
    _, listed = practice.ask("checkpoints", "list", _JOB)
    for item in listed["items"][1:]:
        practice.gpuguard("checkpoints", "rm", _JOB, item["checkpoint"], "--yes")


def _bare(practice: Practice) -> None:
    """Dump by hand with the options that the job's shape needs, and no others."""
    _, job = practice.ask("jobs", "show", _JOB)
    command = (
        f"rm -rf {_BARE} && mkdir -p {_BARE} && "
        f"nsenter -t {job['supervisor']['pid']} -p -m "
        f"criu dump -t {job['namespace_pid']} -D {_BARE} -o dump.log --manage-cgroups=ignore "
        "--tcp-close --file-locks --leave-running"
    )
    practice.sandbox.run(_HOST, ["sh", "-c", command], timeout=300)
    practice.sandbox.run(_HOST, ["rm", "-rf", _BARE])
