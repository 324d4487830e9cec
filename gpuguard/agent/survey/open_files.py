# ruff: noqa: PTH115, PTH116, PTH208
# A frozen job waits for these reads, and plain os calls cost a fraction of what Path does.
"""Find the files a job has open or mapped, and copy the small ones while it is frozen."""

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Optional

from gpuguard.model.manifests import OpenFile

_DELETED = " (deleted)"
_KEPT = (stat.S_IFREG, stat.S_IFDIR, stat.S_IFIFO)
_KERNEL_FOLDERS = ("/proc/", "/sys/")
_O_PATH = 0o10000000
# Memory that only looks like a file: CRIU keeps it among the job's pages.
_MEMORY = ("/SYSV", "/memfd:", "/dev/zero", "/anon_hugepage")


@dataclass(frozen=True)
class SeenFile:
    """An open or mapped file, and the /proc path by which its content can be read."""

    record: OpenFile
    source: str
    opened: bool  # through a descriptor, or shared and writable: it must travel with the job
    links: int = 1  # names it has in the file system


def read_open_files(pids: Iterable[int]) -> list[SeenFile]:
    """Return every file with a place in the file system that the processes hold, each once."""
    seen: dict[tuple[str, bool], SeenFile] = {}
    for pid in pids:
        for found in _of_process(pid):
            key = (found.record.path, found.record.deleted)
            seen[key] = _merge(seen[key], found) if key in seen else found
    return [seen[key] for key in sorted(seen)]


def capture_files(seen: Iterable[SeenFile], folder: Path, limit: int) -> tuple[OpenFile, ...]:
    """Copy what must travel and is at most `limit` bytes into `folder`/files; return all records.

    Nothing is synced here: the job is frozen meanwhile.

    Raises:
        OSError: the stage is full or a file cannot be read.
    """
    records = []
    for index, item in enumerate(seen):
        record = item.record
        if _must_travel(item) and record.size <= limit:
            name = f"files/{index:04d}"
            _copy(item.source, folder / name, record.size)
            record = replace(record, captured=name)
        records.append(record)
    return tuple(records)


def too_large(seen: Iterable[SeenFile], limit: int) -> list[str]:
    """Return one sentence for each file that must travel but is larger than `limit` bytes."""
    return [
        _too_large(item.record, limit)
        for item in seen
        if _must_travel(item) and item.record.size > limit
    ]


def largest_deleted(seen: Iterable[SeenFile]) -> int:
    """Return the bytes of the largest file that is open but deleted."""
    return max((item.record.size for item in seen if item.record.deleted), default=0)


def capture_bytes(seen: Iterable[SeenFile], limit: int) -> int:
    """Return how many bytes capture_files would copy."""
    sizes = [item.record.size for item in seen if _must_travel(item)]
    return sum(size for size in sizes if size <= limit)


def _of_process(pid: int) -> Iterator[SeenFile]:
    try:
        names = os.listdir(f"/proc/{pid}/fd")
        maps = Path(f"/proc/{pid}/maps").read_text(errors="surrogateescape")
    except (FileNotFoundError, ProcessLookupError):
        return  # ended meanwhile
    for name in names:
        found = _descriptor(pid, name)
        if found is not None:
            yield found
    for line in _file_maps(maps):
        found = _mapping(pid, line)
        if found is not None:
            yield found


def _descriptor(pid: int, name: str) -> Optional[SeenFile]:
    link = f"/proc/{pid}/fd/{name}"
    try:
        path, status = os.readlink(link), os.stat(link)
        flags, locked = _flags(pid, name)
    except OSError:
        return None  # closed meanwhile
    if not path.startswith("/") or path.startswith(_KERNEL_FOLDERS) or flags & _O_PATH:
        return None
    writable = flags & os.O_ACCMODE != os.O_RDONLY
    access = (writable, writable and bool(flags & os.O_APPEND), False)
    found = _seen(path, status, access, link)
    return replace(found, record=replace(found.record, locked=True)) if found and locked else found


def _mapping(pid: int, line: list[str]) -> Optional[SeenFile]:
    span, access, path = line[0], line[1], line[5]
    written = access[1] == "w" and access[3] == "s"
    source = f"/proc/{pid}/root{path}"
    if path.endswith(_DELETED):
        source = f"/proc/{pid}/map_files/{span}"
    try:
        status = os.stat(source)
    except OSError:
        return None  # unmapped meanwhile, or not reachable by name
    return _seen(path, status, (written, False, True), source)


def _seen(
    path: str, status: os.stat_result, access: tuple[bool, bool, bool], source: str
) -> Optional[SeenFile]:
    if stat.S_IFMT(status.st_mode) not in _KEPT:
        return None
    writable, append, mapped = access
    deleted = path.endswith(_DELETED)
    record = OpenFile(
        path=path[: -len(_DELETED)] if deleted else path,
        size=status.st_size if stat.S_ISREG(status.st_mode) else 0,
        mode=status.st_mode,
        writable=writable,
        append=append,
        mapped=mapped,
        deleted=deleted,
        uid=status.st_uid,
        gid=status.st_gid,
    )
    return SeenFile(record, source, opened=writable or not mapped, links=status.st_nlink)


def _merge(one: SeenFile, two: SeenFile) -> SeenFile:
    writers = [item.record for item in (one, two) if item.record.writable]
    record = replace(
        one.record,
        writable=bool(writers),
        append=bool(writers) and all(item.append for item in writers),
        mapped=one.record.mapped or two.record.mapped,
        locked=one.record.locked or two.record.locked,
    )
    best = one if one.opened else two
    return SeenFile(record, best.source, one.opened or two.opened, best.links)


def _file_maps(maps: str) -> Iterator[list[str]]:
    lines = set()
    for line in maps.splitlines():
        parts = line.split(None, 5)
        if len(parts) < 6 or parts[4] == "0" or not parts[5].startswith("/"):
            continue
        # One entry per file and kind of access: a library has five mappings, all alike to us.
        key = (parts[1][1] == "w" and parts[1][3] == "s", parts[5])
        if key not in lines and not parts[5].startswith(_MEMORY):
            lines.add(key)
            yield parts


def _flags(pid: int, name: str) -> tuple[int, bool]:
    """Return how a descriptor was opened, and whether a file lock is held through it."""
    lines = Path(f"/proc/{pid}/fdinfo/{name}").read_text().splitlines()
    flags = next((int(line.split()[1], 8) for line in lines if line.startswith("flags:")), 0)
    return flags, any(line.startswith("lock:") for line in lines)


def _must_travel(item: SeenFile) -> bool:
    record = item.record
    return item.opened and not record.deleted and stat.S_ISREG(record.mode)


def _too_large(record: OpenFile, limit: int) -> str:
    kind = "written" if record.writable else "read"
    return (
        f"{record.path} ({record.size} bytes, {kind}) is larger than the capture limit of {limit}: "
        "it is not in the checkpoint and must be on the host the job comes back to"
    )


def _copy(source: str, target: Path, size: int) -> None:
    reader = os.open(source, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        writer = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            done = 0
            while done < size:
                count = os.sendfile(writer, reader, done, size - done)
                if count == 0:
                    raise OSError(f"{source} became shorter than {size} bytes while it was copied")
                done += count
        finally:
            os.close(writer)
    finally:
        os.close(reader)
