"""Catch a procedure at a place of its journal, from outside, and strike what is to die there.

The watcher looks at the journal's file on the host's disk and stops the runner (SIGSTOP) in the
sync that follows the line, before the step does anything. Nothing in gpuguard knows of it.
"""

import json
import os
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from gpuguard.sandbox.fleet import Sandbox

STATE = "/var/lib/gpuguard"
_LOOK_SECONDS = 0.0003
RENAMED = "renamed"  # no line of the journal: the checkpoint has its name in the store


@dataclass(frozen=True)
class Point:
    """A place in one procedure: a step's BEGIN, or a later word of its journal."""

    kind: str  # of the procedure: checkpoint or restore
    step: str
    mark: str = ""  # empty: the BEGIN line itself

    def __str__(self) -> str:
        return f"{self.step}+{self.mark}" if self.mark else self.step

    @property
    def sought(self) -> bytes:
        """Return the bytes of the journal that mean that the point is reached."""
        begin = f'"step": "{self.step}", "state": "begin"'
        return (self.mark or begin).encode()

    @property
    def short(self) -> str:
        """Return its name without what would break a table or a test's id."""
        return str(self).replace('"', "").replace(": true", "").replace(" ", "-")


@dataclass
class Caught:
    """One procedure that is watched for, and what the watcher saw of it."""

    job: str
    host: str
    point: Point
    folder: Path | None = None
    lock: int = 0  # inode of the procedure's lock
    watchdog: int = 0
    runner: int = 0
    parked: bool = False
    over: bool = False  # it ended before it could be stopped
    read: int = 0

    @property
    def where(self) -> str:
        """Return the last line of the journal at the time of the strike, in short."""
        assert self.folder is not None
        last = json.loads((self.folder / "journal.jsonl").read_bytes().splitlines()[-1])
        return f"{last['step']} {last['state']}"


@dataclass
class Watcher:
    """Waits for many procedures at once and parks each at its point."""

    sandbox: Sandbox
    caught: list[Caught]
    known: set[Path] = field(default_factory=set)

    def learn(self) -> None:
        """Take note of the procedures there are, so that later ones are known as new."""
        for item in self.caught:
            folder = self._folder(item.host)
            self.known |= set(folder.iterdir()) if folder.exists() else set()

    def park_all(self, seconds: float, ended: Callable[[str], bool]) -> None:
        """Park every procedure at its point, or see it end; `ended` tells a job's command has."""
        folders = {item.host: self._folder(item.host) for item in self.caught}
        deadline = time.monotonic() + seconds
        while open_ := [item for item in self.caught if not item.parked and not item.over]:
            assert time.monotonic() < deadline, f"never came to its point: {open_}"
            for host, folder in folders.items():
                self._find_new(host, folder, open_)
            for item in open_:
                if item.folder is not None:
                    self._look(item)
                item.over = item.over or (not item.parked and ended(item.job))
            time.sleep(_LOOK_SECONDS)

    def _folder(self, host: str) -> Path:
        return self.sandbox.path(host, f"{STATE}/procedures")

    def _find_new(self, host: str, folder: Path, waiting: list[Caught]) -> None:
        for name in os.listdir(folder):  # noqa: PTH208  # looked at thousands of times
            path = folder / name
            if path in self.known or not (path / "journal.jsonl").exists():
                continue
            self.known.add(path)
            request = json.loads((path / "request.json").read_text())
            for item in waiting:
                same = item.job == request["params"]["job"] and item.host == host
                if same and item.folder is None and item.point.kind == request["kind"]:
                    item.folder = path
                    item.lock = (path / "lock").stat().st_ino

    def _look(self, item: Caught) -> None:
        assert item.folder is not None
        journal = item.folder / "journal.jsonl"
        if not item.runner:
            self._find_processes(item)
        if item.point.mark != RENAMED and journal.stat().st_size == item.read:
            return
        data = journal.read_bytes()
        item.read = len(data)
        if item.runner and self._reached(item, data):
            if not send(item.runner, signal.SIGSTOP):
                item.over = True
                return
            _await_stop(item.runner)
            item.parked = True
        elif (item.folder / "result.json").exists():
            item.over = True

    def _reached(self, item: Caught, journal: bytes) -> bool:
        if item.point.mark != RENAMED:
            return item.point.sought in journal
        assert item.folder is not None
        request = json.loads((item.folder / "request.json").read_text())["params"]
        store = self.sandbox.path(item.host, f"/srv/gpuguard/{item.job}")
        return (store / str(request["checkpoint"])).exists()

    def _find_processes(self, item: Caught) -> None:
        item.watchdog = _flock_owner(item.lock)
        if item.watchdog:
            children = Path(f"/proc/{item.watchdog}/task/{item.watchdog}/children").read_text()
            item.runner = int(children.split()[0]) if children.split() else 0


def send(pid: int, number: signal.Signals) -> bool:
    """Send a signal; False if the process is gone."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def _flock_owner(inode: int) -> int:
    """Return the process that took the lock with this inode, 0 while none holds it."""
    for line in Path("/proc/locks").read_text().splitlines():
        words = line.split()
        if "FLOCK" in words and words[-3].endswith(f":{inode}"):
            return int(words[-4])
    return 0


def _await_stop(pid: int) -> None:
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return
        if state in "TtZX":
            return
        time.sleep(0.0005)


def processes_of(sandbox: Sandbox, host: str) -> dict[int, list[str]]:
    """Return pid, as this machine counts, and command line of every process of a host."""
    init = sandbox.host(host).init()
    assert init is not None
    own = Path(f"/proc/{init.pid}/ns/net").readlink()
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if (entry / "ns/net").readlink() == own:
                words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
                found[int(entry.name)] = words[:-1]
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
    return found


def agents_of(sandbox: Sandbox, host: str) -> list[int]:
    """Return the agents that serve on a host."""
    listed = processes_of(sandbox, host).items()
    return [pid for pid, words in listed if words[-1:] == ["serve"]]


def kill(pids: Iterable[int]) -> None:
    """Kill processes of the practice fleet at once."""
    for pid in pids:
        send(pid, signal.SIGKILL)
