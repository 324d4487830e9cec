"""A link over one exec channel of an SSH connection."""

import time
from collections.abc import Callable
from typing import Any

from gpuguard.remote.link import TICK

_QUIET = 8192  # characters of stderr that are kept

Broken = tuple[type[BaseException], ...]  # what the SSH library raises when a connection is gone


class ChannelLink:
    """A link (see gpuguard.remote.link) over an exec channel."""

    def __init__(self, channel: Any, cut: Callable[[], None], broken: Broken) -> None:
        self._channel = channel
        self._cut = cut
        self._broken = broken
        self._said = ""
        channel.settimeout(TICK)

    def read(self) -> bytes | None:
        """Return what came, b"" at the end, None when nothing came within TICK seconds."""
        try:
            data: bytes | None = self._channel.recv(1 << 17)
        except TimeoutError:
            data = None
        # Unread stderr would fill the window it shares with stdout and stop both.
        while self._channel.recv_stderr_ready():
            more = self._channel.recv_stderr(1 << 16)
            if not more:
                break
            self._said = (self._said + more.decode(errors="replace"))[-_QUIET:]
        return data

    def write(self, data: bytes, deadline: float) -> None:
        """Send all of `data` before `time.monotonic()` is `deadline`; raise OSError."""
        at = 0
        while at < len(data):
            if time.monotonic() > deadline:
                raise TimeoutError("the host takes no more data")
            try:
                sent = self._channel.send(data[at : at + 32768])
            except TimeoutError:
                continue
            except self._broken as error:
                raise OSError(str(error) or "the connection is gone") from error
            if sent == 0:
                raise OSError("the channel is closed")
            at += sent

    def close(self) -> None:
        """Cut the link at once; a waiting read or write ends."""
        self._cut()

    def ending(self) -> tuple[int | None, str]:
        """Return the process's exit status, if known, and the last it said on stderr."""
        # The status follows the end of the output; a host that died never sends it.
        self._channel.status_event.wait(TICK)
        status: int = self._channel.exit_status
        while more := self._late_words():
            self._said = (self._said + more)[-_QUIET:]
        return (None if status < 0 else status), self._said

    def _late_words(self) -> str:
        try:
            return str(self._channel.recv_stderr(1 << 16), errors="replace")
        except TimeoutError:
            return ""
