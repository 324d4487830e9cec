"""Whether a host is the one we know: the inventory's known_hosts file first, then OpenSSH's."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from gpuguard.model.inventory import Host
from gpuguard.remote import failures
from gpuguard.remote.known_hosts import (
    HostKey,
    KnownHosts,
    Standing,
    judge,
    known_types,
    lookup_name,
    read_known_hosts,
    record,
)
from gpuguard.remote.settings import Route


@dataclass(frozen=True)
class HostKeys:
    """What decides on the keys of one host and of the jump hosts on its way."""

    path: Path  # the inventory's known_hosts file
    accept_new: bool

    @classmethod
    def of(cls, host: Host, inventory_dir: Path) -> "HostKeys":
        """Return the rules for `host`."""
        path = inventory_dir / (host.known_hosts or "known_hosts")
        return cls(path, host.host_keys == "accept-new")

    @cached_property
    def _own(self) -> KnownHosts:
        return read_known_hosts(self.path)

    def types(self, route: Route) -> list[str]:
        """Return the key types on record for the host."""
        return known_types(self.files(route), names_of(route))

    def verify(self, route: Route, key: HostKey) -> None:
        """Accept the key the host shows, or raise RefusedError with the next command."""
        found = judge(self.files(route), names_of(route), key)
        if found.standing is Standing.KNOWN:
            return
        shown = f"{key.type} {key.fingerprint}"
        if found.standing is Standing.REVOKED:
            raise failures.revoked_key(route.name, route.place, shown, str(found.path))
        if found.entry is not None:
            line = f"{found.entry.key.type} {found.entry.key.fingerprint}"
            where = f"{line} ({found.path}:{found.entry.number})"
            raise failures.changed_key(route.name, route.place, shown, where)
        if not self.accept_new:
            raise failures.unknown_key(route.name, route.place, key.type, key.fingerprint)
        record(self.path, names_of(route)[0], key)

    def files(self, route: Route) -> list[KnownHosts]:
        """Return what is read, the inventory's own file first."""
        return [self._own, *(read_known_hosts(path) for path in route.user_known_hosts)]


def names_of(route: Route) -> list[str]:
    """Return the names a host's key is kept under; the first is the one we write."""
    if route.host_key_alias:
        return [route.host_key_alias]
    first = lookup_name(route.hostname, route.port)
    return [first] if route.name == first else [first, route.name]
