"""Hosts that carry scripted procedures out, with links that can be cut at every point."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from gpuguard.model.errors import (
    GpuguardError,
    RefusedError,
    UnreachableError,
    UsageError,
)
from gpuguard.model.inventory import Host
from gpuguard.model.jobs import Job
from gpuguard.model.manifests import CheckpointInfo
from gpuguard.remote.outcome import Outcome
from gpuguard.remote.session import Hello, OnEvent
from tests.fakes import fake_hello
from tests.unit.planning.sights import manifest

T = TypeVar("T")
STEPS = {
    "checkpoint": ["preflight", "dump", "copy", "publish"],
    "restore": ["preflight", "fence", "verify", "files", "restore"],
}
AFTER_HOLD = {"checkpoint": ["give-away", "end"], "restore": ["claim", "go", "prove"]}
COMMITS = {"checkpoint": "give-away", "restore": "claim"}


class Stopwatch:
    """A clock that moves only when somebody sleeps."""

    def __init__(self) -> None:
        self.passed = 0.0

    def now(self) -> datetime:
        return datetime(2026, 1, 31, 12, 4, 31, tzinfo=UTC) + timedelta(seconds=self.passed)

    def monotonic(self) -> float:
        return self.passed

    def sleep(self, seconds: float) -> None:
        self.passed += seconds


@dataclass
class Script:
    """What goes wrong on a node."""

    fail_at: str | None = None  # this step fails and is undone
    unsettled_at: str | None = None  # this step fails and is not undone
    refuse_start: GpuguardError | None = None
    lose: set[str] = field(default_factory=set)  # links lost once, after: start, a step, a word
    die_after: str | None = None  # silent for ever after this: start, a step, a word
    interrupt_at: str | None = None  # Ctrl-C arrives while this step is reported
    hold_over: bool = False  # the time to wait is over when the word arrives


class Node:
    """One host: its jobs and its procedures, which go on whether or not the link lives."""

    def __init__(
        self, name: str, script: Script | None = None, jobs: list[Job] | None = None
    ) -> None:
        self.name = name
        self.script = script or Script()
        self.jobs = jobs or []
        self.procedures: dict[str, Run] = {}
        self.dead = False
        self.log: list[str] = []
        self.checkpoints: list[CheckpointInfo] = []
        self.epoch: dict[str, Any] | None = None
        self.manifest: dict[str, Any] | None = None
        self.lease: dict[str, Any] | None = None
        self.renews = False
        self.record: dict[str, Any] | None = manifest().to_dict()
        self.preflight: list[dict[str, Any]] = []
        self.verdict: list[dict[str, Any]] = []
        self.asked: list[dict[str, Any]] = []
        self.info: dict[str, Any] = {
            "boot_id": f"boot-of-{name}",
            "kernel": "6.1.0-18-amd64",
            "arch": "x86_64",
            "criu": "4.2.1",
            "cpu_flags": ["avx", "sse4_2"],
            "memory_total": 8 << 30,
            "memory_available": 4 << 30,
            "signing_key": None,
            "cordons": [],
        }

    @property
    def cordon_owners(self) -> list[str]:
        return [one["owner"] for one in self.info["cordons"]]

    def passed(self, point: str) -> None:
        """Cut the link here if the script says so."""
        if self.script.die_after == point:
            self.dead = True
        if self.dead or point in self.script.lose:
            self.script.lose.discard(point)
            raise UnreachableError(f"{self.name}: the link was lost")


class Run:
    """One procedure on a node."""

    def __init__(self, node: Node, request: dict[str, Any]) -> None:
        self.node = node
        self.request = request
        self.entries: list[dict[str, Any]] = []
        self.state = "running"
        self.error: dict[str, Any] | None = None
        self.result: dict[str, Any] | None = None
        self.step = "start"
        kind, params = request["kind"], request["params"]
        self.holds = bool(params.get("hold")) or params.get("after") == "hold"
        self._do(STEPS[kind])
        if self.state == "running":
            if self.holds:
                self.step, self.state = "hold", "holding"
                self._entry("hold", "begin")
            else:
                self._do(AFTER_HOLD[kind] if kind == "restore" else [])
                self._done()

    def tell(self, word: str) -> None:
        if self.state != "holding" or self.node.script.hold_over:
            if self.state == "holding":
                self._undo(GpuguardError("nobody said go in time"))
            raise RefusedError(f"{self.node.name}: procedure does not wait for {word!r}")
        self.node.log.append(word)
        if word == "discard":
            self._undo(GpuguardError("discarded"))
            return
        self.state = "running"
        self._do(AFTER_HOLD[self.request["kind"]])
        self._done()

    def status(self) -> dict[str, Any]:
        return {
            "id": self.request["id"],
            "kind": self.request["kind"],
            "state": self.state,
            "started_at": "2026-01-31T12:04:31Z",
            "job": self.request["params"]["job"],
            "step": self.step,
            "last_seq": len(self.entries),
            "result": self.result,
            "error": self.error,
        }

    def _do(self, steps: list[str]) -> None:
        for step in steps:
            if self.state != "running":
                return
            self.step = step
            self._entry(step, "begin")
            if step in (self.node.script.fail_at, self.node.script.unsettled_at):
                self._entry(step, "failed", "it broke")
                self._fail(step)
                return
            self._entry(step, "done")
            self.node.log.append(step)

    def _fail(self, step: str) -> None:
        error = GpuguardError("it broke", "mend it")
        done = [entry["step"] for entry in self.entries if entry["state"] == "done"]
        committed = COMMITS[self.request["kind"]] in done
        if step == self.node.script.unsettled_at or committed:
            self.state, self.error = "unsettled", error.to_dict()
        else:
            self._undo(error)

    def _undo(self, error: GpuguardError) -> None:
        self._entry(self.step, "undone")
        self.state, self.error = "failed", error.to_dict()
        self.node.log.append("undone")

    def _done(self) -> None:
        if self.state == "running":
            self.state = "done"
            kind, params = self.request["kind"], self.request["params"]
            if kind == "checkpoint":
                self.result = {"info": {"checkpoint": params["checkpoint"]}, "times": {}}
            else:
                self.result = {"job": {"on": self.node.name}, "checkpoint": params["checkpoint"]}

    def _entry(self, step: str, state: str, text: str = "") -> None:
        seq = len(self.entries) + 1
        self.entries.append(
            {
                "seq": seq,
                "at": "",
                "monotonic": seq / 10,
                "step": step,
                "state": state,
                "text": text,
            }
        )


class NodeSession:
    """A link to a node."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.hello: Hello = fake_hello(node.name)
        self.closed = False

    def close(self) -> None:
        self.closed = True

    def call(self, method: str, timeout: float | None = None, **params: Any) -> Any:
        self._alive()
        answer: Callable[..., Any] = getattr(self, "_" + method.replace(".", "_"))
        return answer(**params)

    def stream(
        self, method: str, on_event: OnEvent, timeout: float | None = None, **params: Any
    ) -> Any:
        self._alive()
        assert method == "procedures.watch"
        if params["id"] not in self.node.procedures:
            raise UsageError(f"this node has no procedure {params['id']}")
        run = self.node.procedures[params["id"]]
        for entry in list(run.entries):
            if entry["seq"] <= params["after_seq"]:
                continue
            on_event({"entry": entry})
            if self.node.script.interrupt_at == entry["step"]:
                self.node.script.interrupt_at = None
                raise KeyboardInterrupt
            if entry["state"] == "done":
                self.node.passed(entry["step"])
        return run.status()

    def _alive(self) -> None:
        if self.node.dead or self.closed:
            raise UnreachableError(f"{self.node.name}: no answer")

    def _procedures_start(self, request: dict[str, Any]) -> Any:
        if self.node.script.refuse_start:
            raise self.node.script.refuse_start
        if request["id"] not in self.node.procedures:
            self.node.procedures[request["id"]] = Run(self.node, request)
        self.node.passed("start")
        answer = self.node.procedures[request["id"]].status()
        return {**answer, "state": "running", "result": None, "error": None}

    def _procedures_tell(self, id: str, word: str, data: dict[str, Any]) -> Any:
        run = self.node.procedures[id]
        if f"told {word}" not in self.node.log or self.node.script.hold_over:
            run.tell(word)
            self.node.log.append(f"told {word}")
        self.node.passed(word)
        return run.status()

    def _procedures_show(self, id: str) -> Any:
        if id not in self.node.procedures:
            raise UsageError(f"this node has no procedure {id}")
        run = self.node.procedures[id]
        return {"status": run.status(), "entries": run.entries, "request": run.request}

    def _procedures_list(self) -> Any:
        return [run.status() for run in self.node.procedures.values()]

    def _jobs_list(self) -> Any:
        return [job.to_dict() for job in self.node.jobs]

    def _host_info(self) -> Any:
        return self.node.info

    def _store_lease(self, store: str, job: str) -> Any:
        lease = self.node.lease
        if lease is not None and self.node.renews:
            lease["counter"] += 1
        return dict(lease) if lease else None

    def _cordon_show(self) -> Any:
        return self.node.info["cordons"]

    def _cordon_set(self, cordon: dict[str, Any]) -> Any:
        others = [one for one in self.node.info["cordons"] if one["owner"] != cordon["owner"]]
        self.node.info["cordons"] = [*others, cordon]
        return self.node.info["cordons"]

    def _cordon_lift(self, owner: str, cordon: str | None = None) -> Any:
        self.node.info["cordons"] = [
            one
            for one in self.node.info["cordons"]
            if one["owner"] != owner or (cordon and one["id"] != cordon)
        ]
        return self.node.info["cordons"]

    def _store_list(self, store: str, job: str) -> Any:
        return [info.to_dict() for info in self.node.checkpoints if info.job == job]

    def _store_epoch(self, store: str, job: str) -> Any:
        return self.node.epoch

    def _checkpoints_judge(self, **question: Any) -> Any:
        self.node.asked.append(question)
        return self.node.verdict

    def _jobs_preflight(self, name: str, host: str, store: str | None = None) -> Any:
        return {"findings": self.node.preflight, "record": self.node.record}

    def _store_show(self, store: str, job: str, checkpoint: str) -> Any:
        return {"info": {}, "manifest": self.node.manifest}


class NodePool:
    """A pool over nodes."""

    def __init__(self, nodes: list[Node]) -> None:
        self.nodes = {node.name: node for node in nodes}
        self.closed = False

    def session(self, host: Host) -> NodeSession:
        node = self.nodes[host.name]
        if node.dead or self.closed:
            raise UnreachableError(f"{host.name}: connection refused")
        return NodeSession(node)

    def map(
        self,
        hosts: Iterable[Host],
        function: Callable[[Host, Any], T],
        on_result: Callable[[Host, Outcome[T]], None] | None = None,
    ) -> dict[str, Outcome[T]]:
        outcomes: dict[str, Outcome[T]] = {}
        for host in hosts:
            try:
                outcomes[host.name] = Outcome(host, value=function(host, self.session(host)))
            except GpuguardError as error:
                outcomes[host.name] = Outcome(host, error=error)
            if on_result:
                on_result(host, outcomes[host.name])
        return outcomes

    def close(self) -> None:
        self.closed = True
