"""CRIU's invocations as data, its version rules, and the commit gate between two processes."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpuguard.agent.criu.gate import hook_path, open_gate
from gpuguard.agent.criu.invocations import DumpOrder, dump_command, judge_version, restore_command

ORDER = DumpOrder(1000, 77, 9, 8, 7, 4096, shell_job=False, leave_stopped=False)


def test_the_dump_of_a_job_in_namespaces() -> None:
    assert " ".join(dump_command(ORDER)) == (
        "nsenter -t 77 -p -m criu dump -t 1000 -D /proc/self/fd/9 -W /proc/self/fd/8 -o dump.log "
        "-v4 --no-default-config --libdir /proc/self/fd/7 --manage-cgroups=ignore --tcp-close "
        "--file-locks --ghost-limit 4096 --action-script ./gate.sh --leave-running"
    )


def test_the_first_dump_of_an_adopted_job() -> None:
    order = DumpOrder(4711, None, 9, 8, 7, 4096, shell_job=True, leave_stopped=True)
    command = " ".join(dump_command(order))
    assert command.startswith("criu dump -t 4711 ")
    assert " --shell-job " in command
    assert command.endswith(" --leave-stopped")


def test_a_restore_replays_the_options_of_its_dump() -> None:
    options = ("--manage-cgroups=ignore", "--tcp-close", "--file-locks", "--shell-job")
    assert " ".join(restore_command("/i", "/w", "/p", "/w/root.pid", options)) == (
        "criu restore -D /i -W /w -o restore.log -v4 --no-default-config --libdir /p "
        "--manage-cgroups=ignore --tcp-close --file-locks --shell-job -d --restore-sibling "
        "--leave-stopped --pidfile /w/root.pid"
    )


@pytest.mark.parametrize(
    ("version", "kernel", "fits"),
    [
        ("4.2.1", "6.18.44", True),
        ("4.2", "6.16.0-rc1", True),
        ("4.1.1", "6.16.0", False),
        ("4.1.1", "6.15.9", True),
        ("4.10", "6.18", True),
        ("3.17.1", "6.1.0", False),
        (None, "6.1.0", False),
    ],
)
def test_versions(version: str, kernel: str, fits: bool) -> None:
    assert (judge_version(version, kernel) is None) == fits


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
