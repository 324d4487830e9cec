"""Look at the keys hosts show before they are trusted, and record those that a person believes."""

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from gpuguard.model.errors import GpuguardError
from gpuguard.model.inventory import Host
from gpuguard.remote.host_keys import HostKeys, names_of
from gpuguard.remote.known_hosts import Finding, HostKey, Standing, judge, read_known_hosts, record
from gpuguard.remote.routes import AT_ONCE, Routes
from gpuguard.remote.settings import split_jump


@dataclass(frozen=True)
class Shown:
    """The key one host shows, and what is on record in the inventory's own file."""

    host: Host
    name: str  # under which the key is kept, as OpenSSH writes it
    key: HostKey
    finding: Finding
    path: Path  # the file it would be recorded in

    @property
    def known(self) -> bool:
        """Say whether this very key is on record."""
        return self.finding.standing is Standing.KNOWN

    @property
    def changed(self) -> bool:
        """Say whether another key is on record, or this one as revoked."""
        return self.finding.standing in (Standing.CHANGED, Standing.REVOKED)


@dataclass(frozen=True)
class Recorded:
    """What is on record of one host, without asking it."""

    host: Host
    place: str
    user: str
    keys: tuple[HostKey, ...]


def look(
    routes: Routes, hosts: Sequence[Host], inventory_dir: Path
) -> dict[str, Shown | GpuguardError]:
    """Ask `hosts` for their keys side by side, without logging in; return what came of each."""

    def one(host: Host) -> Shown | GpuguardError:
        try:
            return _look_at(routes, host, inventory_dir)
        except GpuguardError as error:
            return error

    with ThreadPoolExecutor(max(1, min(AT_ONCE, len(hosts)))) as workers:
        return dict(zip((host.name for host in hosts), workers.map(one, hosts), strict=True))


def believe(shown: Shown) -> None:
    """Record the key in the inventory's known_hosts file, in place of other keys of the host.

    Raises:
        GpuguardError: the file cannot be written.
    """
    record(shown.path, shown.name, shown.key, replace=True)


def recorded(routes: Routes, host: Host, inventory_dir: Path) -> Recorded:
    """Return what the known_hosts files hold of `host`; raise GpuguardError."""
    route = routes.route(host)
    files = HostKeys.of(host, inventory_dir).files(route)
    names = names_of(route)
    keys = (
        entry.key
        for known in files
        for entry in known.entries
        if not entry.revoked and any(entry.names(name) for name in names)
    )
    return Recorded(host, route.place, route.user, tuple(dict.fromkeys(keys)))


def jump_host(routes: Routes, hosts: Iterable[Host], name: str) -> Host | None:
    """Return the jump host `name` that the way to one of `hosts` leads through, else None."""
    for host in hosts:
        for spec in routes.route(host).jumps:
            user, address, port = split_jump(spec)
            if name in (spec, address):
                return Host(
                    name=address,
                    address=address,
                    port=int(port) if port else None,
                    user=user or None,
                    connect_timeout=host.connect_timeout,
                    known_hosts=host.known_hosts,
                )
    return None


def _look_at(routes: Routes, host: Host, inventory_dir: Path) -> Shown:
    route, key = routes.host_key(host)
    path = HostKeys.of(host, inventory_dir).path
    names = names_of(route)
    return Shown(host, names[0], key, judge([read_known_hosts(path)], names, key), path)
