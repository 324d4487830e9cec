"""The ports a job listens on, and who uses a port on this host."""

import errno
import socket
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Optional

from gpuguard.agent.survey.connections import read_address, socket_rows
from gpuguard.agent.survey.handles import Handle
from gpuguard.agent.survey.unix_peers import holders_of

_TABLES = ("tcp", "tcp6", "udp", "udp6")
_WAITING = {"tcp": "0A", "udp": "07"}  # TCP_LISTEN, and TCP_CLOSE: an unconnected UDP socket
_ANY = ("0.0.0.0", "::")  # noqa: S104 - compared, not bound


@dataclass(frozen=True)
class Place:
    """An address and port that a socket waits on."""

    kind: str  # tcp or udp
    address: str
    port: int

    @property
    def text(self) -> str:
        """The place as a manifest keeps it."""
        return f"{self.kind} {self.address}:{self.port}"

    def clashes(self, other: "Place") -> bool:
        """Tell whether two sockets cannot both wait at these places."""
        if (self.kind, self.port) != (other.kind, other.port):
            return False
        return self.address == other.address or bool({self.address, other.address} & set(_ANY))


def parse_place(text: str) -> Place:
    """Return the place a manifest keeps.

    Raises:
        ValueError: it is none.
    """
    kind, _, rest = text.partition(" ")
    address, _, port = rest.rpartition(":")
    return Place(kind, address, int(port))


def listening_places(pid: int, handles: Iterable[Handle]) -> list[str]:
    """Return what the handles wait on, in the network namespace of process `pid`, sorted."""
    own = {handle.inode for handle in handles if handle.protocol is not None}
    return sorted(
        {place.text for place, inode in _waiting(str(pid)) if inode in own and place.port}
    )


def port_holders(wanted: Iterable[Place]) -> dict[str, tuple[str, list[int]]]:
    """Return who waits on this host where `wanted` wants to: text → other place, its processes."""
    present = list(_waiting("self"))
    clashes = {
        place.text: next(((other, inode) for other, inode in present if place.clashes(other)), None)
        for place in wanted
    }
    holders = holders_of(found[1] for found in clashes.values() if found)
    return {
        text: (found[0].text, holders.get(found[1], [])) for text, found in clashes.items() if found
    }


def has_address(address: str) -> bool:
    """Tell whether this host has the address, by binding a datagram socket to it for a moment."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as trial:
            trial.bind((address, 0))
    except OSError as error:
        return error.errno != errno.EADDRNOTAVAIL
    return True


def _waiting(pid: str) -> Iterator[tuple[Place, int]]:
    for table in _TABLES:
        kind = table[:3]
        for row in socket_rows(pid, table):
            if row[3] == _WAITING[kind]:
                place = _place(kind, row[1])
                if place is not None:
                    yield place, int(row[9])


def _place(kind: str, text: str) -> Optional[Place]:
    address, _, port = read_address(text).rpartition(":")
    return Place(kind, address, int(port)) if port else None
