"""What system tests share: an operator at the real command line, and the practice fleet."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuguard.sandbox.fleet import Sandbox

COMMAND_SECONDS = 120


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@dataclass(frozen=True)
class Operator:
    """Someone who types gpuguard commands, with a state folder of their own."""

    sandbox: Sandbox
    state: Path

    @property
    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "GPUGUARD_INVENTORY": str(self.sandbox.inventory),
            "XDG_STATE_HOME": str(self.state / "state"),
            "XDG_CONFIG_HOME": str(self.state / "config"),
            "XDG_RUNTIME_DIR": str(self.state / "run"),
        }

    def try_(self, *words: str) -> Ended:
        """Run a command and return how it ended, whatever the exit code."""
        done = subprocess.run(
            self.argv(*words),
            env=self.environment,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=COMMAND_SECONDS,
            check=False,
        )
        return Ended(done.returncode, done.stdout, done.stderr)

    def run(self, *words: str, expect: int = 0) -> Ended:
        """Run a command that has to end with the exit code `expect`."""
        ended = self.try_(*words)
        assert ended.code == expect, f"{words}: exit {ended.code}\n{ended.out}\n{ended.err}"
        return ended

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start a command and leave it running."""
        return subprocess.Popen(
            self.argv(*words),
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def argv(self, *words: str) -> list[str]:
        """Return the command line that runs this checkout's gpuguard."""
        return [sys.executable, "-m", "gpuguard", *words]

    def log(self, job: str) -> str:
        """Return all the job has written so far."""
        return self.run("jobs", "logs", job, "-n", "1000000").out

    def jobs(self, job: str) -> dict[str, str]:
        """Return the state of the job on every host that knows it."""
        items = self.run("jobs", "list", "-o", "json").json["items"]
        return {item["host"]: item["state"] for item in items if item["spec"]["name"] == job}

    def newest(self, job: str) -> str:
        """Return the newest durable checkpoint."""
        items = self.run("checkpoints", "list", job, "-o", "json").json["items"]
        return next(str(item["checkpoint"]) for item in items if item["state"] == "durable")


def copies(sandbox: Sandbox, marker: str) -> list[tuple[str, int]]:
    """Return host and pid of every process whose command line holds `marker`, on any host.

    Looks from outside gpuguard, at the hosts themselves; criu, supervisors and unshare, which
    carry the job's command line as arguments, are left out.
    """
    found = []
    for host in sandbox.hosts:
        if sandbox.state(host) != "on":
            continue
        listed = sandbox.run(host, ["ps", "-eo", "pid=,ppid=,args="]).stdout
        for line in listed.splitlines():
            pid, _, arguments = line.split(None, 2)
            own = arguments.split()[:2]
            if marker in arguments and any(word.endswith("/steps") for word in own):
                found.append((host, int(pid)))
    return found


def until(true: Callable[[], bool], seconds: float = 40.0, what: str = "the condition") -> None:
    """Wait until `true` says so; fail after `seconds`, by default enough for a busy machine."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"{what} did not come within {seconds} s"
        time.sleep(0.05)
