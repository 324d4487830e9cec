"""Real processes that use what a checkpoint cannot keep, and the job records around them."""

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from gpuguard.agent import processes
from gpuguard.model.jobs import Job, JobOrigin, JobPolicy, JobSpec, JobState

PRELUDE = """
import ctypes, fcntl, os, signal, socket, subprocess, sys, time
libc = ctypes.CDLL(None, use_errno=True)
def syscall(*words):
    number = libc.syscall(*words)
    if number < 0:
        print("unsupported", os.strerror(ctypes.get_errno()), flush=True)
        sys.exit(0)
    return number
"""


class UnsupportedError(Exception):
    """This kernel does not have what the program asks for."""


@contextmanager
def running(
    program: str, folder: Path, *options: str, **kept: object
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a Python program in a session of its own until it says that it is ready."""
    said = folder / "said"
    code = PRELUDE + textwrap.dedent(program) + "\nprint('ready', flush=True)\ntime.sleep(60)\n"
    with said.open("wb") as output:
        process = subprocess.Popen(
            [*options, sys.executable, "-c", code],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=folder,
            start_new_session=True,
            **kept,  # type: ignore[call-overload]
        )
    try:
        _await(process, said)
        yield process
    finally:
        _end(process.pid)
        process.wait(10)


def job_of(pid: int, tcp: str = "close", **changes: object) -> Job:
    """Return the record of an adopted job with `pid` as its first process."""
    root = processes.ref(pid)
    job = Job(
        spec=JobSpec("odd", uid="u-1"),
        origin=JobOrigin.ADOPTED,
        state=JobState.RUNNING,
        epoch=1,
        boot_id="",
        root=root,
        namespace_pid=pid,
        policy=JobPolicy(tcp=tcp, capture_limit=1 << 20),
    )
    return replace(job, **changes)  # type: ignore[arg-type]


def _await(process: subprocess.Popen[bytes], said: Path) -> None:
    from tests.unit.agent.kit import wait_for

    wait_for(lambda: b"\n" in said.read_bytes() or process.poll() is not None)
    text = said.read_text()
    if text.startswith("unsupported"):
        raise UnsupportedError(text)
    assert "ready" in text, text


def _end(pid: int) -> None:
    for entry in reversed(processes.tree(pid)):
        os.kill(entry.pid, 9)
