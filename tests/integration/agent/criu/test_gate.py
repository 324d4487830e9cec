"""The commit gate between two processes: a runner, and a CRIU that asks from its hook."""

import subprocess
import sys
import time
from pathlib import Path

from gpuguard.agent.criu.gate import hook_path, open_gate

# Does what CRIU does with its script: closes the descriptors in the child, keeps its own.
FAKE_CRIU = """
import subprocess, sys
action = {"CRTOOLS_SCRIPT_ACTION": sys.argv[2], "PATH": "/usr/bin:/bin"}
done = subprocess.run([sys.argv[1]], env=action)
sys.exit(255 if done.returncode else 0)
"""


def ask(work: Path, action: str, answer: "bool | None", seconds: int = 20) -> "tuple[str, int]":
    gate = open_gate(work, seconds)
    criu = subprocess.Popen(
        [sys.executable, "-c", FAKE_CRIU, hook_path(), action], pass_fds=gate.for_criu(), cwd=work
    )
    gate.started()
    word = gate.wait(10)
    if answer is None:
        gate.close()
    else:
        gate.tell(answer)
    code = criu.wait(timeout=20)
    gate.close()
    assert not (work / "gate.sh").exists()
    return word, code


def test_the_gate_passes_a_yes(tmp_path: Path) -> None:
    assert ask(tmp_path, "post-dump", True) == ("frozen", 0)


def test_the_gate_passes_a_no(tmp_path: Path) -> None:
    assert ask(tmp_path, "post-dump", False) == ("frozen", 255)


def test_a_runner_that_dies_means_no_at_once(tmp_path: Path) -> None:
    began = time.monotonic()
    assert ask(tmp_path, "post-dump", None) == ("frozen", 255)
    assert time.monotonic() - began < 10


def test_other_hooks_ask_nothing(tmp_path: Path) -> None:
    assert ask(tmp_path, "pre-dump", True) == ("ended", 0)


def test_a_runner_that_hangs_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    gate = open_gate(tmp_path, 1)
    criu = subprocess.Popen(
        [sys.executable, "-c", FAKE_CRIU, hook_path(), "post-dump"],
        pass_fds=gate.for_criu(),
        cwd=tmp_path,
    )
    gate.started()
    assert gate.wait(10) == "frozen"
    assert criu.wait(timeout=20) == 255
    gate.close()
