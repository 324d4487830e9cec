# ruff: noqa: PTH116 - hundreds of files: plain os calls cost a fraction
"""Look around on this host for all that a manifest asks for; nothing is judged here."""

import os
import platform
import pwd
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Optional

from gpuguard.agent.clock import utc_now
from gpuguard.agent.criu.invocations import criu_version, judge_version
from gpuguard.agent.host.facts import cpu_flags, memory_available
from gpuguard.agent.restoring.files import decide_files
from gpuguard.agent.survey.build_ids import read_build_id
from gpuguard.agent.survey.listening import Place, has_address, parse_place, port_holders
from gpuguard.agent.survey.sentences import named
from gpuguard.checkpoint.compatibility_files import is_program
from gpuguard.checkpoint.file_decisions import FileAction, FileDecision
from gpuguard.checkpoint.host_seen import HostSeen, ProgramSeen, Room
from gpuguard.model.manifests import Manifest, OpenFile

_PLACED = (FileAction.CREATE, FileAction.REPLACE)
_ANY = ("0.0.0.0", "::")  # noqa: S104 - compared, not bound
_DELETED = " (deleted)"
_NOT_ON_DISK = "/memfd:"


def look_around(host: str, manifest: Manifest, folder: Optional[Path]) -> HostSeen:
    """Return what this host is and has; `folder` holds the captured files, if there are any."""
    criu, kernel = criu_version(), os.uname().release
    decided = [pair for pair in decide_files(manifest, folder) if not is_program(pair[0])]
    places = [parse_place(text) for text in manifest.listens]
    return HostSeen(
        name=host,
        arch=platform.machine(),
        kernel=kernel,
        criu=criu,
        criu_problem=judge_version(criu, kernel),
        cpu_flags=cpu_flags(),
        memory_available=memory_available(),
        now=utc_now(),
        job_uid=_uid(manifest.job.user),
        programs=_programs(manifest),
        files=tuple(decision for _, decision in decided),
        locks=tuple(_locks(manifest.open_files)),
        blocked=tuple(_blocked(manifest)),
        rooms=_rooms(decided),
        taken=_taken(places),
        addresses_missing=_missing(places),
    )


def _uid(user: Optional[str]) -> Optional[int]:
    if user is None:
        return None
    try:
        return pwd.getpwnam(user).pw_uid
    except KeyError:
        return None


def _programs(manifest: Manifest) -> dict[str, ProgramSeen]:
    wanted = {item.path: item for item in manifest.open_files if is_program(item)}
    paths = dict.fromkeys([*wanted, *(process.exe for process in manifest.tree if process.exe)])
    seen = {path: _program(path, wanted.get(path)) for path in paths}
    return {path: program for path, program in seen.items() if program is not None}


def _program(path: str, wanted: Optional[OpenFile]) -> Optional[ProgramSeen]:
    try:
        size = os.stat(path).st_size
        # Its content is read only where it can matter.
        read = wanted is not None and wanted.build_id is not None and size == wanted.size
        return ProgramSeen(size, read_build_id(path) if read else None)
    except OSError:
        return None


def _locks(files: Iterable[OpenFile]) -> Iterable[str]:
    held = None
    for item in files:
        if not item.locked:
            continue
        held = _held_locks() if held is None else held
        try:
            status = os.stat(item.path)
        except OSError:
            continue  # not there: nobody can hold it
        key = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
        for pid in held.get(key, ()):
            yield f"{item.path} is locked by {named(pid) if pid > 0 else 'a process out of sight'}"


def _held_locks() -> dict[str, list[int]]:
    """Return who holds locks, by device and inode as /proc/locks writes them."""
    held: dict[str, list[int]] = {}
    for line in Path("/proc/locks").read_text().splitlines():
        words = line.split()
        if len(words) > 5 and words[1] != "->":
            held.setdefault(words[5], []).append(int(words[4]))
    return held


def _blocked(manifest: Manifest) -> Iterable[str]:
    for path in dict.fromkeys(process.cwd for process in manifest.tree):
        if not path.startswith("/") or path.endswith(_DELETED):
            continue
        first = _existing(path)
        if not os.path.isdir(first):  # noqa: PTH112
            yield first


def _rooms(decided: Iterable[tuple[OpenFile, FileDecision]]) -> tuple[Room, ...]:
    """Add up what is written, by mount; removed files come back out of the images."""
    needs: dict[str, int] = {}
    for item, decision in decided:
        if item.path.startswith(_NOT_ON_DISK) or not stat.S_ISREG(item.mode):
            continue
        if decision.action in _PLACED or item.deleted:
            mount = _mount(_existing(os.path.dirname(item.path)))  # noqa: PTH120
            needs[mount] = needs.get(mount, 0) + item.size
    return tuple(Room(mount, need, _free(mount)) for mount, need in sorted(needs.items()))


def _existing(path: str) -> str:
    while not os.path.lexists(path) and path != "/":
        path = os.path.dirname(path)  # noqa: PTH120
    return path


def _mount(path: str) -> str:
    while not os.path.ismount(path):
        path = os.path.dirname(path)  # noqa: PTH120
    return path


def _free(folder: str) -> int:
    status = os.statvfs(folder)
    return status.f_bavail * status.f_frsize


def _taken(places: Iterable[Place]) -> dict[str, str]:
    return {
        text: f"{' and '.join(named(pid) for pid in pids) or 'a process out of sight'} at {other}"
        for text, (other, pids) in port_holders(places).items()
    }


def _missing(places: Iterable[Place]) -> tuple[str, ...]:
    addresses = dict.fromkeys(place.address for place in places if place.address not in _ANY)
    return tuple(address for address in addresses if not has_address(address))
