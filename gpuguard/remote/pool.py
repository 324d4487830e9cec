"""Sessions to many hosts: opened when first needed, kept, and asked side by side."""

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Self, TypeVar

from gpuguard.model.errors import GpuguardError
from gpuguard.model.inventory import Host
from gpuguard.remote.client import AgentSession
from gpuguard.remote.outcome import Outcome

T = TypeVar("T")

Open = Callable[[Host], AgentSession]


class Pool:
    """One session a host, shared by all threads; close it to cut every connection."""

    def __init__(self, inventory_dir: Path, fanout: int = 32, opener: Open | None = None) -> None:
        self._inventory_dir = inventory_dir
        self._fanout = fanout
        self._opener = opener
        self._places: dict[str, _Place] = {}
        self._lock = threading.Lock()
        self._closers: list[Callable[[], None]] = []
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def session(self, host: Host) -> AgentSession:
        """Return the session with `host`; connect, send the agent and greet it if needed.

        Raises:
            UnreachableError: the host did not answer, or did not let us in.
            RefusedError: its host key is unknown, has changed or is revoked.
        """
        with self._lock:
            if self._closed:
                raise GpuguardError(f"{host.name}: the pool is closed")
            place = self._places.setdefault(host.name, _Place())
        with place.lock:
            if place.session is None or place.session.ended is not None:
                place.session = self._open(host)
            if self._closed:
                place.session.close()
            return place.session

    def map(
        self,
        hosts: Iterable[Host],
        function: Callable[[Host, AgentSession], T],
        on_result: Callable[[Host, Outcome[T]], None] | None = None,
    ) -> dict[str, Outcome[T]]:
        """Run `function` on every host, at most `fanout` at once; return outcomes by host name.

        `on_result` is called in this thread as soon as a host is done. A GpuguardError of one
        host is its outcome; any other exception is a fault of `function` and is raised.
        """
        hosts = list(hosts)
        outcomes: dict[str, Outcome[T]] = {}
        workers = ThreadPoolExecutor(max(1, min(self._fanout, len(hosts))), "gpuguard-pool")
        try:
            futures = {workers.submit(self._one, host, function): host for host in hosts}
            for future in as_completed(futures):
                self._arrive(futures[future], future, outcomes, on_result)
        except BaseException:
            workers.shutdown(wait=False, cancel_futures=True)
            raise
        workers.shutdown()
        return {host.name: outcomes[host.name] for host in hosts}

    def close(self) -> None:
        """Close every session and connection; safe to call twice."""
        with self._lock:
            self._closed = True
            places = list(self._places.values())
            closers, self._closers = self._closers, []
        for place in places:
            if place.session is not None:
                place.session.close()
        for close in closers:
            close()

    def _one(self, host: Host, function: Callable[[Host, AgentSession], T]) -> Outcome[T]:
        try:
            return Outcome(host, value=function(host, self.session(host)))
        except GpuguardError as error:
            return Outcome(host, error=error)

    def _arrive(
        self,
        host: Host,
        future: "Future[Outcome[T]]",
        outcomes: dict[str, Outcome[T]],
        on_result: Callable[[Host, Outcome[T]], None] | None,
    ) -> None:
        outcome = future.result()
        outcomes[host.name] = outcome
        if on_result is not None:
            on_result(host, outcome)

    def _open(self, host: Host) -> AgentSession:
        return self._open_with()(host)

    def _open_with(self) -> Open:
        """Return the opener; the SSH library is imported here, when a host is first needed."""
        with self._lock:
            if self._opener is None:
                from gpuguard.remote.opener import Opener

                opener = Opener(self._inventory_dir)
                self._closers.append(opener.close)
                self._opener = opener.open
            return self._opener


class _Place:
    """Where the session of one host is kept, and the lock of those who want it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.session: AgentSession | None = None
