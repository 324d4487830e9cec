"""Start the agent on a node and exchange greetings with it."""

import json
import shlex
import time
from collections import deque
from pathlib import Path
from typing import Any

from gpuguard.model.errors import GpuguardError
from gpuguard.model.inventory import Host
from gpuguard.remote import failures, node_start
from gpuguard.remote.archive import Bundle
from gpuguard.remote.client import AgentSession, Patience
from gpuguard.remote.link import LineReader, LineTooLongError, Link, after
from gpuguard.remote.session import PROTOCOL, Hello

# The shell sees constants and a hex hash only; the code itself comes over standard input.
_TAKE_CODE = "import sys;f=sys.stdin.buffer;c=f.read(int(f.readline())).decode();exec(c)"
_START = "\nmain(c, sys.argv[1])\n"
_START_AT_LEAST = 30.0  # seconds for login, shell, sudo and Python
_RECOVERY = 600.0  # seconds from there to the hello: the agent settles open procedures first
_NOISE = 65536  # bytes that a login's own files may print before


def start_argv(bundle: Bundle, sudo: bool, python: str = "python3") -> list[str]:
    """Return the command that starts the agent of `bundle`, as root where `sudo` is set."""
    return [*(("sudo", "-n", "--") if sudo else ()), python, "-IS", "-c", _TAKE_CODE, bundle.sha256]


def start_command(bundle: Bundle, sudo: bool) -> str:
    """Return the same as text for the login's shell."""
    return shlex.join(start_argv(bundle, sudo))


def greet(host: Host, user: str, link: Link, bundle: Bundle, patience: Patience) -> AgentSession:
    """Run the start code behind `link`, send the agent if asked, and wait for its hello.

    Raises:
        UnreachableError: there is no Python, no root, no room, no hello in time, or another
            protocol than ours.
    """
    try:
        hello, lines = _Greeting(host, user, link, bundle).run()
    except BaseException:
        link.close()
        raise
    return AgentSession(host.name, link, hello, lines, patience)


class _Greeting:
    def __init__(self, host: Host, user: str, link: Link, bundle: Bundle) -> None:
        self._host = host
        self._user = user
        self._link = link
        self._bundle = bundle
        self._lines = LineReader()
        self._limit = max(_START_AT_LEAST, host.timeout)
        self._deadline = after(self._limit)
        self._noise = b""
        self._pending: deque[dict[str, Any]] = deque()

    def run(self) -> tuple[Hello, LineReader]:
        code = Path(node_start.__file__).read_bytes() + _START.encode()
        self._send(b"%d\n%b" % (len(code), code))
        while True:
            message = self._next()
            if "hello" in message:
                return self._check(message["hello"]), self._lines
            self._boot(message["boot"])

    def _boot(self, boot: dict[str, Any]) -> None:
        if "error" in boot:
            raise self._boot_error(boot)
        if "need" in boot:
            packed = self._bundle.packed
            self._send(b"%d\n%b" % (len(packed), packed))
        if "starting" in boot:
            self._limit = _RECOVERY
            self._deadline = after(_RECOVERY)

    def _next(self) -> dict[str, Any]:
        while not self._pending:
            data = self._link.read()
            if time.monotonic() > self._deadline:
                raise failures.hang(self._host.name, "the start of the agent", self._limit)
            if data == b"":
                raise self._ended()
            for line in self._feed(data or b""):
                message = _message(line)
                if message is not None:
                    self._pending.append(message)
                else:
                    self._noise = (self._noise + line + b"\n")[-_NOISE:]
        return self._pending.popleft()

    def _feed(self, data: bytes) -> list[bytes]:
        try:
            return list(self._lines.feed(data))
        except LineTooLongError:
            raise failures.bad_wire(self._host.name, "its first line does not end") from None

    def _send(self, data: bytes) -> None:
        try:
            self._link.write(data, self._deadline)
        except OSError as error:
            raise self._ended(str(error)) from error

    def _check(self, data: Any) -> Hello:
        name = self._host.name
        try:
            hello = Hello.from_dict(data)
        except (ValueError, AttributeError, TypeError) as error:
            raise failures.bad_wire(name, f"its hello cannot be read: {error}") from error
        if hello.protocol != PROTOCOL:
            raise failures.bad_wire(name, f"it speaks protocol {hello.protocol}, not {PROTOCOL}")
        if hello.agent not in ("", self._bundle.sha256):
            raise failures.bad_wire(name, f"agent {hello.agent} answers, not {self._bundle.sha256}")
        return hello

    def _boot_error(self, boot: dict[str, Any]) -> GpuguardError:
        reason, path = str(boot.get("error")), str(boot.get("path"))
        if reason == "old-python":
            return failures.old_python(self._host.name, str(boot.get("text")))
        return failures.cannot_store(self._host.name, path, reason, str(boot.get("text")))

    def _hear_out(self) -> None:
        """Take what was said before the end; a write can fail while words still wait."""
        deadline = after(2.0)
        try:
            while time.monotonic() < deadline and (data := self._link.read()):
                self._noise = (self._noise + data)[-_NOISE:]
        except OSError:
            return  # the link has nothing more to say

    def _ended(self, reason: str = "") -> GpuguardError:
        """Say why nothing but an end came, from what the shell, sudo or Python said."""
        name = self._host.name
        self._hear_out()
        status, said = self._link.ending()
        if "sudo:" in said and "python3: command not found" not in said:
            return failures.sudo_refused(name, self._user, said)
        if status == 127 or "python3: command not found" in said:
            return failures.no_python(name, said)
        if status is None and not said:
            return failures.link_lost(name, reason)
        noise = self._noise.decode(errors="replace")
        return failures.agent_gone(name, status, said or noise)


def _message(line: bytes) -> dict[str, Any] | None:
    """Return the agent's or the start code's message; None for text a login prints first."""
    try:
        message = json.loads(line)
    except ValueError:
        return None
    if not isinstance(message, dict) or not ({"hello", "boot"} & message.keys()):
        return None
    return message
