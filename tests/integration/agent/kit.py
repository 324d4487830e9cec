"""A running agent to talk to, and the world its practice procedures change."""

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpuguard.agent import processes
from gpuguard.model.errors import error_from_dict
from gpuguard.model.jobs import ProcessRef

PROGRAM = Path(__file__).with_name("practice_agent.py")


class Agent:
    """An agent in a process of its own, spoken to over its pipes."""

    def __init__(self, root: Path, python: str = sys.executable) -> None:
        self.root = root
        self._process = subprocess.Popen(
            [python, "-I", str(PROGRAM), "serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "GPUGUARD_NODE_ROOT": str(root)},
        )
        self.pid = self._process.pid
        self._answers: dict[Any, queue.Queue[dict[str, Any]]] = {}
        self._next = 0
        assert self._process.stdin and self._process.stdout
        self.stdin = self._process.stdin
        self.hello = json.loads(self._process.stdout.readline())["hello"]
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            message = json.loads(line)
            self._answers.setdefault(message["id"], queue.Queue()).put(message)

    def ask(self, method: str, **params: Any) -> int:
        self._next += 1
        self._answers.setdefault(self._next, queue.Queue())
        request = {"id": self._next, "method": method, "params": params}
        self.stdin.write(json.dumps(request).encode() + b"\n")
        self.stdin.flush()
        return self._next

    def answer(self, request_id: int | None, seconds: float = 20) -> dict[str, Any]:
        return self._answers.setdefault(request_id, queue.Queue()).get(timeout=seconds)

    def call(
        self, method: str, on_event: Callable[[Any], None] = lambda event: None, **params: Any
    ) -> Any:
        request_id = self.ask(method, **params)
        while True:
            message = self.answer(request_id)
            if "event" in message:
                on_event(message["event"])
            elif "error" in message:
                raise error_from_dict(message["error"])
            else:
                return message["result"]

    def close(self) -> int:
        with contextlib.suppress(BrokenPipeError):
            self.stdin.close()
        code = self._process.wait(20)
        self._reader.join(5)
        if self._process.stdout:
            self._process.stdout.close()
        return code

    def kill(self) -> None:
        self._process.kill()
        self.close()


def wait_for(check: Callable[[], Any], seconds: float = 10) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := check()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)
    return found


def request(procedure_id: str, world: Path, **params: Any) -> dict[str, Any]:
    world.mkdir(exist_ok=True)
    return {
        "id": procedure_id,
        "kind": "practice",
        "params": {"job": "train", "world": str(world), **params},
        "asked_by": "test",
        "words": ["go", "discard"],
    }


def release(world: Path) -> None:
    """Let the step go on that waits."""
    (world / "released").touch()


def at_work(root: Path, procedure_id: str) -> list[ProcessRef]:
    """Return watchdog and runner of a procedure: the watchdog first."""
    found = []
    for pid, entry in processes.every_process().items():
        words = processes.command_line(pid)
        mine = str(root / "procedures" / procedure_id / "runner.log").encode() in words
        if mine and not entry.ended:
            found.append(entry)
    pids = {entry.pid for entry in found}
    return [entry.ref for entry in sorted(found, key=lambda entry: entry.parent in pids)]


def calls(world: Path) -> list[str]:
    path = world / "calls"
    return path.read_text().splitlines() if path.exists() else []
