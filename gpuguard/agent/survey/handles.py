# ruff: noqa: PTH115, PTH116, PTH208 - thousands of links: plain os calls cost a fraction
"""What the processes of a job hold open or mapped, as the kernel names it."""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Optional


@dataclass(frozen=True)
class Handle:
    """One descriptor of one process."""

    pid: int
    number: str
    target: str  # what the link of /proc/PID/fd shows
    mode: int  # with the file's kind
    device: int  # of a device file
    protocol: Optional[str] = None  # of a socket, as the kernel calls it: TCP, MPTCP, UNIX, …

    @property
    def inode(self) -> int:
        """The number of a socket or pipe."""
        return int(self.target.partition("[")[2].rstrip("]"))


@dataclass(frozen=True)
class Mapping:
    """A mapping with a name, once for each process and name."""

    pid: int
    name: str


def read_handles(pids: Iterable[int]) -> list[Handle]:
    """Return every descriptor of the processes; those closed meanwhile are left out."""
    return [handle for pid in pids for handle in _of_process(pid)]


def read_mappings(pids: Iterable[int]) -> list[Mapping]:
    """Return every named mapping of the processes."""
    return [Mapping(pid, name) for pid in pids for name in sorted(_names(pid))]


def _of_process(pid: int) -> Iterator[Handle]:
    folder = f"/proc/{pid}/fd"
    try:
        numbers = os.listdir(folder)
    except (FileNotFoundError, ProcessLookupError):
        return  # ended meanwhile
    for number in numbers:
        link = f"{folder}/{number}"
        try:
            target, status = os.readlink(link), os.stat(link)
            protocol = _protocol(link) if target.startswith("socket:[") else None
        except OSError:
            continue  # closed meanwhile
        yield Handle(pid, number, target, status.st_mode, status.st_rdev, protocol)


def _protocol(link: str) -> str:
    return os.getxattr(link, "system.sockprotoname").rstrip(b"\0").decode()


def _names(pid: int) -> set[str]:
    try:
        lines = Path(f"/proc/{pid}/maps").read_text(errors="surrogateescape").splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return set()  # ended meanwhile
    return {parts[5] for parts in (line.split(None, 5) for line in lines) if len(parts) > 5}
