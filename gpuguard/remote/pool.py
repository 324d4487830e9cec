"""Sessions to many hosts: opened when first needed, kept, and asked side by side."""

import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Generic, Self, TypeVar

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
        work = _Work(list(hosts), lambda host: self._one(host, function))
        outcomes: dict[str, Outcome[T]] = {}
        try:
            for host, outcome in work.run(self._fanout):
                outcomes[host.name] = outcome
                if on_result is not None:
                    on_result(host, outcome)
        finally:
            work.stop()
        return {host.name: outcomes[host.name] for host in work.hosts}

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


class _Work(Generic[T]):
    """Hosts to ask, by threads that nobody has to wait for when the answers are not wanted."""

    def __init__(self, hosts: list[Host], one: Callable[[Host], Outcome[T]]) -> None:
        self.hosts = hosts
        self._one = one
        self._todo: queue.SimpleQueue[Host] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[tuple[Host, Outcome[T] | BaseException]]
        self._done = queue.SimpleQueue()
        self._stopped = False
        for host in hosts:
            self._todo.put(host)

    def run(self, fanout: int) -> Iterator[tuple[Host, Outcome[T]]]:
        """Yield each host with its outcome as it comes; raise what is no GpuguardError."""
        for _ in range(max(1, min(fanout, len(self.hosts)))):
            threading.Thread(target=self._labour, name="gpuguard-pool", daemon=True).start()
        for _ in self.hosts:
            host, outcome = self._done.get()
            if isinstance(outcome, BaseException):
                raise outcome
            yield host, outcome

    def stop(self) -> None:
        """Ask no further host."""
        self._stopped = True

    def _labour(self) -> None:
        while not self._stopped:
            try:
                host = self._todo.get_nowait()
            except queue.Empty:
                return
            try:
                self._done.put((host, self._one(host)))
            except BaseException as error:
                self._done.put((host, error))


class _Place:
    """Where the session of one host is kept, and the lock of those who want it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.session: AgentSession | None = None
