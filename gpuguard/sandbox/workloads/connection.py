"""A listening port that echoes, and a connection that notices when it was cut. Python 3.9."""

from __future__ import annotations

import selectors
import socket
import threading

_SECONDS = 2.0


def listen(port: int) -> None:
    """Echo whatever comes in on `port`, in a thread of its own; raise OSError if it is taken."""
    server = socket.create_server(("", port))
    threading.Thread(target=_echo, args=(server,), daemon=True).start()


def _echo(server: socket.socket) -> None:
    selector = selectors.DefaultSelector()
    selector.register(server, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select():
            ready = key.fileobj
            if ready is server:
                peer, _ = server.accept()
                selector.register(peer, selectors.EVENT_READ)
            elif isinstance(ready, socket.socket) and not _echo_once(ready):
                selector.unregister(ready)
                ready.close()


def _echo_once(peer: socket.socket) -> bool:
    try:
        data = peer.recv(4096)
        peer.sendall(data)
    except OSError:
        return False
    return bool(data)


class Connection:
    """A connection kept open for good and used at every step."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address
        self._socket: socket.socket | None = None
        self.made = 0

    def use(self, text: str) -> str | None:
        """Send a line and wait for its echo; return what there is to note, if anything."""
        try:
            news = self._connect()
            if self._socket and self._exchange(self._socket, text.encode() + b"\n"):
                return news
            reason = "ended by the peer"
        except OSError as error:
            reason = str(error)
        if self._socket:
            self._socket.close()
        self._socket = None
        return f"connection lost: {reason}"

    def _connect(self) -> str | None:
        if self._socket:
            return None
        self._socket = socket.create_connection(self._address, timeout=_SECONDS)
        self.made += 1
        return f"connection {self.made} made"

    @staticmethod
    def _exchange(peer: socket.socket, data: bytes) -> bool:
        peer.sendall(data)
        came = b""
        while len(came) < len(data):
            piece = peer.recv(4096)
            if not piece:
                return False
            came += piece
        return True
