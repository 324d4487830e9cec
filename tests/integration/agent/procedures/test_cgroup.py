"""Leaving a login's cgroup, where this machine has cgroup v2 to try it on."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuguard.agent.procedures import cgroup

CODE = """
import os, sys
sys.path.insert(0, sys.argv[1])
from gpuguard.agent.procedures import cgroup
if len(sys.argv) > 2:
    open(sys.argv[2] + "/cgroup.procs", "w").write(str(os.getpid()))
print(cgroup.leave_login())
print(cgroup._own())
"""


@pytest.fixture
def login(as_root: None) -> Iterator[Path]:
    top = cgroup._mount()
    if top is None or not os.access(top, os.W_OK) or cgroup._own() != "/":
        pytest.skip("needs cgroup v2 that can be written, seen from its root")
    folder = top / f"gpuguard-test-login-{os.getpid()}"
    folder.mkdir()
    yield folder
    folder.rmdir()


def leave(*folder: str) -> list[str]:
    top = str(Path(cgroup.__file__).parents[2])
    command = [sys.executable, "-I", "-c", CODE, top, *folder]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_process_of_a_login_moves_to_our_own(login: Path) -> None:
    ours = login.parent / "gpuguard"
    there = ours.exists()
    assert leave(str(login)) == [str(ours), "/gpuguard"]
    if not there:
        ours.rmdir()


def test_process_at_the_root_stays(login: Path) -> None:
    assert leave() == ["None", "/"]
