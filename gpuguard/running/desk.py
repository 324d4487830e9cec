"""What every run needs at hand: the inventory, the sessions, the journal, the clock."""

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar

from gpuguard.model.codec import Record
from gpuguard.model.inventory import Host, Inventory
from gpuguard.remote.outcome import Outcome
from gpuguard.remote.session import Session
from gpuguard.schedulers.none import NoScheduler
from gpuguard.schedulers.protocol import Scheduler
from gpuguard.state.clock import Clock, SystemClock
from gpuguard.state.operations import Operations

T = TypeVar("T")


@dataclass(frozen=True)
class Progress(Record):
    """One thing that happened during a run, for whoever watches."""

    host: str
    step: str
    state: str  # an EntryState, or a word of the operator's side: asked, told, lost, back
    text: str = ""
    job: str | None = None
    seconds: float | None = None  # how long the step took


OnProgress = Callable[[Progress], None]


class Sessions(Protocol):
    """One session a host, opened again when it has ended (gpuguard/remote/pool.py)."""

    def session(self, host: Host) -> Session:
        """Return the session with `host`; raise UnreachableError."""
        ...

    def map(
        self,
        hosts: Iterable[Host],
        function: Callable[[Host, Session], T],
        on_result: Callable[[Host, Outcome[T]], None] | None = None,
    ) -> dict[str, Outcome[T]]:
        """Run `function` on every host at once and return the outcomes by name."""
        ...

    def close(self) -> None:
        """Cut every connection."""
        ...


def ignore(progress: Progress) -> None:
    """Take a progress and do nothing with it."""


@dataclass(frozen=True)
class Desk:
    """What a run works with."""

    inventory: Inventory
    pool: Sessions
    operations: Operations
    clock: Clock = field(default_factory=SystemClock)
    on_progress: OnProgress = ignore
    patience: float = 120.0  # seconds of trying to reach a host again in the middle of a run
    stop: threading.Event = field(default_factory=threading.Event)
    scheduler: Scheduler = field(default_factory=NoScheduler)

    @property
    def folder(self) -> Path:
        """Return the folder of the inventory, where keys and signers are kept."""
        return Path(self.inventory.path).parent

    def session(self, host: str) -> Session:
        """Return the session with the host of this name; raise UsageError, UnreachableError."""
        return self.pool.session(self.inventory.host(host))
