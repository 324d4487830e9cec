"""A practice fleet of the bench's own, its jobs, and gpuguard called as a user calls it."""

import contextlib
import json
import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuguard.sandbox import fleet
from gpuguard.sandbox.fleet import Sandbox

NAME = "bench"
# It holds memory that does not compress, and prints how long it stood still.
_JOB = """
import os, sys, time
memory = bytearray().join(os.urandom(1 << 20) for _ in range(int(sys.argv[1])))
print("ready", flush=True)
last = time.monotonic()
while True:
    time.sleep(0.002)
    now = time.monotonic()
    if now - last > 0.01:
        print(f"gap {now - last:.4f}", flush=True)
    last = now
"""
_READY_SECONDS = 120


@dataclass(frozen=True)
class Practice:
    """The fleet while it is up."""

    sandbox: Sandbox
    program: Path

    def gpuguard(self, *words: str) -> tuple[float, str]:
        """Run gpuguard; return its wall seconds and what it printed.

        Raises CalledProcessError, after showing what it said.
        """
        begin = time.perf_counter()
        done = subprocess.run(
            [str(self.program), *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env={**os.environ, "GPUGUARD_INVENTORY": str(self.sandbox.inventory)},
        )
        seconds = time.perf_counter() - begin
        if done.returncode != 0:
            print(done.stdout, done.stderr)
        done.check_returncode()
        return seconds, done.stdout

    def ask(self, *words: str) -> tuple[float, Any]:
        """Run gpuguard with JSON output; return its wall seconds and its answer."""
        seconds, printed = self.gpuguard(*words, "-o", "json")
        return seconds, json.loads(printed)

    def start_job(self, name: str, host: str, mebibytes: int) -> None:
        """Start a job with so much memory and wait until it holds it."""
        command = ["python3", "-c", _JOB, str(mebibytes)]
        self.gpuguard("jobs", "run", name, "--host", host, "--", *command)
        deadline = time.monotonic() + _READY_SECONDS
        while "ready" not in self.log(name, host):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{name} is not ready after {_READY_SECONDS} s")
            time.sleep(0.2)

    def log(self, name: str, host: str) -> str:
        """Return what the job has printed so far."""
        path = self.sandbox.path(host, f"/var/lib/gpuguard/jobs/{name}/log")
        return path.read_text(errors="replace") if path.exists() else ""


@contextlib.contextmanager
def practice_fleet(program: Path, hosts: int = 2) -> Iterator[Practice]:
    """Bring the fleet up and take it down, also when the measurement fails."""
    sandbox = fleet.up(NAME, hosts)
    try:
        yield Practice(sandbox, program)
    finally:
        sandbox.down()
