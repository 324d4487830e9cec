"""The node's side of the wire: newline-delimited JSON on stdin and stdout (docs/protocol.md)."""

import json
import os
import sys
import threading
from typing import Any, BinaryIO, Optional

from gpuguard.agent.greeting import greet
from gpuguard.agent.methods import Cancelled, find_method
from gpuguard.agent.paths import NodePaths
from gpuguard.agent.places import error_of
from gpuguard.model.codec import plain
from gpuguard.model.errors import UsageError

MAX_LINE = 8 * 1024 * 1024  # bytes
_DRAIN_SECONDS = 120.0


class Wire:
    """Our end of the channel: whole lines, one at a time, until the other end is gone."""

    def __init__(self, output: BinaryIO) -> None:
        self._output = output
        self._lock = threading.Lock()
        self.closed = threading.Event()

    def send(self, message: dict[str, Any]) -> None:
        """Send one message; once the other end is gone nothing is sent and nothing is raised."""
        line = json.dumps(plain(message), ensure_ascii=False, allow_nan=False).encode() + b"\n"
        if len(line) > MAX_LINE:
            raise ValueError(f"the answer is too long for the wire: {len(line)} bytes")
        with self._lock:
            if self.closed.is_set():
                return
            try:
                self._output.write(line)
                self._output.flush()
            except (OSError, ValueError):
                self.closed.set()


class Call:
    """One request at work in its own thread; it is the `emit` of its method."""

    def __init__(self, wire: Wire, request_id: Any) -> None:
        self.wire = wire
        self.id = request_id
        self.cancelled = threading.Event()

    def __call__(self, event: dict[str, Any]) -> None:
        """Send one event; raises Cancelled."""
        self.pause(0)
        self.wire.send({"id": self.id, "event": event})

    def pause(self, seconds: float) -> None:
        """Sleep; raises Cancelled when the caller is gone or has cancelled."""
        if self.cancelled.wait(seconds) or self.wire.closed.is_set():
            raise Cancelled

    def work(self, name: str, params: dict[str, Any]) -> None:
        """Run the method and send its result or its error."""
        try:
            answer: dict[str, Any] = {"result": find_method(name)(params, self)}
            self.wire.send({"id": self.id, **answer})
        except Cancelled:
            self.wire.send({"id": self.id, "result": None})
        except Exception as error:
            self.wire.send({"id": self.id, "error": error_of(error)})


class Server:
    """The requests of one connection, each in its own thread."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._calls: dict[Any, Call] = {}
        self._threads: list[threading.Thread] = []

    def take_line(self, line: bytes) -> None:
        """Start what a request line asks for; raises UsageError if it cannot be read."""
        try:
            message = json.loads(line)
            request_id, name = message["id"], message["method"]
            params = message.get("params") or {}
            if not (isinstance(request_id, int) and isinstance(name, str)):
                raise TypeError("id must be a number, method a text")
            if not isinstance(params, dict):
                raise TypeError("params must be an object")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UsageError(f"the request cannot be read: {error!r}") from error
        if name == "cancel":
            self._cancel(request_id, params)
        else:
            self._start(request_id, name, params)

    def drain(self) -> None:
        """End every watch, and let what changes something come to its end."""
        for call in list(self._calls.values()):
            call.cancelled.set()
        for thread in self._threads:
            thread.join(_DRAIN_SECONDS)

    def _start(self, request_id: Any, name: str, params: dict[str, Any]) -> None:
        call = Call(self._wire, request_id)
        self._calls[request_id] = call
        thread = threading.Thread(target=self._work, args=(call, name, params), daemon=True)
        self._threads = [entry for entry in self._threads if entry.is_alive()] + [thread]
        thread.start()

    def _work(self, call: Call, name: str, params: dict[str, Any]) -> None:
        try:
            call.work(name, params)
        finally:
            self._calls.pop(call.id, None)

    def _cancel(self, request_id: Any, params: dict[str, Any]) -> None:
        call = self._calls.get(params.get("id"))
        if call is not None:
            call.cancelled.set()
        self._wire.send({"id": request_id, "result": {"cancelled": call is not None}})


def serve() -> int:
    """Answer requests until stdin ends; return the exit code."""
    source, output = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    # A stray print of any module must not land between the lines of the wire.
    os.dup2(2, 1)
    wire = Wire(output)
    wire.send({"hello": greet(NodePaths())})
    server = Server(wire)
    code = _read_requests(source, wire, server)
    server.drain()
    sys.stderr.flush()
    # A thread stuck on a dead mount must not keep the process from ending.
    os._exit(code)


def _read_requests(source: BinaryIO, wire: Wire, server: Server) -> int:
    while not wire.closed.is_set():
        line = source.readline(MAX_LINE + 1)
        if not line:
            return 0
        problem: Optional[UsageError] = None
        if len(line) > MAX_LINE:
            problem = UsageError(f"the request is longer than {MAX_LINE} bytes")
        else:
            try:
                server.take_line(line)
            except UsageError as error:
                problem = error
        if problem:
            wire.send({"id": None, "error": problem.to_dict()})
            return 1
    return 0
