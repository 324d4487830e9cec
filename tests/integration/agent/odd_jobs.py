"""Real processes that use what a checkpoint cannot keep, and the job records around them."""

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gpuguard.agent import processes
from tests.integration.agent.kit import wait_for

PRELUDE = """
import ctypes, fcntl, os, signal, socket, subprocess, sys, time
libc = ctypes.CDLL(None, use_errno=True)
def syscall(*words):
    number = libc.syscall(*words)
    if number < 0:
        print("unsupported", os.strerror(ctypes.get_errno()), flush=True)
        sys.exit(0)
    return number
"""


# code of the finding → what the program does, and words its finding has to say
PROGRAMS = {
    "io-uring": ("p = ctypes.create_string_buffer(120); syscall(425, 4, p)", "io_uring"),
    "userfaultfd": ("syscall(323, 0)", "userfaultfd"),
    "perf-event": (
        "a = ctypes.create_string_buffer(112); a[4] = 112; a[0] = 1\nsyscall(298, a, 0, -1, -1, 0)",
        "perf_event",
    ),
    "bpf": (
        "a = (ctypes.c_uint * 18)(2, 4, 4, 1); syscall(321, 0, a, 72)",
        "bpf-map",
    ),
    "mqueue": (
        "syscall(240, b'gpuguard-test-%d' % os.getpid(), 0o102, 0o600, None)",
        "gpuguard-test",
    ),
    "sysv-memory": (
        "i = syscall(29, 0, 4096, 0o1600); libc.shmat.restype = ctypes.c_void_p\n"
        "libc.shmat(i, None, 0); libc.shmctl(i, 0, None)",
        "shmid",
    ),
    "device": ("os.open('/dev/fuse', os.O_RDWR)", "/dev/fuse (10:229)"),
    "mptcp": ("s = socket.socket(2, 1, 262); s.bind(('127.0.0.1', 0)); s.listen()", "MPTCP"),
    "vsock": ("s = socket.socket(40, 1)", "AF_VSOCK"),
    "packet-socket": ("s = socket.socket(17, 3, 0)", "packet socket"),
    "tcp-closed": (
        "l = socket.create_server(('127.0.0.1', 0))\n"
        "c = socket.create_connection(l.getsockname()); a, _ = l.accept()",
        "127.0.0.1:",
    ),
    "link-remap": (
        "f = open('one', 'w'); os.link('one', 'two'); os.unlink('one')",
        "/one was removed",
    ),
    "file-deleted": (
        "f = open('gone', 'wb'); f.write(bytes(3 << 20)); f.flush(); os.unlink('gone')",
        "3.0 MiB",
    ),
    "file-large": ("f = open('big', 'wb'); f.truncate(2 << 20)", "/big (2097152 bytes"),
    "file-locked": ("f = open('held', 'w'); fcntl.flock(f, fcntl.LOCK_EX)", "/held"),
    "seccomp": (
        "syscall(157, 38, 1, 0, 0, 0)\n"
        "class F(ctypes.Structure): _fields_ = [('n', ctypes.c_ushort), ('f', ctypes.c_void_p)]\n"
        "i = ctypes.create_string_buffer(b'\\x06\\0\\0\\0\\0\\0\\xff\\x7f')\n"
        "libc.prctl(22, 2, ctypes.byref(F(1, ctypes.addressof(i))))",
        "1 of its processes",
    ),
    "namespace-nested": (
        "subprocess.Popen(['unshare', '-m', 'sleep', '60']); time.sleep(0.3)",
        "sleep 60",
    ),
}

# Programs of which preflight and the real CRIU must think alike, and what preflight says of them.
MORE = {
    "plain": (
        "import select\n"
        "held = [select.epoll(), socket.socketpair(), os.pidfd_open(os.getpid()),\n"
        "        os.memfd_create('x'), socket.create_server(('127.0.0.1', 0)), open('/dev/kmsg'),\n"
        "        open('/proc/self/status'), os.open('/srv', os.O_RDONLY), socket.socket(2, 3, 1)]\n"
        "syscall(283, 1, 0), syscall(290, 0, 0), syscall(294, 0), syscall(300, 0, 0)",
        "",
    ),
    "own-terminal": ("m, s = os.openpty()", "terminal-own"),
    "nested-ipc": (
        "subprocess.Popen(['unshare', '-i', 'sleep', '60']); time.sleep(0.3)",
        "namespace-nested",
    ),
    "nested-net": (
        "subprocess.Popen(['unshare', '-n', 'sleep', '60']); time.sleep(0.3)",
        "namespace-network",
    ),
    "landlock": (
        "a = ctypes.create_string_buffer(b'\\1' + bytes(7)); syscall(444, a, 8, 0)",
        "anon-inode",
    ),
    "stream": ("s = socket.socket(1); s.connect('/srv/stream')", "unix-stream-outside"),
    "datagram": ("s = socket.socket(1, 2); s.connect('/srv/datagram')", "unix-datagram-outside"),
    "vfork": (
        "import threading\n"
        "def hang():\n"
        "    libc.vfork.restype = ctypes.c_int\n"
        "    if libc.vfork() == 0:\n"
        "        while True: libc.pause()\n"
        "threading.Thread(target=hang, daemon=True).start(); time.sleep(0.3)",
        "uninterruptible",
    ),
}


class UnsupportedError(Exception):
    """This kernel does not have what the program asks for."""


@contextmanager
def running(
    program: str, folder: Path, *options: str, **kept: object
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a Python program in a session of its own until it says that it is ready."""
    said = folder / "said"
    code = PRELUDE + textwrap.dedent(program) + "\nprint('ready', flush=True)\ntime.sleep(60)\n"
    with said.open("wb") as output:
        process = subprocess.Popen(
            [*options, sys.executable, "-c", code],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=folder,
            start_new_session=True,
            **kept,  # type: ignore[call-overload]
        )
    try:
        _await(process, said)
        yield process
    finally:
        _end(process.pid)
        process.wait(10)


def _await(process: subprocess.Popen[bytes], said: Path) -> None:
    wait_for(lambda: b"\n" in said.read_bytes() or process.poll() is not None)
    text = said.read_text()
    if text.startswith("unsupported"):
        raise UnsupportedError(text)
    assert "ready" in text, text


def _end(pid: int) -> None:
    for entry in reversed(processes.tree(pid)):
        os.kill(entry.pid, 9)
