"""The lock outlives its holder as long as a tool of the holder runs."""

import subprocess
import sys
from pathlib import Path

import pytest

from gpuguard.model.errors import BusyError
from gpuguard.sandbox.lock import locked

_HOLD = """
import subprocess, sys
from pathlib import Path
from gpuguard.sandbox.lock import held_descriptors, locked
with locked(Path(sys.argv[1])):
    tool = subprocess.Popen(["sh", "-c", "echo up; read line"], pass_fds=held_descriptors())
    tool.wait()
"""


def test_a_tool_of_a_killed_holder_keeps_the_lock_until_it_ends(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    argv = [sys.executable, "-c", _HOLD, str(path)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout and holder.stdin
        assert holder.stdout.readline() == b"up\n"
        holder.kill()
        holder.wait()
        with pytest.raises(BusyError), locked(path, wait=False):
            pass
        holder.stdin.close()
        with locked(path):
            pass
