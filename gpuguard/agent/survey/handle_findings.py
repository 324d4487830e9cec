"""Which open or mapped objects of a job CRIU cannot save: devices, rings, queues, terminals."""

import ctypes
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from gpuguard.agent.survey.connections import open_terminals
from gpuguard.agent.survey.handles import Handle
from gpuguard.agent.survey.outsiders import holders_outside
from gpuguard.agent.survey.sentences import listed, named, named_together
from gpuguard.agent.survey.shared_memory import host_memory_segments
from gpuguard.agent.survey.survey import Check, Survey
from gpuguard.agent.survey.tree_record import differs
from gpuguard.model.plans import Finding

# What CRIU saves behind a name of the kind anon_inode:NAME.
_SAVED = {"[eventfd]", "[eventpoll]", "[signalfd]", "[timerfd]", "inotify", "[fanotify]", "[pidfd]"}
_CODES = {"[io_uring]": "io-uring", "[userfaultfd]": "userfaultfd", "[perf_event]": "perf-event"}
_MEMORY_MAJOR = 1  # null, zero, full, random, urandom, kmsg
_TERMINAL_MAJORS = {3, 4, 5, *range(136, 144)}
_TUN = os.makedev(10, 200)
_MQUEUE_MAGIC = 0x19800202
_MEMORY_NAMES = ("/dev/shm/", "/dev/zero")  # noqa: S108 - compared, not used


def _shared(survey: Survey) -> Iterator[Finding]:
    targets = {handle.target for handle in survey.handles}
    known = {task.pid for task in survey.tree}
    holders = holders_outside(survey.tree[0].pid, targets, known)
    if holders:
        one = len(holders) == 1
        names = dict.fromkeys(name for held in holders.values() for name in held)
        text = (
            f"{named_together(list(holders), ' outside of its tree')} {'holds' if one else 'hold'} "
            f"{listed(names)} of it: {'it' if one else 'they'} would stay behind, "
            "and the job would lose the other end"
        )
        yield survey.found("shared-outside", text)


def _terminals(survey: Survey) -> Iterator[Finding]:
    terminals = set(open_terminals({handle.target for handle in survey.handles}))
    own = terminals & _made_by(survey)
    if terminals - own:
        text = f"it uses the terminal {', '.join(sorted(terminals - own))}"
        yield survey.found("terminal", text)
    if own:
        text = f"it has made the terminal {', '.join(sorted(own))} itself"
        yield survey.found("terminal-own", text)


def _kernel_objects(survey: Survey) -> Iterator[Finding]:
    seen: dict[tuple[str, int], None] = {}
    for name, pid in [
        *((handle.target, handle.pid) for handle in survey.handles),
        *((mapping.name, mapping.pid) for mapping in survey.mappings),
    ]:
        if name.startswith("anon_inode:") and name[11:] not in _SAVED:
            seen[name[11:], pid] = None
    for name, pid in seen:
        code = "bpf" if name.startswith("bpf") else _CODES.get(name, "anon-inode")
        yield survey.found(code, f"{named(pid)} uses {name.strip('[]')}")


def _devices(survey: Survey) -> Iterator[Finding]:
    held: dict[str, set[int]] = {}
    for handle in survey.handles:
        if _is_foreign_device(handle):
            numbers = f"{os.major(handle.device)}:{os.minor(handle.device)}"
            held.setdefault(f"{handle.target} ({numbers})", set()).add(handle.pid)
    opened = {name.partition(" ")[0] for name in held}
    for mapping in survey.mappings:
        if mapping.name not in opened and _maps_device(mapping.pid, mapping.name):
            held.setdefault(mapping.name, set()).add(mapping.pid)
    for name, pids in sorted(held.items()):
        holders = ", ".join(named(pid) for pid in sorted(pids)[:3])
        yield survey.found("device", f"the device {name} is in use by {holders}")


def _queues(survey: Survey) -> Iterator[Finding]:
    mounts = _mounts(survey)
    for handle in survey.handles:
        if not stat.S_ISREG(handle.mode) or not handle.target.startswith("/"):
            continue
        if _is_queue(f"/proc/{handle.pid}/fd/{handle.number}"):
            text = f"{named(handle.pid)} has the message queue {handle.target} open"
            yield survey.found("mqueue", text)
        elif mounts and _is_unreachable(handle, mounts):
            text = f"{handle.target}, open in {named(handle.pid)}, lies on no mount of the job"
            yield survey.found("file-unreachable", text)


def _segments(survey: Survey) -> Iterator[Finding]:
    shared = host_memory_segments(survey.pids)
    if shared:
        text = (
            f"it uses System V shared memory of the host ({', '.join(shared)}), which CRIU saves "
            "only in an IPC namespace of the job's own"
        )
        yield survey.found("sysv-memory", text)


CHECKS: tuple[Check, ...] = (_shared, _terminals, _kernel_objects, _devices, _queues, _segments)


def _is_foreign_device(handle: Handle) -> bool:
    if stat.S_ISBLK(handle.mode):
        return True
    if not stat.S_ISCHR(handle.mode) or handle.device == _TUN:
        return False
    return os.major(handle.device) not in {_MEMORY_MAJOR, *_TERMINAL_MAJORS}


def _maps_device(pid: int, name: str) -> bool:
    if not name.startswith("/dev/") or name.startswith(_MEMORY_NAMES):
        return False
    try:
        status = Path(f"/proc/{pid}/root{name}").stat()
    except OSError:
        return False  # removed: a plain file, since nodes of devices stay
    is_device = stat.S_ISCHR(status.st_mode) or stat.S_ISBLK(status.st_mode)
    return is_device and os.major(status.st_rdev) != _MEMORY_MAJOR


def _is_queue(link: str) -> bool:
    """Ask for the type of the file system: a queue looks like a plain file otherwise."""
    library = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(256)
    if library.statfs(os.fsencode(link), buffer) != 0:
        return False  # closed meanwhile
    return ctypes.c_long.from_buffer(buffer).value == _MQUEUE_MAGIC


def _mounts(survey: Survey) -> set[str]:
    """Return the numbers of all mounts the job shows; none in a container, refused as a whole."""
    if survey.job.supervisor is None and differs("mnt", str(survey.tree[0].pid), "self"):
        return set()
    found: set[str] = set()
    for pid in survey.pids:
        try:
            lines = Path(f"/proc/{pid}/mountinfo").read_text(errors="replace").splitlines()
        except OSError:
            continue  # ended meanwhile
        found.update(line.split(" ", 1)[0] for line in lines)
    return found


def _is_unreachable(handle: Handle, mounts: set[str]) -> bool:
    if handle.target.startswith("/memfd:") or handle.target.endswith(" (deleted)"):
        return False
    try:
        info = Path(f"/proc/{handle.pid}/fdinfo/{handle.number}").read_text()
    except OSError:
        return False  # closed meanwhile
    numbers = [line.split()[1] for line in info.splitlines() if line.startswith("mnt_id:")]
    return not mounts.issuperset(numbers)


def _made_by(survey: Survey) -> set[str]:
    """Return the terminals whose other end a process of the tree holds."""
    found = set()
    for handle in survey.handles:
        if not handle.target.endswith("/ptmx"):
            continue
        found.add(handle.target)
        try:
            info = Path(f"/proc/{handle.pid}/fdinfo/{handle.number}").read_text()
        except OSError:
            continue  # closed meanwhile
        numbers = [line.split()[1] for line in info.splitlines() if line.startswith("tty-index:")]
        found.update(f"/dev/pts/{number}" for number in numbers)
    return found
