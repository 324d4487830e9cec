"""Kill the runner of a procedure at every step: the job runs, or is gone on purpose."""

import os
import secrets
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpuguard.checkpoint.naming import make_checkpoint_id
from gpuguard.inventory.load import load_inventory
from gpuguard.remote.pool import Pool
from gpuguard.remote.session import Session
from gpuguard.running.enrolling import allowed_signers
from gpuguard.sandbox.handle import Sandbox
from gpuguard.sandbox.requirements import refusal
from tests.system.kit import Operator, copies, until

_NO = refusal()
pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.timeout(300),
    pytest.mark.skipif(_NO is not None, reason=str(_NO)),
]
HOST = "node1"
STATE = "var/lib/gpuguard"


@pytest.fixture(scope="module")
def agent(three_hosts: Sandbox) -> Iterator[Session]:
    inventory = load_inventory(three_hosts.inventory)
    with Pool(three_hosts.inventory.parent) as pool:
        yield pool.session(inventory.host(HOST))


def _kill(pid: int) -> bool:
    """Kill `pid`; False if it has ended meanwhile."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


class Cut:
    """One procedure, started, and cut off at a place of its journal."""

    def __init__(self, sandbox: Sandbox, agent: Session, kind: str, params: dict[str, Any]) -> None:
        self.id = f"{kind}-{secrets.token_hex(4)}"
        self.agent = agent
        self.folder = sandbox.path(HOST, f"/{STATE}/procedures/{self.id}")
        request = {"id": self.id, "kind": kind, "params": params, "asked_by": "test", "words": []}
        agent.call("procedures.start", request=request)

    def wait_for(self, text: str) -> None:
        journal = self.folder / "journal.jsonl"
        until(lambda: text in journal.read_text(), 90, text)

    def kill_runner(self) -> bool:
        """Kill the child of the watchdog; False if the procedure was over already."""
        mark = f"watchdog\0{self.id}\0".encode()
        parents = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and mark in _read(entry / "cmdline"):
                fields = _read(entry / "stat").rpartition(b")")[2].split()
                parents[int(entry.name)] = int(fields[1]) if fields else 0
        runners = [pid for pid, parent in parents.items() if parent in parents]
        return [pid for pid in runners if _kill(pid)] != []

    def end(self) -> dict[str, Any]:
        until(lambda: (self.folder / "result.json").exists(), 60, "the end of the procedure")
        shown: dict[str, Any] = self.agent.call("procedures.show", id=self.id)
        return shown


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


class Job:
    """A job on the host, with what a test asks of it."""

    def __init__(self, operator: Operator, agent: Session) -> None:
        self.name = f"cut{secrets.token_hex(2)}"
        self.operator, self.agent = operator, agent
        operator.run(
            *("jobs", "run", self.name, "--host", HOST, "--", "steps", "--tick", "0.02"),
            *("--size-mib", "32", "--plain-log", self.plain),
        )
        self.store = agent.call("jobs.show", name=self.name)["policy"]["store"]
        until(lambda: len(self.steps()) > 5, what="the first steps")

    @property
    def plain(self) -> str:
        return f"/srv/{self.name}.plain"

    def steps(self) -> list[str]:
        path = self.operator.sandbox.path(HOST, self.plain)
        return path.read_text().splitlines() if path.exists() else []

    def state(self) -> str:
        return str(self.agent.call("jobs.show", name=self.name)["state"])

    def moves(self) -> bool:
        before = len(self.steps())
        time.sleep(0.3)
        return len(self.steps()) > before

    def alive(self) -> int:
        return len(copies(self.operator.sandbox, self.plain))

    def checkpoint(self, after: str = "run") -> Cut:
        params: dict[str, Any] = {"job": self.name, "checkpoint": make_checkpoint_id()}
        params |= {"host": HOST, "after": after, "hold_seconds": 20}
        return Cut(self.operator.sandbox, self.agent, "checkpoint", params)

    def restore(self, checkpoint: str, hold: bool) -> Cut:
        signers = allowed_signers(self.operator.sandbox.inventory.parent)
        params = {"job": self.name, "checkpoint": checkpoint, "store": self.store, "host": HOST}
        params |= {"allowed_signers": signers, "policy": {"store": self.store}, "hold": hold}
        return Cut(self.operator.sandbox, self.agent, "restore", {**params, "hold_seconds": 20})

    def leftovers(self) -> list[str]:
        sandbox = self.operator.sandbox
        stage = list(sandbox.path(HOST, f"/{STATE}/stage").iterdir())
        store = sandbox.path(HOST, f"{self.store}/{self.name}")
        partial = list(store.glob(".partial-*")) if store.is_dir() else []
        return [str(path) for path in [*stage, *partial]]


@pytest.mark.parametrize(
    ("after", "place"),
    [
        ("run", '"step": "preflight", "state": "begin"'),
        ("run", '"step": "dump", "state": "begin"'),
        ("hold", "criu is process"),
        ("run", "criu is process"),
        ("hold", '"step": "dump", "state": "done"'),
        ("run", '"step": "copy", "state": "begin"'),
        ("hold", "copies to"),
        ("hold", '"step": "publish", "state": "begin"'),
        ("hold", "waits for give_away"),
    ],
)
def test_a_checkpoint_cut_before_its_commit_leaves_the_job_running(
    operator: Operator, agent: Session, after: str, place: str
) -> None:
    job = Job(operator, agent)
    cut = job.checkpoint(after)
    cut.wait_for(place)
    assert cut.kill_runner()
    assert cut.end()["status"]["state"] == "failed"
    assert job.state() == "running"
    assert job.moves()
    assert job.leftovers() == []
    assert job.alive() == 1
    operator.run("jobs", "stop", job.name)


@pytest.mark.parametrize("place", ['"committed": true', '"step": "end", "state": "begin"'])
def test_a_checkpoint_cut_after_giving_away_is_carried_to_its_end(
    operator: Operator, agent: Session, place: str
) -> None:
    job = Job(operator, agent)
    cut = job.checkpoint("hold")
    cut.wait_for("waits for give_away")
    agent.call("procedures.tell", id=cut.id, word="give_away", data={"epoch": 2})
    cut.wait_for(place)
    cut.kill_runner()
    assert cut.end()["status"]["state"] == "done"
    assert job.state() == "moved"
    assert job.alive() == 0


@pytest.mark.parametrize(
    ("hold", "place"),
    [
        (False, '"step": "verify", "state": "begin"'),
        (False, '"step": "files", "state": "begin"'),
        (False, '"step": "restore", "state": "begin"'),
        (False, "supervisor is process"),
        (True, "restored, stopped"),
        (True, "waits for go"),
    ],
)
def test_a_restore_cut_before_its_claim_leaves_nothing(
    operator: Operator, agent: Session, hold: bool, place: str
) -> None:
    job = Job(operator, agent)
    saved = job.checkpoint().end()["status"]["result"]["info"]["checkpoint"]
    assert job.moves()
    operator.run("jobs", "stop", job.name)
    before = job.steps()
    cut = job.restore(saved, hold)
    cut.wait_for(place)
    assert cut.kill_runner()
    assert cut.end()["status"]["state"] == "failed"
    assert job.steps() == before
    assert job.state() == "exited"
    assert job.alive() == 0
    assert agent.call("store.epoch", store=job.store, job=job.name)["epoch"] == 1


@pytest.mark.parametrize("place", ['"step": "claim", "state": "done"', '"step": "go", "state": "'])
def test_a_restore_cut_after_its_claim_runs(operator: Operator, agent: Session, place: str) -> None:
    job = Job(operator, agent)
    saved = job.checkpoint().end()["status"]["result"]["info"]["checkpoint"]
    operator.run("jobs", "stop", job.name)
    cut = job.restore(saved, hold=False)
    cut.wait_for(place)
    cut.kill_runner()
    assert cut.end()["status"]["state"] == "done"
    assert job.state() == "running"
    assert job.moves()
    assert job.alive() == 1
    assert agent.call("store.epoch", store=job.store, job=job.name)["epoch"] == 2
    operator.run("jobs", "stop", job.name)
