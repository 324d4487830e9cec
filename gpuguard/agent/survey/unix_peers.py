"""Who is at the other end of a Unix socket: asked of the kernel (sock_diag(7))."""

import os
import socket
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_SOCK_DIAG = 4  # NETLINK_SOCK_DIAG
_BY_FAMILY = 20
_REQUEST, _DUMP = 0x1, 0x300
_DONE, _ERROR = 3, 2
_SHOW_NAME, _SHOW_PEER = 0x1, 0x4
_ATTRIBUTE_NAME, _ATTRIBUTE_PEER = 0, 2
_BUFFER = 256 * 1024
_SECONDS = 10.0
DATAGRAM = socket.SOCK_DGRAM.value


@dataclass(frozen=True)
class UnixSocket:
    """One Unix socket of our network namespace."""

    kind: int  # SOCK_STREAM, SOCK_DGRAM or SOCK_SEQPACKET
    peer: int  # inode of the other end, 0 if there is none
    name: str  # its path, @name if abstract, empty if it has none


def unix_sockets() -> dict[int, UnixSocket]:
    """Return every Unix socket of our network namespace by inode.

    Raises:
        OSError: the kernel does not answer.
    """
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as link:
        link.settimeout(_SECONDS)
        show = _SHOW_NAME | _SHOW_PEER
        body = struct.pack("=BBHIIIII", socket.AF_UNIX, 0, 0, 0xFFFFFFFF, 0, show, 0, 0)
        link.send(struct.pack("=IHHII", 16 + len(body), _BY_FAMILY, _REQUEST | _DUMP, 1, 0) + body)
        return dict(_parse(message) for message in _messages(link))


def holders_of(inodes: Iterable[int]) -> dict[int, list[int]]:
    """Return which processes hold each of the sockets, by the sockets' inodes."""
    wanted = {f"socket:[{inode}]": inode for inode in inodes}
    found: dict[int, list[int]] = {}
    for name in os.listdir("/proc") if wanted else ():  # noqa: PTH208 - every process of the host
        if name.isdigit():
            for inode in _held(name, wanted):
                found.setdefault(inode, []).append(int(name))
    return found


def _held(pid: str, wanted: dict[str, int]) -> set[int]:
    found = set()
    try:
        for number in os.listdir(f"/proc/{pid}/fd"):  # noqa: PTH208
            inode = wanted.get(os.readlink(f"/proc/{pid}/fd/{number}"))  # noqa: PTH115
            if inode is not None:
                found.add(inode)
    except OSError:
        return found  # ended or closed meanwhile
    return found


def _messages(link: socket.socket) -> Iterator[bytes]:
    while True:
        data = link.recv(_BUFFER)
        while len(data) >= 16:
            length, kind = struct.unpack_from("=IH", data)
            if kind == _DONE:
                return
            if kind == _ERROR:
                number = -struct.unpack_from("=i", data, 16)[0]
                raise OSError(number, os.strerror(number))
            yield data[16:length]
            data = data[_padded(length) :]


def _parse(message: bytes) -> tuple[int, UnixSocket]:
    kind, inode = struct.unpack_from("=xBxxI", message)
    attributes = dict(_attributes(message[16:]))
    peer = attributes.get(_ATTRIBUTE_PEER, b"\0\0\0\0")
    name = attributes.get(_ATTRIBUTE_NAME, b"").decode(errors="replace")
    name = "@" + name[1:] if name.startswith("\0") else name.rstrip("\0")
    return inode, UnixSocket(kind, struct.unpack("=I", peer)[0], name)


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    while len(data) >= 4:
        length, kind = struct.unpack_from("=HH", data)
        if length < 4:
            return
        yield kind, data[4:length]
        data = data[_padded(length) :]


def _padded(size: int) -> int:
    return (size + 3) & ~3
