"""The local transport: the agent as a child of this process, behind the same link."""

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from typing import IO, cast

from gpuguard.model.errors import UnreachableError
from gpuguard.model.inventory import Host
from gpuguard.remote.archive import Bundle
from gpuguard.remote.bootstrap import start_argv
from gpuguard.remote.link import TICK

_QUIET = 8192  # bytes of stderr that are kept


def open_local(host: Host, bundle: Bundle) -> "ChildLink":
    """Start the agent on this machine, through `sudo -n` where this user is not root.

    Raises:
        UnreachableError: it cannot be started.
    """
    argv = start_argv(bundle, host.sudo and os.geteuid() != 0, sys.executable)
    try:
        return ChildLink(argv)
    except OSError as error:
        raise UnreachableError(
            f"{host.name}: {argv[0]} cannot be started: {error.strerror}",
            "run as root, or install sudo",
        ) from error


class ChildLink:
    """A link (see gpuguard.remote.link) over one socket to a child's standard streams."""

    def __init__(self, argv: list[str]) -> None:
        self._ours, theirs = socket.socketpair()
        self._ours.settimeout(TICK)
        with theirs:
            self._child = subprocess.Popen(
                argv,
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=subprocess.PIPE,
                cwd="/",
                start_new_session=True,  # a Ctrl-C here ends the question, not the agent's answer
            )
        self._said = b""
        self._closed = threading.Event()
        self._over = threading.Event()
        threading.Thread(target=self._attend, name="gpuguard-local", daemon=True).start()

    def read(self) -> bytes | None:
        """Return what came, b"" at the end, None when nothing came within TICK seconds."""
        try:
            return self._ours.recv(1 << 17)
        except TimeoutError:
            return None
        except ConnectionResetError:
            return b""

    def write(self, data: bytes, deadline: float) -> None:
        """Send all of `data` before `time.monotonic()` is `deadline`; raise OSError."""
        view = memoryview(data)
        while view:
            if time.monotonic() > deadline:
                raise TimeoutError("the agent takes no more data")
            try:
                view = view[self._ours.send(view) :]
            except TimeoutError:
                continue

    def close(self) -> None:
        """Close the agent's input and output, which ends it."""
        if not self._closed.is_set():
            self._closed.set()
            with contextlib.suppress(OSError):
                self._ours.shutdown(socket.SHUT_RDWR)

    def ending(self) -> tuple[int | None, str]:
        """Return the process's exit status, if known, and the last it said on stderr."""
        self._over.wait(TICK)
        return self._child.poll(), self._said.decode(errors="replace")

    def _attend(self) -> None:
        """Drain stderr, reap the child, and give the socket back when nobody uses it."""
        stderr = cast(IO[bytes], self._child.stderr)
        with stderr:
            while data := os.read(stderr.fileno(), 65536):
                self._said = (self._said + data)[-_QUIET:]
        self._child.wait()
        self._over.set()
        self._closed.wait()
        self._ours.close()
