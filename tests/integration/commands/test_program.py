"""gpuguard as a program: its output's end, its exit codes, signals, completion."""

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpuguard.commands.table import COMMANDS


def run(*words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("GPUGUARD_", "XDG_"))}
    clean.pop("NO_COLOR", None)
    return subprocess.run(
        [sys.executable, "-m", "gpuguard", *words],
        env={**clean, **environ},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )


def test_help_names_every_command_with_its_line() -> None:
    done = run("--help")
    for row in COMMANDS:
        assert f"{row.name} " in done.stdout
        assert row.help.split()[0] in done.stdout
    assert "Examples:" in done.stdout


def test_version_is_one_line() -> None:
    assert run("--version").stdout == "gpuguard 0.1.0\n"
    assert run("--debug", "--version").stdout == "gpuguard 0.1.0\n"


def test_a_reader_that_goes_away_is_no_traceback() -> None:
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m gpuguard info | true; echo ${{PIPESTATUS[0]}}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr
    assert done.stdout.strip() in ("0", "1")


@pytest.mark.parametrize(
    ("words", "buffered"),
    [
        (["info"], {}),
        (["info"], {"PYTHONUNBUFFERED": "1"}),
        (["--version"], {}),
        (["jobs", "list", "-o", "json"], {}),
        (["jobs", "list", "-o", "json"], {"PYTHONUNBUFFERED": "1"}),
    ],
)
def test_a_full_disk_is_an_error_not_a_traceback(
    fleet: dict[str, str], words: list[str], buffered: dict[str, str]
) -> None:
    clean = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "gpuguard", *words],
            env={**clean, **fleet, **buffered},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr.splitlines() == ["error: No space left on device"]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_have_codes(tmp_path: Path, number: signal.Signals, code: int) -> None:
    fifo = tmp_path / "inventory.yaml"
    os.mkfifo(fifo)
    child = subprocess.Popen(
        [sys.executable, "-m", "gpuguard", "-i", str(fifo), "restore", "llm"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    writer = opened_by_a_reader(fifo)
    child.send_signal(number)  # it waits for words that do not come
    _, said = child.communicate(timeout=20)
    os.close(writer)
    assert child.returncode == code, said
    assert "Traceback" not in said


def opened_by_a_reader(fifo: Path) -> int:
    """Return the writing end of `fifo` once somebody has opened the other one."""
    deadline = time.monotonic() + 30
    while True:
        try:
            return os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            assert error.errno == errno.ENXIO and time.monotonic() < deadline
            time.sleep(0.02)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script(shell: str) -> None:
    done = run("completion", shell)
    assert done.returncode == 0
    assert "_GPUGUARD_COMPLETE" in done.stdout
    if shell == "bash":
        subprocess.run(["bash", "-n"], input=done.stdout, text=True, check=True)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("gpuguard chec", ["checkpoint", "checkpoints"]),
        ("gpuguard jobs l", ["list", "logs"]),
        ("gpuguard jobs list --ou", ["--output"]),
    ],
)
def test_completion_answers(line: str, words: list[str]) -> None:
    done = run(_GPUGUARD_COMPLETE="complete_bash", COMP_WORDS=line, COMP_CWORD=str(line.count(" ")))
    assert done.stdout.split() == words
