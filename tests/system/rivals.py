"""A job of which there may be one copy, and what rivals do to it."""

import json
import random
import secrets
import threading
import time
from typing import Any

from gpuguard.checkpoint.naming import make_checkpoint_id
from gpuguard.inventory.load import load_inventory
from gpuguard.remote.pool import Pool
from gpuguard.sandbox.fleet import Sandbox
from gpuguard.sandbox.verification import read_steps
from tests.system.kit import Ended, Operator, copies, until


class Job:
    """A job with a durable checkpoint, found by its marker on every host."""

    def __init__(self, operator: Operator, host: str, *options: str) -> None:
        self.name = f"one{secrets.token_hex(2)}"
        self.operator, self.sandbox = operator, operator.sandbox
        self.log = f"/srv/{self.name}.steps"
        words = ("--host", host, *options, "--", "steps", "--tick", "0.05", "--plain-log", self.log)
        operator.run("jobs", "run", self.name, *words)
        operator.run("checkpoint", self.name)

    def where(self) -> list[str]:
        """Return the host of each copy that is there, also a stopped one."""
        return [host for host, _ in copies(self.sandbox, self.log)]

    def on(self, host: str) -> bool:
        """Tell whether a copy is on this host, whatever its cable says."""
        return self.log in self.sandbox.run(host, ["ps", "-eo", "args="]).stdout

    def moves(self) -> bool:
        host = self.where()[0]
        path = self.sandbox.path(host, self.log)
        before = path.stat().st_size
        until(lambda: path.stat().st_size > before, what=f"the next step of {self.name}")
        return True

    def one_copy(self) -> str:
        """Return where the job runs; fail unless there is one copy, running and unbroken."""
        found = self.where()
        assert len(found) == 1, found
        assert self.moves()
        assert read_steps(self.operator.log(self.name)).findings == []
        return found[0]

    def end(self) -> None:
        self.operator.run("jobs", "stop", self.name)

    def hold(self, host: str, seconds: float) -> str:
        """Start a checkpoint that holds the job stopped on `host`; return the procedure's id."""
        params = {"job": self.name, "checkpoint": make_checkpoint_id(), "host": host}
        return start_procedure(
            self.sandbox, host, "checkpoint", {**params, "after": "hold", "hold_seconds": seconds}
        )


def start_procedure(sandbox: Sandbox, host: str, kind: str, params: dict[str, Any]) -> str:
    """Start a procedure on `host` as an operator who then goes away."""
    made = f"{kind}-{secrets.token_hex(4)}"
    request = {"id": made, "kind": kind, "params": params, "asked_by": "eve@desk", "words": []}
    with Pool(sandbox.inventory.parent) as pool:
        session = pool.session(load_inventory(sandbox.inventory).host(host))
        session.call("procedures.start", request=request)
    return made


def tell(sandbox: Sandbox, host: str, procedure: str, word: str) -> None:
    with Pool(sandbox.inventory.parent) as pool:
        session = pool.session(load_inventory(sandbox.inventory).host(host))
        session.call("procedures.tell", id=procedure, word=word, data={})


def journal(sandbox: Sandbox, host: str, procedure: str) -> str:
    """Return what the procedure has written down so far."""
    return sandbox.path(host, f"/var/lib/gpuguard/procedures/{procedure}/journal.jsonl").read_text()


def race(*starts: tuple[Operator, tuple[str, ...]]) -> list[Ended]:
    """Let operators type at nearly the same time; return how each command ended."""
    ended: dict[int, Ended] = {}

    def type_in(number: int, operator: Operator, words: tuple[str, ...]) -> None:
        time.sleep(random.uniform(0, 0.4))  # noqa: S311 - no secret
        ended[number] = operator.try_(*words)

    threads = [
        threading.Thread(target=type_in, args=(number, *start))
        for number, start in enumerate(starts)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [ended[number] for number in range(len(starts))]


def lose(sandbox: Sandbox, job: Job, host: str) -> None:
    """Kill the job's life line, so that its host says: lost."""
    script = f"pkill -KILL -f 'supervisor.py (run|restore) .*/jobs/{job.name}/status'"
    sandbox.run(host, ["sh", "-c", script], check=False)
    until(lambda: not job.where(), what="the end of the job")


def take_over(sandbox: Sandbox, job: str) -> None:
    """Write down in the store that node2 holds the job's next epoch."""
    folder = sandbox.folder.store / job
    record = {"epoch": 2, "host": "node2", "uid": (folder / "uid").read_text().strip()}
    record |= {"procedure": "restore-1", "at": "2026-01-31T12:00:00Z", "sequence": 1}
    (folder / "epochs/2").write_text(json.dumps(record))
