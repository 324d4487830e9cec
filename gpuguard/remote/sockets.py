"""Sockets that lead to a host: TCP with one deadline for all its addresses, or a proxy."""

import queue
import socket
import subprocess
import threading
import time
from typing import Any

from gpuguard.remote import failures
from gpuguard.remote.link import after
from gpuguard.remote.settings import Route


def connect_tcp(route: Route, timeout: float) -> socket.socket:
    """Return a connected socket within `timeout` seconds; raise UnreachableError."""
    deadline = after(timeout)
    reason: OSError | None = None
    for family, kind, protocol, _, address in _addresses(route, timeout):
        left = deadline - time.monotonic()
        if left <= 0:
            break
        sock = socket.socket(family, kind, protocol)
        try:
            sock.settimeout(left)
            sock.connect(address)
        except OSError as error:
            sock.close()
            reason = error
            continue
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return sock
    if reason is None or isinstance(reason, TimeoutError):
        raise failures.connect_timeout(route.name, route.place, timeout)
    raise failures.connect(route.name, route.place, reason.strerror or str(reason)) from reason


class _ProxySocket(socket.socket):
    """A socket to a proxy that is told to end when the socket is closed, as OpenSSH does."""

    proxy: subprocess.Popen[bytes] | None = None

    def close(self) -> None:
        super().close()
        proxy, self.proxy = self.proxy, None
        if proxy is not None:
            proxy.terminate()  # not every proxy ends when its input does


def run_proxy(command: str) -> socket.socket:
    """Start the user's ProxyCommand, as OpenSSH does; return a socket to its streams."""
    pair, theirs = socket.socketpair()
    ours = _ProxySocket(fileno=pair.detach())
    with theirs:
        process = subprocess.Popen(
            ["/bin/sh", "-c", f"exec {command}"],
            stdin=theirs.fileno(),
            stdout=theirs.fileno(),
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    ours.proxy = process
    threading.Thread(target=process.wait, name="gpuguard-proxy", daemon=True).start()
    return ours


def _addresses(route: Route, timeout: float) -> list[Any]:
    """Resolve in a thread of its own: the C library waits as long as it likes."""
    answers: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def resolve() -> None:
        try:
            answers.put(socket.getaddrinfo(route.hostname, route.port, type=socket.SOCK_STREAM))
        except (OSError, UnicodeError) as error:
            answers.put(error)

    threading.Thread(target=resolve, name="gpuguard-dns", daemon=True).start()
    try:
        found = answers.get(timeout=timeout)
    except queue.Empty:
        raise failures.dns(route.name, route.hostname, f"no answer within {timeout:g} s") from None
    if isinstance(found, OSError):
        raise failures.dns(route.name, route.hostname, found.strerror or str(found)) from found
    if isinstance(found, UnicodeError):
        raise failures.dns(route.name, route.hostname, str(found)) from found
    return list(found)
