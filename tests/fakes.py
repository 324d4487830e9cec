"""Stand-ins for hosts, with scripted answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from gpuguard.model.errors import GpuguardError, UnreachableError
from gpuguard.model.inventory import Host
from gpuguard.remote.outcome import Outcome
from gpuguard.remote.session import Hello, OnEvent

T = TypeVar("T")


def fake_hello(host: str = "gpu001", **changes: Any) -> Hello:
    """The hello of a healthy node; `changes` replace single fields."""
    values: dict[str, Any] = {
        "protocol": 1,
        "version": "0.1.0",
        "host": host,
        "boot_id": f"boot-of-{host}",
        "python": "3.11.2",
        "pid": 4711,
        "uid": 0,
        "agent": "0" * 64,
        **changes,
    }
    return Hello(**values)


def fake_host(name: str = "gpu001", **changes: Any) -> Host:
    """A host of a small inventory; `changes` replace single fields."""
    return Host(name=name, **{"address": "198.18.0.11", **changes})


@dataclass
class Answer:
    """What a method answers: events first, then the result, or the error."""

    result: Any = None
    events: tuple[dict[str, Any], ...] = ()
    error: GpuguardError | None = None


Script = Any  # a plain result, an Answer, an error, a function of the params, or Sequence


class Sequence:
    """Several scripts for one method: one a call, the last one for ever."""

    def __init__(self, *scripts: Script) -> None:
        self._scripts = list(scripts)

    def next(self) -> Script:
        return self._scripts.pop(0) if len(self._scripts) > 1 else self._scripts[0]


@dataclass
class FakeSession:
    """A session that answers from `answers` and remembers what it was asked.

    FakeSession({"jobs.list": [...], "jobs.show": lambda name: {...},
                 "procedures.watch": Answer(result, events=({"entry": {...}},)),
                 "jobs.stop": RefusedError("no")})
    A method without a script is an AssertionError. `calls` holds (method, params) in order.
    """

    answers: dict[str, Script] = field(default_factory=dict)
    hello: Hello = field(default_factory=fake_hello)
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    closed: bool = False

    def call(self, method: str, timeout: float | None = None, **params: Any) -> Any:
        return self._answer(method, params, None)

    def stream(
        self, method: str, on_event: OnEvent, timeout: float | None = None, **params: Any
    ) -> Any:
        return self._answer(method, params, on_event)

    def close(self) -> None:
        self.closed = True

    def asked(self, method: str) -> list[dict[str, Any]]:
        """The params of every call of `method`, in order."""
        return [params for name, params in self.calls if name == method]

    def _answer(self, method: str, params: dict[str, Any], on_event: OnEvent | None) -> Any:
        if self.closed:
            raise UnreachableError(f"{self.hello.host}: the session is closed")
        self.calls.append((method, params))
        if method not in self.answers:
            raise AssertionError(f"no script for {method}; asked with {params}")
        script = self.answers[method]
        if isinstance(script, Sequence):
            script = script.next()
        if callable(script):
            script = script(**params)
        if not isinstance(script, Answer):
            error = script if isinstance(script, GpuguardError) else None
            script = Answer(result=script, error=error)
        for event in script.events if on_event else ():
            assert on_event is not None
            on_event(event)
        if script.error:
            raise script.error
        return script.result


@dataclass
class FakePool:
    """A pool over FakeSessions by host name; a GpuguardError in place of one is raised."""

    sessions: dict[str, FakeSession | GpuguardError] = field(default_factory=dict)
    inventory_dir: Path = Path("/nonexistent")
    closed: bool = False

    def __enter__(self) -> FakePool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def session(self, host: Host) -> FakeSession:
        found = self.sessions.get(host.name)
        if found is None:
            raise UnreachableError(f"{host.name} ({host.address}): connection refused")
        if isinstance(found, GpuguardError):
            raise found
        return found

    def map(
        self,
        hosts: Iterable[Host],
        function: Callable[[Host, Any], T],
        on_result: Callable[[Host, Outcome[T]], None] | None = None,
    ) -> dict[str, Outcome[T]]:
        outcomes: dict[str, Outcome[T]] = {}
        for host in hosts:
            try:
                outcome = Outcome(host, value=function(host, self.session(host)))
            except GpuguardError as error:
                outcome = Outcome(host, error=error)
            outcomes[host.name] = outcome
            if on_result:
                on_result(host, outcome)
        return outcomes

    def close(self) -> None:
        self.closed = True
