"""The supervisor by itself: what it says, what it needs, whom it restores."""

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gpuguard.agent import processes
from gpuguard.agent.jobs import supervision
from gpuguard.agent.jobs.launching import run_job
from gpuguard.agent.paths import NodePaths
from gpuguard.model.errors import GpuguardError
from gpuguard.model.jobs import JobPolicy, JobSpec, ProcessRef
from tests.integration.agent.jobs.asking import spec
from tests.integration.agent.kit import wait_for

pytestmark = pytest.mark.usefixtures("as_root")


def test_supervisors_last_words_are_in_the_error(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("run", "no-number", str(root / "jobs/train/status"))
    monkeypatch.setattr("gpuguard.agent.jobs.launching.run_words", lambda folder: words)
    what = JobSpec.from_dict(spec("true"))
    with pytest.raises(GpuguardError, match="did not start: ") as caught:
        run_job(NodePaths(root), what, JobPolicy(), "r1")
    assert "Invalid argument" in caught.value.message
    assert "Traceback" in caught.value.details["supervisor_log"]
    assert list((root / "jobs").iterdir()) == []


def test_forked_status_of_a_restore_is_read_from_its_pidfile(root: Path, world: Path) -> None:
    """A stand-in for criu: it makes a sibling, stopped, as `-d --restore-sibling` does."""
    folder = root / "jobs" / "back"
    folder.mkdir()
    program = world / "criu"
    program.write_text(
        f"#!{sys.executable}\n"
        "import ctypes, os, signal, sys\n"
        "libc = ctypes.CDLL(None)\n"
        "assert os.readlink(sys.argv[1]) == sys.argv[2], sys.argv\n"
        "pid = libc.syscall(56, 0x8000 | signal.SIGCHLD, 0, 0, 0, 0)\n"
        "if pid == 0:\n"
        "    os.kill(os.getpid(), signal.SIGSTOP)\n"
        "    os.execvp('sh', ['sh', '-c', 'exit 4'])\n"
        "open(sys.argv[sys.argv.index('--pidfile') + 1], 'w').write(f'{pid}\\n')\n"
    )
    program.chmod(0o755)
    held = fcntl.fcntl(os.open(world, os.O_RDONLY), fcntl.F_DUPFD_CLOEXEC, 200)
    known: list[ProcessRef] = []
    criu = (str(program), f"/proc/self/fd/{held}", str(world), "--pidfile", f"{folder}/status.pid")
    words = supervision.restore_words(folder, 1999, criu)
    launch = supervision.Launch(folder, words, pass_fds=(held,))
    done = supervision.start_supervised(launch, known.append)
    os.close(held)
    assert known == [done.supervisor]
    assert done.root and done.namespace_pid > 2000
    pid = done.root.pid
    wait_for(lambda: processes.states([pid])[pid] == "T")
    assert supervision.find_supervisor(folder) == done.supervisor
    assert not list(Path(f"/proc/{done.supervisor.pid}/fd").glob(str(held)))
    processes.send_signal(done.root, signal.SIGCONT)
    assert processes.wait_gone(done.supervisor, 10)
    assert (folder / "status").read_text().strip() == "exit 4"


def test_failed_restore_says_how_criu_ended(root: Path) -> None:
    folder = root / "jobs" / "back"
    folder.mkdir()
    words = supervision.restore_words(folder, 1999, ("false", "--pidfile", "x"))
    with pytest.raises(GpuguardError, match="criu ended with exit code 1"):
        supervision.start_supervised(supervision.Launch(folder, words))


def test_supervisor_needs_no_file_of_the_agent_once_it_runs(root: Path, tmp_path: Path) -> None:
    copied = tmp_path / "copied" / "supervisor.py"
    copied.parent.mkdir()
    shutil.copy(Path(supervision.__file__).with_name("supervisor.py"), copied)
    folder = root / "jobs" / "alone"
    folder.mkdir()
    order = {
        "command": ["sh", "-c", "sleep .5; exit 8"],
        "cwd": "/",
        "env": {"PATH": os.environ["PATH"]},
        "user": None,
        "log": str(folder / "log"),
        "oom_score_adj": "0",
    }
    words = supervision.run_words(folder)
    command = [
        str(copied) if w.endswith("supervisor.py") else w
        for w in supervision.supervisor_argv(words)
    ]
    process = subprocess.Popen(command, stdin=subprocess.PIPE)
    assert process.stdin
    process.stdin.write(json.dumps(order).encode())
    process.stdin.close()
    wait_for(lambda: (folder / "status").exists())
    shutil.rmtree(copied.parent)
    process.wait(10)
    assert (folder / "status").read_text().strip() == "exit 8"
