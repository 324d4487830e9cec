"""Jobs that are to be cut: made once, used again as long as they run; looked at from outside."""

import secrets
import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpuguard.inventory.load import load_inventory
from gpuguard.model.inventory import Inventory
from gpuguard.remote.pool import Pool
from gpuguard.remote.session import Session
from gpuguard.running.enrolling import allowed_signers
from gpuguard.sandbox.fleet import Sandbox
from gpuguard.sandbox.verification import read_steps
from tests.system.cutting import STATE, processes_of
from tests.system.kit import Operator, until
from tests.system.typist import Typist

STORE = "/srv/gpuguard"
_STEPS = ("steps", "--size-mib", "1", "--tick", "0.05", "--visit", "1")
LIVE = ("running", "stopped")


@dataclass
class Crew:
    """The jobs of a fleet, with what is known to be good of each."""

    sandbox: Sandbox
    operator: Operator
    typist: Typist
    jobs: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._pool = Pool(self.sandbox.inventory.parent)

    def close(self) -> None:
        """Cut the sessions."""
        self._pool.close()

    @property
    def inventory(self) -> Inventory:
        return load_inventory(self.sandbox.inventory)

    def session(self, host: str) -> Session:
        """Return the session with a host, for what only prepares or looks."""
        return self._pool.session(self.inventory.hosts[host])

    def states(self) -> dict[str, dict[str, dict[str, Any]]]:
        """Return what every host says of every job: job → host → record."""
        found: dict[str, dict[str, dict[str, Any]]] = {job: {} for job in self.jobs}
        for host in self.sandbox.hosts:
            for record in self.session(host).call("jobs.list"):
                if record["spec"]["name"] in found:
                    found[record["spec"]["name"]][host] = record
        return found

    def next_contact(self) -> None:
        """Do what settles everything on the hosts: type some command."""
        listed = self.typist.run("jobs", "list")
        assert listed.code == 0, listed.err

    def ready(self, count: int, source: str) -> list[str]:
        """Return `count` jobs that run on `source`, each with a durable checkpoint."""
        states = self.states()
        there = [job for job in self.jobs if _state(states, job, source) == "running"]
        fresh = self._launch(count - len(there), source)
        ready = [*there, *fresh][:count]
        if fresh:
            saved = self.typist.run("checkpoint", *fresh)
            assert saved.code == 0, saved.err
        return ready

    def busiest(self) -> str:
        """Return the host on which most of the jobs run."""
        states = self.states()
        counts = {
            host: sum(_state(states, job, host) == "running" for job in self.jobs)
            for host in self.sandbox.hosts
        }
        return max(self.sandbox.hosts, key=lambda host: counts[host])

    def retire(self, job: str) -> None:
        """Use a job no more."""
        self.jobs.remove(job)

    def _launch(self, count: int, host: str) -> list[str]:
        if count <= 0:
            return []
        names = [f"cut-{secrets.token_hex(3)}" for _ in range(count)]
        for name in names:
            spec = {"name": name, "uid": secrets.token_hex(8), "command": _words(name)}
            self.session(host).call(
                "jobs.run", spec=spec, policy={"store": STORE}, request_id=spec["uid"]
            )
        self.jobs += names
        until(lambda: all(self.steps(job, host) for job in names), what="the first steps")
        return names

    def log(self, job: str, host: str) -> str:
        """Return the job's log as it lies on a host's disk."""
        path = self.sandbox.path(host, f"{STATE}/jobs/{job}/log")
        return path.read_text() if path.exists() else ""

    def steps(self, job: str, host: str) -> int:
        """Return the last step the job wrote on a host."""
        lines = self.log(job, host).splitlines()
        return int(lines[-1].split()[1]) if lines and lines[-1].startswith("step") else 0

    def copies(self) -> dict[str, list[tuple[str, int]]]:
        """Return host and pid of every living copy of each job, by looking at the hosts."""
        found: dict[str, list[tuple[str, int]]] = {job: [] for job in self.jobs}
        for host in self.sandbox.hosts:
            if self.sandbox.state(host) == "off":
                continue
            for pid, words in processes_of(self.sandbox, host).items():
                job = words[-1] if words else ""
                if job in found and any(word.endswith("/steps") for word in words[:2]):
                    found[job].append((host, pid))
        return found

    def chain_findings(self, job: str, host: str) -> list[str]:
        """Return what is wrong with the job's steps: a gap, one done twice, lost state."""
        return read_steps(self.log(job, host)).findings

    def checkpoints(self, host: str) -> dict[str, list[dict[str, Any]]]:
        """Return what the store holds of each job, newest first, as `host` sees it."""
        found: dict[str, list[dict[str, Any]]] = {job: [] for job in self.jobs}
        for item in self.session(host).call("store.list", store=STORE):
            found.get(item["job"], []).append(item)
        return found

    def damage(self, host: str, job: str, checkpoint: str) -> str:
        """Verify a checkpoint to the last byte; return what is wrong with it, empty if good."""
        params = {"store": STORE, "job": job, "checkpoint": checkpoint}
        signers = allowed_signers(self.sandbox.inventory.parent)
        session = self.session(host)
        found = session.call("store.verify", **params, allowed_signers=signers, timeout=60)
        return "; ".join(item["text"] for item in found)

    def leftovers(self) -> list[str]:
        """Return stages, partial checkpoints, CRIU's rules and stopped processes that are left."""
        left = [str(path) for path in self._store().glob("*/.partial-*")]
        for host in self.sandbox.hosts:
            stage = self.sandbox.path(host, f"{STATE}/stage")
            left += [f"{host}: {path.name} on the stage" for path in stage.iterdir()]
            tables = self.sandbox.run(host, ["nft", "list", "tables"], check=False).stdout
            left += [f"{host}: {line}" for line in tables.splitlines() if "CRIU" in line]
            for pid, words in processes_of(self.sandbox, host).items():
                if (words and words[0].endswith("criu")) or _stopped(pid):
                    left.append(f"{host}: process {' '.join(words)} is left")
        return left

    def sweep(self) -> None:
        """Remove what the rule for old remains will: the next wave is not to count it again."""
        for partial in self._store().glob("*/.partial-*"):
            shutil.rmtree(partial)
        for host in self.sandbox.hosts:
            for stage in self.sandbox.path(host, f"{STATE}/stage").iterdir():
                shutil.rmtree(stage)

    def _store(self) -> Path:
        return self.sandbox.path(self.sandbox.hosts[0], STORE)


def moving(crew: Crew, places: dict[str, str], seconds: float = 5.0) -> list[str]:
    """Return the jobs that do no step within `seconds` where they are said to run."""
    before = {job: crew.steps(job, host) for job, host in places.items()}
    deadline = time.monotonic() + seconds
    still = list(places)
    while still and time.monotonic() < deadline:
        time.sleep(0.1)
        still = [job for job in still if crew.steps(job, places[job]) <= before[job]]
    return still


def _words(name: str) -> list[str]:
    # The last word names the job to whoever looks at the processes; --cwd makes the folder.
    return [*_STEPS, "--cwd", name]


def _state(states: dict[str, dict[str, dict[str, Any]]], job: str, host: str) -> str:
    record = states[job].get(host)
    return str(record["state"]) if record else "none"


def _stopped(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state in "Tt"
