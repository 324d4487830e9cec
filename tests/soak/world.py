"""Look at hosts and store from outside gpuguard: /proc, the hosts' disks, the store's files."""

import json
import os
import re
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpuguard.sandbox.fleet import Sandbox
from tests.soak.truth import Kept, read_kept

STATE = "var/lib/gpuguard"
_ID = re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{6}")


@dataclass(frozen=True)
class Process:
    """One process of a host, as this machine sees it."""

    pid: int
    parent: int
    host: str
    state: str
    words: tuple[str, ...]
    space: str  # its pid namespace

    @property
    def role(self) -> str:
        """Tell what it is: agent, watchdog (or runner), supervisor, criu, steps, or nothing."""
        text = " ".join(self.words)
        if self.words and self.words[0].rpartition("/")[2] == "criu":
            return "criu"
        if "gpuguard/agent/main.py" in text:
            return "watchdog" if {"watchdog", "recover"} & set(self.words) else "agent"
        if "gpuguard/agent/jobs/supervisor.py" in text:
            return "supervisor" if self.words[0].rpartition("/")[2] != "unshare" else "unshare"
        if self.words[1:3] == ("-I", "-c") and re.fullmatch("[0-9a-f]{64}", self.words[-1]):
            return "agent"
        return "steps" if any(w.endswith("/steps") for w in self.words[:2]) else ""


@dataclass(frozen=True)
class Copy:
    """One copy of a job: its processes in one pid namespace of one host."""

    job: str
    host: str
    space: str
    processes: tuple[Process, ...]

    @property
    def frozen(self) -> bool:
        """Tell whether a process of it is stopped."""
        return any(process.state in "Tt" for process in self.processes)

    @property
    def key(self) -> tuple[str, str, str]:
        return self.job, self.host, self.space


@dataclass(frozen=True)
class World:
    """The fleet as it can be seen without asking gpuguard."""

    sandbox: Sandbox
    seeds: dict[str, str]  # seed on the command line → job
    jobs_of: dict[Path, str] = field(default_factory=dict)  # procedure → job, as read

    def processes(self) -> list[Process]:
        """Return every process of every host that has power, runners told from watchdogs."""
        spaces = {}
        for host in self.sandbox.hosts:
            init = self.sandbox.host(host).init()
            if init is not None and (net := _link(init.pid, "net")):
                spaces[net] = host
        found = []
        for entry in os.listdir("/proc"):  # noqa: PTH208
            if entry.isdigit() and (host_ := spaces.get(_link(int(entry), "net"))):
                process = _process(int(entry), host_)
                found += [process] if process else []
        return found

    def copies(self) -> list[Copy]:
        """Return every copy of every job, running or frozen."""
        groups: dict[tuple[str, str, str], list[Process]] = {}
        for process in self.processes():
            if process.role != "steps" or process.state in "ZX":
                continue
            job = next((self.seeds[word] for word in process.words if word in self.seeds), None)
            if job:
                groups.setdefault((job, process.host, process.space), []).append(process)
        return [Copy(*key, tuple(members)) for key, members in groups.items()]

    def disk(self, host: str) -> Path:
        """Return the gpuguard folder on a host's disk, which can be read without power too."""
        return self.sandbox.host(host).folder.disk / STATE

    def log(self, host: str, job: str) -> bytes:
        """Return what the job wrote on a host."""
        path = self.disk(host) / "jobs" / job / "log"
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return b""

    def open_procedures(self, host: str) -> list[tuple[str, str, bool]]:
        """Return (id, job, somebody is at work) of each procedure of a host without a result."""
        found = []
        held = _flocked()
        folder = self.disk(host) / "procedures"
        for item in sorted(folder.iterdir()) if folder.exists() else []:
            if not (item / "journal.jsonl").exists() or (item / "result.json").exists():
                continue
            lock = item / "lock"
            at_work = lock.exists() and lock.stat().st_ino in held
            found.append((item.name, self._job_of(item), at_work))
        return found

    def procedure_count(self, job: str) -> dict[str, set[str]]:
        """Return the procedures of a job there have been, by host."""
        found = {}
        for host in self.sandbox.hosts:
            folder = self.disk(host) / "procedures"
            names = folder.glob("*/journal.jsonl") if folder.exists() else ()
            found[host] = {path.parent.name for path in names if self._job_of(path.parent) == job}
        return found

    def _job_of(self, procedure: Path) -> str:
        """Return the job of a procedure; its request never changes, so it is read once."""
        if procedure not in self.jobs_of:
            job = read(procedure / "request.json").get("params", {}).get("job")
            self.jobs_of[procedure] = str(job)
        return self.jobs_of[procedure]

    @property
    def store(self) -> Path:
        return self.sandbox.folder.store

    def kept(self, job: str) -> dict[str, Kept]:
        """Return every checkpoint of a job that has a checkpoint's name, by id."""
        folder = self.store / job
        names = [p for p in folder.iterdir() if _ID.fullmatch(p.name)] if folder.exists() else []
        return {path.name: read_kept(path) for path in names}

    def partials(self, job: str) -> list[str]:
        """Return the partial checkpoints of a job."""
        return sorted(path.name for path in (self.store / job).glob(".partial-*"))

    def epoch(self, job: str) -> int:
        """Return the highest epoch record of a job."""
        folder = self.store / job / "epochs"
        names = (
            [int(p.name) for p in folder.iterdir() if p.name.isdigit()] if folder.exists() else []
        )
        return max(names, default=0)

    def mounts(self, host: str) -> int:
        """Return how many mounts a host has."""
        init = self.sandbox.host(host).init()
        return len(Path(f"/proc/{init.pid}/mounts").read_text().splitlines()) if init else 0


def read(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file; empty for a file that is gone or half written."""
    try:
        data = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


def settled(true: Any, seconds: float, pause: float = 0.1) -> bool:
    """Wait until `true()` holds; False if it does not within `seconds`."""
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(pause)
    return True


def _link(pid: int, kind: str) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/{kind}")  # noqa: PTH115
    except OSError:
        return ""


def _process(pid: int, host: str) -> Process | None:
    try:
        after = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
    except (OSError, IndexError):
        return None
    return Process(pid, int(after[1]), host, after[0], tuple(words), _link(pid, "pid"))


def _flocked() -> set[int]:
    found = set()
    for line in Path("/proc/locks").read_text().splitlines():
        words = line.split()
        if "FLOCK" in words and "->" not in words:
            found.add(int(words[-3].rpartition(":")[2]))
    return found
