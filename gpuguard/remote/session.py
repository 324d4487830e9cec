"""What a conversation with one host's agent looks like, whatever carries it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from gpuguard.model.codec import Record

PROTOCOL = 1

OnEvent = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class Hello(Record):
    """The agent's first line: who answers, and what it recovered before it did."""

    protocol: int
    version: str
    host: str
    boot_id: str
    python: str
    pid: int
    uid: int
    agent: str = ""  # SHA-256 of the bundle that runs; empty: it runs from elsewhere
    recovered: tuple[str, ...] = ()  # ids of procedures that were finished or undone first
    fenced: tuple[Any, ...] = ()  # stale copies that were stopped first


class Session(Protocol):
    """A conversation with one agent; safe to use from many threads."""

    hello: Hello

    def call(self, method: str, timeout: float | None = None, **params: Any) -> Any:
        """Ask the agent and return its result as plain JSON.

        Raises:
            UnreachableError: the link ended, or no answer came within `timeout` seconds.
            GpuguardError: what the agent answered.
        """
        ...

    def stream(
        self, method: str, on_event: OnEvent, timeout: float | None = None, **params: Any
    ) -> Any:
        """Ask the agent, hand each event to `on_event` in this thread, return the result.

        Without `timeout` it goes on as long as the host is heard.
        """
        ...

    def close(self) -> None:
        """End the conversation; everybody who waits for an answer gets an UnreachableError."""
        ...
