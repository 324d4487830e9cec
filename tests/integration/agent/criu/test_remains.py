"""Processes that a dead CRIU has left are known by their session and name."""

import shutil
import subprocess
import time
from pathlib import Path

from gpuguard.agent.criu import remains as criu_remains


def test_a_sleeping_child_of_a_dead_criu_is_ended_and_other_sessions_are_not(
    tmp_path: Path,
) -> None:
    program = tmp_path / "criu"
    shutil.copy(shutil.which("sleep") or "/bin/sleep", program)
    left = subprocess.Popen([str(program), "60"], start_new_session=True)
    other = subprocess.Popen([str(program), "60"], start_new_session=True)
    try:
        deadline = time.monotonic() + 10
        while Path(f"/proc/{left.pid}/comm").read_text().strip() != "criu":
            assert time.monotonic() < deadline
            time.sleep(0.01)
        told = criu_remains.end_helpers(left.pid)
        assert told == [f"ended process {left.pid}, which a dead CRIU had left"]
        assert left.wait(10) == -9
        assert other.poll() is None
    finally:
        for process in (left, other):
            process.kill()
            process.wait()
