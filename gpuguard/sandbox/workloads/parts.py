"""Places outside the main process's memory that take part in the chain. Python 3.9, Linux."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable

from gpuguard.sandbox.workloads.chain import MARK, first_state, mix

LOST = 3  # exit code when a part is gone


def answer_on(seed: bytes, name: str, source: int, sink: int) -> None:
    """Answer every digest that comes in with this part's next state, until the pipe ends."""
    state = first_state(seed, name)
    while True:
        digest = os.read(source, MARK)
        if len(digest) < MARK:
            return
        state = mix(state, digest)
        os.write(sink, state)


def start_thread(seed: bytes, name: str) -> Callable[[bytes], bytes]:
    """Keep a state in a thread's local variable."""
    near, far = _pipes()
    threading.Thread(target=answer_on, args=(seed, name, *far), daemon=True).start()
    return _asker(name, *near)


def start_child(seed: bytes, name: str) -> Callable[[bytes], bytes]:
    """Keep a state in a forked child."""
    near, far = _pipes()
    if os.fork() == 0:
        _live_as(seed, name, near, far)
    _close(far)
    return _asker(name, *near)


def start_orphan(seed: bytes, name: str) -> Callable[[bytes], bytes]:
    """Keep a state in a process whose parent has ended."""
    near, far = _pipes()
    middle = os.fork()
    if middle == 0:
        if os.fork() == 0:
            _live_as(seed, name, near, far)
        os._exit(0)
    os.waitpid(middle, 0)
    _close(far)
    return _asker(name, *near)


def make_segment(seed: bytes, name: str) -> Callable[[bytes], bytes]:
    """Keep a state in a SysV shared memory segment and nowhere else."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.shmat.restype = ctypes.c_void_p
    libc.shmat.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_int)
    key_private, create_0600 = 0, 0o1600
    segment = libc.shmget(key_private, 4096, create_0600)
    place = libc.shmat(segment, None, 0) if segment >= 0 else None
    if place is None or place == ctypes.c_void_p(-1).value:
        raise OSError(ctypes.get_errno(), "no shared memory segment")
    memory = memoryview((ctypes.c_char * 4096).from_address(place)).cast("B")
    memory[:MARK] = first_state(seed, name)

    def answer(digest: bytes) -> bytes:
        memory[:MARK] = mix(bytes(memory[:MARK]), digest)
        return bytes(memory[:MARK])

    return answer


def make_deleted(seed: bytes, name: str) -> Callable[[bytes], bytes]:
    """Keep a state in an open file that has been deleted."""
    path = f"deleted-{os.getpid()}"
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    os.unlink(path)  # noqa: PTH108
    os.pwrite(file, first_state(seed, name), 0)

    def answer(digest: bytes) -> bytes:
        state = mix(os.pread(file, MARK, 0), digest)
        os.pwrite(file, state, 0)
        return state

    return answer


MAKERS = {
    "child": start_child,
    "orphan": start_orphan,
    "shm": make_segment,
    "deleted": make_deleted,
    # Last: no process is forked after it, a thread would be missing in the copy.
    "thread": start_thread,
}


def _pipes() -> tuple[tuple[int, int], tuple[int, int]]:
    """Return (read, write) for the near end and for the far end of a two-way connection."""
    (near_read, far_write), (far_read, near_write) = os.pipe(), os.pipe()
    return (near_read, near_write), (far_read, far_write)


def _live_as(seed: bytes, name: str, near: tuple[int, int], far: tuple[int, int]) -> None:
    _close(near)
    answer_on(seed, name, *far)
    os._exit(0)


def _close(ends: tuple[int, int]) -> None:
    for end in ends:
        os.close(end)


def _asker(name: str, source: int, sink: int) -> Callable[[bytes], bytes]:
    def ask(digest: bytes) -> bytes:
        try:
            os.write(sink, digest)
            reply = os.read(source, MARK)
        except BrokenPipeError:
            reply = b""
        if len(reply) < MARK:
            sys.stderr.write(f"steps: the {name} is gone\n")
            sys.exit(LOST)
        return reply

    return ask
