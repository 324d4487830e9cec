"""Connections along their whole way: settings, jump hosts, host keys, and how many at once."""

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from gpuguard.model.errors import UnreachableError, UsageError
from gpuguard.model.inventory import Host
from gpuguard.remote import failures, ssh
from gpuguard.remote.host_keys import HostKeys
from gpuguard.remote.known_hosts import HostKey
from gpuguard.remote.settings import Route, Settings

AT_ONCE = 32
AT_ONCE_PER_JUMP = 8
_TRIES = 3
_MOST_JUMPS = 8

T = TypeVar("T")


class Routes:
    """Connect to hosts; jump hosts are connected once and shared."""

    def __init__(self, inventory_dir: Path, settings: Settings | None = None) -> None:
        self._inventory_dir = inventory_dir
        self._settings = settings or Settings()
        self._ring = ssh.KeyRing()
        self._slots = threading.BoundedSemaphore(AT_ONCE)
        self._jumps: dict[tuple[str, ...], _Jump] = {}
        self._lock = threading.Lock()

    def route(self, host: Host) -> Route:
        """Return where `host` is and how it is reached; raise UsageError."""
        return self._settings.of_host(host)

    @contextmanager
    def connect(self, host: Host) -> Iterator[ssh.Connection]:
        """Yield a new connection; it is cut if the block fails."""
        keys = HostKeys.of(host, self._inventory_dir)
        route = self.route(host)
        limits = ssh.Limits.of(host.connect_timeout)

        def attempt(via: ssh.Connection | None) -> ssh.Connection:
            proofs = ssh.Proofs(self._ring, keys.types(route), keys.verify)
            return ssh.open_connection(route, via, limits, proofs)

        connection = self._reach(route, host, attempt)
        try:
            yield connection
        except BaseException:
            connection.close()
            raise

    def host_key(self, host: Host) -> tuple[Route, HostKey]:
        """Return the route and the key that the host shows, unverified, without a login."""
        route = self.route(host)
        limits = ssh.Limits.of(host.connect_timeout)
        key = self._reach(route, host, lambda via: ssh.fetch_host_key(route, via, limits))
        return route, key

    def close(self) -> None:
        """Close the connections to jump hosts and SSH agents."""
        with self._lock:
            jumps, self._jumps = list(self._jumps.values()), {}
        for jump in jumps:
            jump.close()
        self._ring.close()

    def _reach(self, route: Route, host: Host, attempt: Callable[[ssh.Connection | None], T]) -> T:
        if not route.jumps:
            with self._slots:
                return attempt(None)
        jump = self._jump(self._whole_way(host.name, route.jumps))
        with jump.slots, self._slots:
            return _patiently(lambda: attempt(self._contact(jump, host)))

    def _jump(self, chain: tuple[str, ...]) -> "_Jump":
        with self._lock:
            return self._jumps.setdefault(chain, _Jump(chain))

    def _whole_way(self, name: str, jumps: tuple[str, ...]) -> tuple[str, ...]:
        """Put before the first jump host those that the way to it leads through itself."""
        way = jumps
        while before := self._settings.of_jump(way[0]).jumps:
            way = (*before, *way)
            if len(way) > _MOST_JUMPS:
                raise UsageError(f"{name}: its jump hosts lead in a circle: {', '.join(way)}")
        return way

    def _contact(self, jump: "_Jump", host: Host) -> ssh.Connection:
        """Return the connection to the last host of the way, each reached through the one before.

        A lock is only ever taken while those of longer ways are held, so nobody waits in a ring.
        """
        with jump.lock:
            if jump.connection is None or not jump.connection.alive:
                jump.connection = self._open_jump(jump.chain, host)
            return jump.connection

    def _open_jump(self, chain: tuple[str, ...], host: Host) -> ssh.Connection:
        route = _with_keys(self._settings.of_jump(chain[-1]), host)
        via = self._contact(self._jump(chain[:-1]), host) if chain[:-1] else None
        keys = HostKeys.of(host, self._inventory_dir)
        limits = ssh.Limits.of(host.connect_timeout)
        try:
            proofs = ssh.Proofs(self._ring, keys.types(route), keys.verify)
            return _patiently(lambda: ssh.open_connection(route, via, limits, proofs))
        except UnreachableError as error:
            reason = error.message.removeprefix(f"{route.name}: ")
            raise failures.jump_down(host.name, chain[-1], reason) from error


class _Jump:
    """A chain of jump hosts: its connection, and how many hosts may be connecting through it."""

    def __init__(self, chain: tuple[str, ...]) -> None:
        self.chain = chain
        self.lock = threading.Lock()
        self.slots = threading.BoundedSemaphore(AT_ONCE_PER_JUMP)
        self.connection: ssh.Connection | None = None

    def close(self) -> None:
        if self.connection is not None:
            self.connection.close()


def _with_keys(route: Route, host: Host) -> Route:
    """Let a jump host try the keys that the inventory names for the host behind it, last."""
    more = (Path(file).expanduser() for file in host.identity_files)
    files = dict.fromkeys((*route.identity_files, *more))
    return replace(route, identity_files=tuple(files))


def _patiently(attempt: Callable[[], T]) -> T:
    """Try again where a crowded sshd drops connections at random (MaxStartups)."""
    for turn in range(1, _TRIES):
        try:
            return attempt()
        except UnreachableError as error:
            if error.details.get("reason") != "handshake":
                raise
        time.sleep(random.uniform(0.1, 0.4) * 2**turn)  # noqa: S311 - spreads, guards nothing
    return attempt()
