"""Many real gpuguard commands for the price of one start: a process that forks one for each.

Every command is a process of its own, with its own exit code, and can be killed as such; it only
does not import gpuguard anew. Run as `python -m tests.system.typist`: a line `NUMBER FOLDER WORDS…`
(JSON) starts a command, the answer is `started NUMBER PID`, and later `ended NUMBER CODE`.
"""

import json
import os
import select
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from tests.system.kit import Ended, Operator

_PRELOADED = (
    "gpuguard.commands.checkpoint",
    "gpuguard.commands.checkpoints",
    "gpuguard.commands.context",
    "gpuguard.commands.jobs",
    "gpuguard.commands.migrate",
    "gpuguard.commands.ops",
    "gpuguard.commands.restore",
    "gpuguard.inventory.load",
    "gpuguard.remote.pool",
    "gpuguard.running.checkpoint",
    "gpuguard.running.checkpoints",
    "gpuguard.running.jobs",
    "gpuguard.running.migrate",
    "gpuguard.running.restore",
)


@dataclass
class Command:
    """One command: its pid on this machine, and its exit code once it has ended."""

    words: tuple[str, ...]
    folder: Path
    pid: int = 0
    code: int | None = None

    def ended(self) -> Ended:
        """Return what it printed and how it ended; it must have."""
        assert self.code is not None, f"{self.words} still runs"
        out, err = ((self.folder / name).read_text(errors="replace") for name in ("out", "err"))
        return Ended(self.code, out, err)


@dataclass
class Typist:
    """Starts commands for an operator and hears of their ends."""

    operator: Operator
    folder: Path
    _commands: list[Command] = field(default_factory=list)
    _heard: bytes = b""

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._server = subprocess.Popen(
            [sys.executable, "-m", "tests.system.typist"],
            env=self.operator.environment,
            cwd=Path(__file__).parents[2],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._server.stdout is not None
        os.set_blocking(self._server.stdout.fileno(), False)

    def start(self, *words: str) -> Command:
        """Start a command and leave it running."""
        number = len(self._commands)
        command = Command(words, self.folder / str(number))
        command.folder.mkdir()
        self._commands.append(command)
        assert self._server.stdin is not None
        self._server.stdin.write(json.dumps([number, str(command.folder), *words]).encode() + b"\n")
        self._server.stdin.flush()
        return command

    def wait(self, commands: list[Command], seconds: float = 120.0) -> list[Ended]:
        """Wait until all `commands` have ended."""
        deadline = time.monotonic() + seconds
        while any(command.code is None for command in commands):
            late = [command.words for command in commands if command.code is None]
            assert time.monotonic() < deadline, f"not over after {seconds} s: {late}"
            self.listen(0.05)
        return [command.ended() for command in commands]

    def run(self, *words: str) -> Ended:
        """Run a command to its end."""
        return self.wait([self.start(*words)])[0]

    def listen(self, seconds: float = 0.0) -> None:
        """Take in what the server has said."""
        out = self._server.stdout
        assert out is not None
        if not select.select([out], [], [], seconds)[0]:
            return
        data = os.read(out.fileno(), 65536)
        assert data, "the typist has died"
        *lines, self._heard = (self._heard + data).split(b"\n")
        for line in lines:
            word, number, value = line.split()
            command = self._commands[int(number)]
            if word == b"started":
                command.pid = int(value)
            else:
                command.code = int(value)

    def close(self) -> None:
        """End the server; commands that still run are left alone."""
        assert self._server.stdin is not None
        self._server.stdin.close()
        self._server.wait(30)
        assert self._server.stdout is not None
        self._server.stdout.close()


def serve() -> None:
    """Fork a command for every line, until stdin ends."""
    for name in _PRELOADED:
        __import__(name)
    numbers: dict[int, int] = {}
    heard = b""
    while True:
        ready = select.select([0], [], [], 0.005)[0]
        data = os.read(0, 65536) if ready else b""
        if ready and not data:
            return
        *lines, heard = (heard + data).split(b"\n")
        for line in lines:
            number, folder, *words = json.loads(line)
            pid = os.fork()
            if pid == 0:
                _become(Path(folder), words)
            numbers[pid] = number
            os.write(1, f"started {number} {pid}\n".encode())
        _reap(numbers)


def _reap(numbers: dict[int, int]) -> None:
    while numbers:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        os.write(1, f"ended {numbers.pop(pid)} {os.waitstatus_to_exitcode(status)}\n".encode())


def _become(folder: Path, words: list[str]) -> NoReturn:
    from gpuguard.commands.main import run

    os.setsid()
    flags = os.O_WRONLY | os.O_CREAT
    opened = (os.open(os.devnull, os.O_RDONLY), os.open(folder / "out", flags))
    for target, source in enumerate((*opened, os.open(folder / "err", flags))):
        os.dup2(source, target)
    code = 1
    try:
        run(words)
    except SystemExit as end:
        code = int(end.code or 0)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    serve()
