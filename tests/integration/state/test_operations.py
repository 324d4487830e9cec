"""The operator's journal between processes: kill -9, and writers that start together."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from gpuguard.model.operations import OperationState
from gpuguard.state.clock import SystemClock
from gpuguard.state.operations import Operations

CHILD = """
import sys, time
from pathlib import Path
from gpuguard.model.operations import OperationStep
from gpuguard.model.plans import Plan
from gpuguard.state.clock import SystemClock
from gpuguard.state.operations import Operations
plan = Plan("killed", "migrate", ("j",), ())
log = Operations(Path(sys.argv[1]), SystemClock()).begin(plan, "me@here")
log.step(OperationStep(0, "", "gpu001", "dump", "done"))
print("ready", flush=True)
time.sleep(60)
"""


def test_a_killed_operation_is_abandoned_and_keeps_its_steps(tmp_path: Path) -> None:
    operations = Operations(tmp_path / "operations.sqlite3", SystemClock())
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(operations.path)], stdout=subprocess.PIPE
    )
    assert child.stdout is not None
    assert child.stdout.readline() == b"ready\n"
    assert operations.show("killed").state is OperationState.RUNNING
    os.kill(child.pid, signal.SIGKILL)
    child.communicate()
    shown = operations.show("killed")
    assert shown.state is OperationState.ABANDONED
    assert [s.step for s in shown.steps] == ["dump"]


WRITER = """
import sys
from pathlib import Path
from gpuguard.model.operations import OperationState, OperationStep
from gpuguard.model.plans import Plan
from gpuguard.state.clock import SystemClock
from gpuguard.state.operations import Operations
plan = Plan(sys.argv[2], "migrate", ("j",), ())
log = Operations(Path(sys.argv[1]), SystemClock()).begin(plan, "me@here")
for number in range(20):
    log.step(OperationStep(0, "", "gpu001", "dump", "done"))
log.end(OperationState.DONE, 0)
"""


def test_writers_that_start_together_on_a_new_file_lose_nothing(tmp_path: Path) -> None:
    operations = Operations(tmp_path / "operations.sqlite3", SystemClock())
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(operations.path), name])
        for name in "xyz"
    ]
    assert [writer.wait(30) for writer in writers] == [0, 0, 0]
    for name in "xyz":
        assert [s.seq for s in operations.show(name).steps] == list(range(1, 21))
