"""The operator's side of the wire (docs/protocol.md): requests by id over one link."""

import itertools
import json
import queue
import threading
import time
from dataclasses import dataclass
from typing import Any

from gpuguard.model.errors import GpuguardError, UnreachableError, UsageError, error_from_dict
from gpuguard.remote import failures
from gpuguard.remote.link import MAX_LINE, LineReader, LineTooLongError, Link, after
from gpuguard.remote.session import Hello, OnEvent


@dataclass(frozen=True)
class Patience:
    """How long the other side may be silent, in seconds."""

    call: float = 30.0  # a call that names no time of its own
    ping_after: float = 5.0
    silence: float = 15.0
    send: float = 30.0


class AgentSession:
    """A conversation with one agent; one thread reads, any thread may ask."""

    def __init__(
        self, name: str, link: Link, hello: Hello, lines: LineReader, patience: Patience
    ) -> None:
        self.hello = hello
        self._name = name
        self._link = link
        self._lines = lines
        self._patience = patience
        self._ids = itertools.count(1)
        self._waiting: dict[int, queue.SimpleQueue[dict[str, Any]]] = {}
        self._lock = threading.Lock()
        self._sending = threading.Lock()
        self._heard = time.monotonic()
        self._pinged = False
        self._end: GpuguardError | None = None
        threading.Thread(target=self._read, name=f"gpuguard-{name}", daemon=True).start()

    @property
    def ended(self) -> GpuguardError | None:
        """The reason why the conversation is over; None while it goes on."""
        return self._end

    def call(self, method: str, timeout: float | None = None, **params: Any) -> Any:
        """Ask the agent and return its result as plain JSON.

        Raises:
            UnreachableError: the link ended, or no answer came within `timeout` seconds.
            GpuguardError: what the agent answered.
        """
        limit = self._patience.call if timeout is None else timeout
        return self._ask(method, params, None, limit)

    def stream(
        self, method: str, on_event: OnEvent, timeout: float | None = None, **params: Any
    ) -> Any:
        """Ask the agent, hand each event to `on_event` in this thread, return the result.

        Without `timeout` it goes on as long as the host is heard.

        Raises:
            UnreachableError: the link ended, or no result came within `timeout` seconds.
            GpuguardError: what the agent answered.
        """
        return self._ask(method, params, on_event, timeout)

    def close(self) -> None:
        """End the conversation; everybody who waits for an answer gets an UnreachableError."""
        self._finish(failures.closed(self._name))

    def _ask(
        self,
        method: str,
        params: dict[str, Any],
        on_event: OnEvent | None,
        limit: float | None,
    ) -> Any:
        number, answers = self._enlist()
        try:
            self._send({"id": number, "method": method, "params": params})
            return self._collect(answers, method, on_event, limit)
        except BaseException as error:
            if self._end is None and not _answered(error):
                self._send_cancel(number)
            raise
        finally:
            with self._lock:
                self._waiting.pop(number, None)

    def _enlist(self) -> tuple[int, "queue.SimpleQueue[dict[str, Any]]"]:
        answers: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        with self._lock:
            if self._end is not None:
                raise self._over()
            number = next(self._ids)
            self._waiting[number] = answers
        return number, answers

    def _collect(
        self,
        answers: "queue.SimpleQueue[dict[str, Any]]",
        method: str,
        on_event: OnEvent | None,
        limit: float | None,
    ) -> Any:
        deadline = None if limit is None else after(limit)
        while True:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            try:
                message = answers.get(timeout=left)
            except queue.Empty:
                raise failures.no_answer(self._name, method, limit or 0.0) from None
            if "event" in message:
                if on_event is not None:
                    on_event(message["event"])
            elif "error" in message:
                raise _mark_answered(self._placed(message["error"]))
            elif "result" in message:
                return message["result"]
            else:
                raise self._over()

    def _placed(self, data: dict[str, Any]) -> GpuguardError:
        """Return the agent's error with the host in front: the agent does not know its name."""
        error = error_from_dict(data)
        text = f"{self._name}: {error.message.removeprefix(f'{self._name}: ')}"
        return type(error)(text, error.hint, error.details)

    def _send(self, message: dict[str, Any]) -> None:
        line = json.dumps(message, separators=(",", ":"), allow_nan=False).encode() + b"\n"
        if len(line) > MAX_LINE:
            raise UsageError(f"{self._name}: a request of {len(line)} bytes is too long to send")
        with self._sending:
            self._write(line)

    def _write(self, line: bytes) -> None:
        try:
            self._link.write(line, after(self._patience.send))
        except OSError as error:
            self._finish(failures.link_lost(self._name, str(error)))
            raise self._over() from error

    def _send_cancel(self, number: int) -> None:
        # A cancel is a courtesy: a busy or broken link must not hide the error under way.
        if not self._sending.acquire(timeout=1.0):
            return
        try:
            cancel = {"id": next(self._ids), "method": "cancel", "params": {"id": number}}
            self._write(json.dumps(cancel).encode() + b"\n")
        except UnreachableError:
            return
        finally:
            self._sending.release()

    def _read(self) -> None:
        try:
            while self._end is None:
                data = self._link.read()
                if data is None:
                    self._mind_silence()
                elif data == b"":
                    status, said = self._link.ending()
                    raise failures.agent_gone(self._name, status, said)
                else:
                    self._take(data)
        except GpuguardError as error:
            self._finish(error)
        except LineTooLongError:
            self._finish(failures.bad_wire(self._name, f"a line is longer than {MAX_LINE} bytes"))
        except OSError as error:
            self._finish(failures.link_lost(self._name, str(error)))
        except Exception as error:  # waiting callers must not wait for a dead reader
            self._finish(failures.bad_wire(self._name, f"{type(error).__name__}: {error}"))

    def _take(self, data: bytes) -> None:
        self._heard = time.monotonic()
        self._pinged = False
        for line in self._lines.feed(data):
            if line.strip():
                self._dispatch(read_message(self._name, line))

    def _dispatch(self, message: dict[str, Any]) -> None:
        number = message.get("id")
        if number is None and "error" in message:
            raise error_from_dict(message["error"])
        if not {"event", "result", "error"} & message.keys():
            raise failures.bad_wire(
                self._name, f"it sent a line that is no answer: {message!r:.200}"
            )
        with self._lock:
            answers = self._waiting.get(number) if isinstance(number, int) else None
        if answers is not None:
            answers.put(message)

    def _mind_silence(self) -> None:
        silent = time.monotonic() - self._heard
        if silent > self._patience.silence:
            raise failures.silent(self._name, silent)
        if silent > self._patience.ping_after and not self._pinged:
            self._ping()

    def _ping(self) -> None:
        # Whoever holds the lock is sending; a send that hangs is caught by the silence limit.
        if not self._sending.acquire(blocking=False):
            return
        try:
            ping = {"id": next(self._ids), "method": "ping", "params": {}}
            self._link.write(json.dumps(ping).encode() + b"\n", after(self._patience.ping_after))
            self._pinged = True
        except TimeoutError as error:  # half a line may be out, so nothing can follow it
            raise failures.silent(self._name, time.monotonic() - self._heard) from error
        finally:
            self._sending.release()

    def _over(self) -> GpuguardError:
        """Return a fresh copy of the end's reason, so that threads do not share a traceback."""
        error = self._end or failures.closed(self._name)
        return type(error)(error.message, error.hint, dict(error.details))

    def _finish(self, error: GpuguardError) -> None:
        with self._lock:
            if self._end is not None:
                return
            self._end = error
            waiting = list(self._waiting.values())
        for answers in waiting:
            answers.put({})
        self._link.close()


def read_message(name: str, line: bytes) -> dict[str, Any]:
    """Return the JSON object in `line`; raise UnreachableError for anything else."""
    try:
        message = json.loads(line)
    except ValueError:
        raise failures.bad_wire(name, f"it sent a line that is no JSON: {line[:120]!r}") from None
    if not isinstance(message, dict):
        raise failures.bad_wire(name, f"it sent a line that is no object: {line[:120]!r}")
    return message


def _mark_answered(error: GpuguardError) -> GpuguardError:
    error.__dict__["answered"] = True
    return error


def _answered(error: BaseException) -> bool:
    return bool(error.__dict__.get("answered"))
