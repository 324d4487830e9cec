"""The TCP connections and terminals of a job: what a checkpoint cannot keep."""

import errno
import os
import socket
import struct
from collections.abc import Iterable
from pathlib import Path

_ESTABLISHED = "01"
_NO_TABLE = (errno.ENOENT, errno.ESRCH, errno.EINVAL)  # no IPv6 here, or the process has ended
_TERMINALS = ("/dev/pts/", "/dev/tty")


def read_descriptors(pids: Iterable[int]) -> set[str]:
    """Return what the descriptors of the processes point to."""
    targets: set[str] = set()
    for pid in pids:
        try:
            handles = list(Path(f"/proc/{pid}/fd").iterdir())
        except OSError:
            continue  # ended meanwhile
        for handle in handles:
            try:
                targets.add(os.readlink(handle))  # noqa: PTH115 - one of thousands
            except OSError:
                continue  # closed meanwhile
    return targets


def open_connections(pid: int, descriptors: set[str]) -> list[str]:
    """Return the established TCP connections among `descriptors`, as `local -> peer`.

    `pid` is any process of the job: its network namespace is the one looked at.
    """
    inodes = {name[8:-1] for name in descriptors if name.startswith("socket:[")}
    found = []
    for table in ("tcp", "tcp6"):
        for line in socket_rows(str(pid), table):
            if line[3] == _ESTABLISHED and line[9] in inodes:
                found.append(f"{read_address(line[1])} -> {read_address(line[2])}")
    return found


def open_terminals(descriptors: set[str]) -> list[str]:
    """Return the terminals among `descriptors`."""
    return sorted(name for name in descriptors if name.startswith(_TERMINALS))


def shared_outside(pids: set[int], descriptors: set[str]) -> dict[int, list[str]]:
    """Return the pipes and sockets of the job that processes outside of it hold, by their pid.

    Such a pipe is torn at a restore, and the job ends by SIGPIPE although CRIU reported success;
    such a socket tells of a member of the job that left its tree.
    """
    wanted = {name for name in descriptors if name.startswith(("pipe:[", "socket:["))}
    found: dict[int, list[str]] = {}
    for name in os.listdir("/proc") if wanted else ():  # noqa: PTH208 - every process of the host
        if name.isdigit() and int(name) not in pids:
            shared = read_descriptors([int(name)]) & wanted
            if shared:
                found[int(name)] = sorted(shared)
    return found


def socket_rows(pid: str, table: str) -> list[list[str]]:
    """Return the rows of /proc/PID/net/TABLE, split into fields; none where there is no table."""
    try:
        lines = Path(f"/proc/{pid}/net/{table}").read_text().splitlines()
    except OSError as error:
        if error.errno not in _NO_TABLE:
            raise
        return []
    return [line.split() for line in lines[1:]]


def read_address(text: str) -> str:
    """Return an address of such a row as `address:port`."""
    host, _, port = text.partition(":")
    words = [host[at : at + 8] for at in range(0, len(host), 8)]
    packed = b"".join(struct.pack("=I", int(word, 16)) for word in words)
    family = socket.AF_INET if len(packed) == 4 else socket.AF_INET6
    return f"{socket.inet_ntop(family, packed)}:{int(port, 16)}"
