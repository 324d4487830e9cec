"""SSH connections: the only place that knows paramiko.

Its traps, each measured, shape this module: it breaks connections around its own rekey, so the
server's rekey limits decide; it wakes ten times a second while idle, so the socket gets a longer
time-out; it waits without end for an exec, so a timer cuts the connection.
"""

import base64
import contextlib
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import paramiko  # noqa: TID251

from gpuguard.remote import failures
from gpuguard.remote.channel import ChannelLink
from gpuguard.remote.known_hosts import HostKey
from gpuguard.remote.settings import Route
from gpuguard.remote.sockets import connect_tcp, run_proxy

# It logs each failed handshake with a traceback; ours raise one sentence instead.
logging.getLogger("paramiko").setLevel(logging.CRITICAL)

_NEVER = 2**40  # bytes or packets: out of reach, so the server decides when to rekey

_BROKEN = (paramiko.SSHException, EOFError, OSError)

Verify = Callable[[Route, HostKey], None]


@dataclass(frozen=True)
class Limits:
    """How long each step of a connection may take, in seconds."""

    connect: float
    banner: float
    auth: float
    channel: float

    @classmethod
    def of(cls, connect: float) -> "Limits":
        """Return the limits for a host whose TCP connection may take `connect` seconds."""
        return cls(connect, 3 * connect, 3 * connect, 2 * connect)


class KeyRing:
    """Private keys from files and SSH agents, each read once and shared by all connections."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._files: dict[Path, paramiko.PKey | str] = {}
        self._agents: dict[str, _SharedAgent | str] = {}

    def keys_for(self, route: Route, notes: list[str]) -> Iterator[tuple[str, paramiko.PKey]]:
        """Yield label and key in the order to offer; say in `notes` what cannot be used.

        Keys that the settings name come first, since a host takes only a few wrong ones.
        """
        held = self._agent_keys(route.agent, notes) if route.agent else ()
        named = {public_blob(file): file for file in route.identity_files}
        ours = [key for key in held if key.blob in named]
        yield from ((f"{named[key.blob]} (agent)", key) for key in ours)
        covered = {named[key.blob] for key in ours}
        for file in route.identity_files:
            if file in covered or file.suffix == ".pub":
                continue
            found = self._file_key(file)
            if isinstance(found, str):
                notes.append(found)
            else:
                yield str(file), found
        if not route.identities_only:
            yield from ((f"{key.comment} (agent)", key) for key in held if key not in ours)

    def close(self) -> None:
        """Give the connections to SSH agents back."""
        with self._lock:
            agents, self._agents = list(self._agents.values()), {}
        for agent in agents:
            if isinstance(agent, _SharedAgent):
                agent.close()

    def _file_key(self, file: Path) -> "paramiko.PKey | str":
        with self._lock:
            if file not in self._files:
                self._files[file] = _load_key(file)
            return self._files[file]

    def _agent_keys(self, path: str, notes: list[str]) -> "tuple[paramiko.AgentKey, ...]":
        with self._lock:
            if path not in self._agents:
                self._agents[path] = _SharedAgent.at(path)
            agent = self._agents[path]
        if isinstance(agent, str):
            notes.append(agent)
            return ()
        return tuple(key for key in agent.get_keys() if not key.name.startswith("sk-"))


class _SharedAgent(paramiko.agent.AgentSSH):
    """One connection to an SSH agent; a thousand of them exhaust it, so signing takes turns."""

    def __init__(self) -> None:
        super().__init__()
        self._turn = threading.Lock()

    @classmethod
    def at(cls, path: str) -> "_SharedAgent | str":
        """Return the agent behind the socket `path`, or why it cannot be used."""
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        agent = cls()
        try:
            sock.settimeout(10.0)
            sock.connect(path)
            agent._connect(sock)  # type: ignore[attr-defined]
        except (OSError, paramiko.SSHException) as error:
            sock.close()
            return f"the SSH agent at {path} does not answer: {error}"
        return agent

    def close(self) -> None:
        """Close the socket to the agent."""
        with self._turn:
            self._close()  # type: ignore[attr-defined]

    def _send_message(self, msg: Any) -> Any:
        with self._turn:
            return super()._send_message(msg)  # type: ignore[misc]


def public_blob(file: Path) -> bytes:
    """Return the public key beside the private key `file` (or in it, for a .pub); b"" if none."""
    public = file if file.suffix == ".pub" else file.with_name(f"{file.name}.pub")
    try:
        return base64.b64decode(public.read_text().split()[1])
    except (OSError, IndexError, ValueError):
        return b""


def _load_key(file: Path) -> "paramiko.PKey | str":
    try:
        return paramiko.PKey.from_path(file)
    except Exception as error:  # each key format fails with exceptions of its own
        text = str(error)
        if "assword" in text or "passphrase" in text:
            return f"{file} needs its passphrase: ssh-add {file}"
        return f"{file} cannot be used: {text or type(error).__name__}"


class Connection:
    """One authenticated SSH connection; channels are opened on it from any thread."""

    def __init__(self, route: Route, transport: paramiko.Transport, limits: Limits) -> None:
        self.route = route
        self._transport = transport
        self._limits = limits

    @property
    def alive(self) -> bool:
        """Say whether the connection is up, as far as this side has noticed."""
        return self._transport.is_active()

    def execute(self, command: str) -> ChannelLink:
        """Start `command` on the host; closing the link closes this connection."""
        with _guard(self.route.name, self._transport, "exec", self._limits.channel):
            channel = self._transport.open_session(timeout=self._limits.channel)
            channel.exec_command(command)
        return ChannelLink(channel, self.close, _BROKEN)

    def tunnel(self, hostname: str, port: int, timeout: float) -> "Tunnel":
        """Open a way through this host to `hostname`; raise paramiko's errors."""
        return Tunnel(
            self._transport.open_channel(
                "direct-tcpip", (hostname, port), ("127.0.0.1", 0), timeout=timeout
            )
        )

    def close(self) -> None:
        """Cut the connection at once."""
        _cut(self._transport)


class Tunnel:
    """A channel that serves as a socket; closing it twice or over a dead jump host is no error."""

    def __init__(self, channel: paramiko.Channel) -> None:
        self._channel = channel

    def __getattr__(self, name: str) -> Any:
        return getattr(self._channel, name)

    def close(self) -> None:
        """Close the channel, if its connection still lives."""
        with contextlib.suppress(*_BROKEN):
            self._channel.close()


@dataclass(frozen=True)
class Proofs:
    """Who is who: the keys we show, and what decides on the key the host shows."""

    ring: KeyRing
    types: list[str]  # host key types on record, asked for first
    verify: Verify  # raises what it finds wrong with the host's key


def open_connection(
    route: Route, via: Connection | None, limits: Limits, proofs: Proofs
) -> Connection:
    """Connect to `route`, through `via` where it is given, check the host key and log in.

    Raises:
        UnreachableError: no connection, no handshake, or no key that the host takes.
        GpuguardError: what `proofs.verify` raises.
    """
    transport = _handshake(route, via, limits, proofs.types)
    try:
        proofs.verify(route, host_key_of(transport))
        _log_in(transport, route, proofs.ring)
    except BaseException:
        _cut(transport)
        raise
    _settle(transport)
    return Connection(route, transport, limits)


def _log_in(transport: paramiko.Transport, route: Route, ring: "KeyRing") -> None:
    """Offer the keys one by one until the host takes one; raise UnreachableError."""
    tried: list[str] = []
    notes: list[str] = []
    for label, key in ring.keys_for(route, notes):
        tried.append(label)
        started = time.monotonic()
        try:
            if not transport.auth_publickey(route.user, key):
                return
            notes.append("the host wants a second proof besides the key")
        except paramiko.BadAuthenticationType as error:
            notes.append(f"the host allows only: {', '.join(error.allowed_types)}")
            break
        except _BROKEN as error:
            took = time.monotonic() - started
            if took >= (transport.auth_timeout or 30.0) * 0.95:
                raise failures.hang(route.name, "the login", took) from error
            if not transport.is_active():
                notes.append("then the host hung up")
                break
    raise failures.key_refused(route.name, route.user, tried, notes)


def fetch_host_key(route: Route, via: Connection | None, limits: Limits) -> HostKey:
    """Return the key that the host shows, without logging in; raise UnreachableError."""
    transport = _handshake(route, via, limits, [])
    try:
        return host_key_of(transport)
    finally:
        _cut(transport)


def host_key_of(transport: paramiko.Transport) -> HostKey:
    """Return the key the server proved to hold in the key exchange."""
    key = transport.get_remote_server_key()
    return HostKey(key.get_name(), key.asbytes())


def _handshake(
    route: Route, via: Connection | None, limits: Limits, types: list[str]
) -> paramiko.Transport:
    sock = _socket(route, via, limits)
    transport = paramiko.Transport(cast(socket.socket, sock))
    _tune(transport, limits, types)
    started = time.monotonic()
    limit = limits.banner + limits.auth
    try:
        transport.start_client(timeout=limit)
        if not transport.initial_kex_done:
            raise paramiko.SSHException("no end of the key exchange")
    except _BROKEN as error:
        _cut(transport)
        took = time.monotonic() - started
        if took >= limits.banner * 0.95:
            raise failures.hang(route.name, "the SSH greeting", took) from error
        raise failures.handshake(route.name, _reason(error)) from error
    return transport


def _socket(route: Route, via: Connection | None, limits: Limits) -> socket.socket | Tunnel:
    if via is not None:
        return _through(route, via, limits)
    if route.proxy_command:
        return run_proxy(route.proxy_command)
    return connect_tcp(route, limits.connect)


def _through(route: Route, via: Connection, limits: Limits) -> Tunnel:
    try:
        # The jump host waits for its own TCP connection before it answers.
        return via.tunnel(route.hostname, route.port, limits.connect + limits.channel)
    except _BROKEN as error:
        raise failures.jump_down(route.name, via.route.name, _reason(error)) from error


def _tune(transport: paramiko.Transport, limits: Limits, types: list[str]) -> None:
    transport.daemon = True
    transport.banner_timeout = limits.banner
    transport.handshake_timeout = limits.banner
    transport.auth_timeout = limits.auth
    transport.channel_timeout = limits.channel
    for name in ("REKEY_BYTES", "REKEY_PACKETS"):
        setattr(transport.packetizer, name, _NEVER)
        setattr(transport.packetizer, f"{name}_OVERFLOW_MAX", _NEVER)
    options = transport.get_security_options()
    options.ciphers = _first(options.ciphers, ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com"))
    wanted = ("rsa-sha2-512", "rsa-sha2-256") if "ssh-rsa" in types else ()
    options.key_types = _first(options.key_types, (*types, *wanted))


def _first(all_names: Sequence[str], wanted: tuple[str, ...]) -> tuple[str, ...]:
    front = [name for name in wanted if name in all_names]
    return (*front, *(name for name in all_names if name not in front))


def _settle(transport: paramiko.Transport) -> None:
    """Let the transport's thread sleep longer between its looks at the socket."""
    transport.sock.settimeout(2.0)


def _cut(transport: paramiko.Transport) -> None:
    """Close without waiting: a shut socket wakes the transport's thread at once."""
    sock = transport.sock
    with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
        if isinstance(sock, socket.socket):
            sock.shutdown(socket.SHUT_RDWR)
        else:
            sock.close()
    transport.close()


@contextlib.contextmanager
def _guard(name: str, transport: paramiko.Transport, step: str, seconds: float) -> Iterator[None]:
    """Cut the connection when the block takes longer; turn paramiko's errors into ours."""
    started = time.monotonic()
    timer = threading.Timer(seconds, _cut, (transport,))
    timer.daemon = True
    timer.start()
    try:
        yield
    except paramiko.ChannelException as error:
        raise failures.handshake(name, f"it refuses a session: {error.text}") from error
    except (paramiko.SSHException, EOFError, OSError, AssertionError) as error:
        took = time.monotonic() - started
        if took >= seconds * 0.95:
            raise failures.hang(name, step, took) from error
        raise failures.handshake(name, _reason(error)) from error
    finally:
        timer.cancel()


def _reason(error: BaseException) -> str:
    if isinstance(error, paramiko.ChannelException):
        return error.text
    text = str(error).strip().removesuffix(".")
    if not text or "Error reading SSH protocol banner" in text:
        return "the other side closed the connection"
    return text
