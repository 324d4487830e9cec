"""Pid 1 of a job's own namespaces: its parent and life line, never part of an image.

    python3 -I supervisor.py run LAST STATUS
    python3 -I supervisor.py restore LAST STATUS -- CRIU-COMMAND…

It begins when stdin has brought its order to the end, JSON: the job to run, or {} for a restore;
with `lease` in it the job ends itself when its store cannot be reached for that long.
Until then nothing has happened, so the caller can note who it is first, and may die.
LAST is the pid after which the kernel counts on, so that every later process is outside the pids an
image needs. STATUS is replaced by rename: `running PID`, `exit CODE`, `signal NUMBER`,
`lapsed REASON` or `failed REASON`. All it needs is loaded before the job runs, because the agent's
folder may be replaced while it lives.
"""

import ctypes
import errno
import json
import os
import pwd
import signal
import sys
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NoReturn, Optional

if TYPE_CHECKING:
    from gpuguard.agent.jobs.lease import Lease

_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER, linux/prctl.h
_FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_WATCHED = {signal.SIGCHLD, *_FORWARDED}
_PADDING = 256  # bytes kept ready on disk for the exit code
_SHIELD = "-1000"
_LOOKS_SECONDS = 5.0
_LIBC = ctypes.CDLL(None, use_errno=True)


class Status:
    """The status file, and beside it the room for its last word, taken while there is room."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._next = f"{path}.next"

    def write(self, text: str) -> None:
        """Replace the status; raises OSError."""
        self._fill(text.encode())
        os.replace(self._next, self._path)  # noqa: PTH105
        folder = os.open(os.path.dirname(self._path), os.O_RDONLY)  # noqa: PTH120
        os.fsync(folder)
        os.close(folder)

    def reserve(self) -> None:
        """Take the room for the next status now; a full disk later does not lose it."""
        self._fill(b"")

    def write_last(self, text: str) -> None:
        """Write how the job ended; try for a while if the disk is in trouble."""
        for _ in range(20):
            try:
                self.write(text)
                return
            except OSError as error:
                _say(f"cannot write {self._path}: {error}")
                time.sleep(0.5)

    def _fill(self, text: bytes) -> None:
        # No truncation: the blocks that hold the padding are written again in place.
        descriptor = os.open(self._next, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.pwrite(descriptor, text[: _PADDING - 1].ljust(_PADDING - 1) + b"\n", 0)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def main(words: list[str]) -> int:
    """Start or restore the job, stay until it ends; return the exit code."""
    status = Status(words[2])
    if os.getpid() != os.getsid(0):
        os.setsid()
    # Blocked signals wait for sigwaitinfo; the handlers make the kernel deliver them to a pid 1.
    signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)
    for number in _WATCHED:
        signal.signal(number, lambda *_: None)
    _set_oom(_SHIELD)
    _set_last_pid(words[1])
    ended: dict[int, int] = {}
    order = _read_order()
    if order is None:
        return 1
    lease = _lease(order)
    root = _run(status, order) if words[0] == "run" else _restore(status, words[4:], ended)
    if root is None:
        return 1
    os.chdir("/")
    _close_others()
    try:
        status.reserve()
    except OSError as error:
        _say(f"no room for the exit code yet: {error}")
    code = _stay(root, ended, lease)
    text = f"exit {code}" if code >= 0 else f"signal {-code}"
    status.write_last(f"lapsed {lease.why}" if lease and lease.why else text)
    return 0


def _lease(order: dict[str, Any]) -> "Optional[Lease]":
    if not order.get("lease"):
        return None
    # Before anything runs: later the agent's folder need not be there any more.
    from gpuguard.agent.jobs.lease import Lease

    return Lease(order["lease"], _say)


def _read_order() -> Optional[dict[str, Any]]:
    try:
        order: dict[str, Any] = json.loads(sys.stdin.read())
    except ValueError:
        # The caller died. The status is not touched: another supervisor may own it by now.
        _say("no order came")
        return None
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    return order


def _run(status: Status, job: dict[str, Any]) -> Optional[int]:
    reader, writer = os.pipe()
    root = os.fork()
    if root == 0:
        os.close(reader)
        _become(job, writer)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        reason = pipe.read()
    if reason:
        os.waitpid(root, 0)
        status.write(f"failed {reason}")
        return None
    status.write(f"running {root}")
    return root


def _become(job: dict[str, Any], writer: int) -> NoReturn:
    what = "the job cannot be started"
    try:
        os.setsid()
        _LIBC.prctl(_SUBREAPER, 1, 0, 0, 0)
        log = os.open(job["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.dup2(log, 1)
        os.dup2(log, 2)
        _set_oom(job["oom_score_adj"])
        os.umask(0o022)
        what = f"cannot switch to user {job['user']}"
        _switch_user(job["user"])
        what = f"cannot enter the working directory {job['cwd']}"
        os.chdir(job["cwd"])
        what = f"cannot execute {job['command'][0]}"
        _reset_signals()
        os.execvpe(job["command"][0], job["command"], job["env"])  # noqa: S606
    except OSError as error:
        reason = f"{what}: {error.strerror or error}"
        if error.errno == errno.ENOENT and what.startswith("cannot execute"):
            reason = f"command not found: {job['command'][0]}"
        os.write(writer, reason.encode())
    except BaseException as error:
        os.write(writer, f"{what}: {error!r}".encode())
    os._exit(127)


def _switch_user(name: Optional[str]) -> None:
    if name is None:
        return
    user = pwd.getpwnam(name)
    if user.pw_uid == os.getuid():
        return
    os.initgroups(name, user.pw_gid)
    os.setgid(user.pw_gid)
    os.setuid(user.pw_uid)


def _reset_signals() -> None:
    for number in (*_WATCHED, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, set())


def _restore(status: Status, command: list[str], ended: dict[int, int]) -> Optional[int]:
    criu = os.fork()
    if criu == 0:
        try:
            _reset_signals()
            os.execvp(command[0], command)  # noqa: S606
        except OSError as error:
            _say(f"cannot execute {command[0]}: {error}")
        os._exit(127)
    while criu not in ended:
        _next_signal()
        _reap(ended)
    code = ended.pop(criu)
    if code != 0:
        how = f"exit code {code}" if code > 0 else f"signal {-code}"
        status.write(f"failed criu ended with {how}")
        return None
    pidfile = command[command.index("--pidfile") + 1]
    with open(pidfile, encoding="ascii") as file:  # noqa: PTH123
        root = int(file.read())
    status.write(f"running {root}")
    return root


def _stay(root: int, ended: dict[int, int], lease: "Optional[Lease]") -> int:
    if lease:
        threading.Thread(target=lease.keep, daemon=True).start()
    while root not in ended:
        number = _next_signal(lease.pause if lease else _LOOKS_SECONDS)
        if number in _FORWARDED:
            _forward(root, number)
        _reap(ended)
        if lease and root not in ended and lease.lapsed():
            _kill_all()
    return ended[root]


def _next_signal(seconds: float = _LOOKS_SECONDS) -> int:
    # The limit covers a child that ended while nobody looked, e.g. before it was ours.
    found = signal.sigtimedwait(_WATCHED, seconds)
    return found.si_signo if found else 0


def _kill_all() -> None:
    """Kill what descends from us; a CRIU that entered from outside has a parent of its own."""
    parents = dict(_parents())
    for pid in parents:
        above = pid
        while above in parents and above != 1:
            above = parents[above]
        if above == 1 and pid != 1:
            _forward(pid, signal.SIGKILL)


def _parents() -> Iterator[tuple[int, int]]:
    for name in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208
        try:
            with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
                yield int(name), int(file.read().rpartition(b")")[2].split()[1])
        except OSError:
            continue


def _forward(root: int, number: int) -> None:
    try:
        os.kill(root, number)
    except ProcessLookupError:
        return


def _reap(ended: dict[int, int]) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        ended[pid] = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def _set_oom(value: str) -> None:
    try:
        with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:  # noqa: PTH123
            file.write(str(value))
    except OSError as error:
        _say(f"oom_score_adj stays as it is: {error}")


def _set_last_pid(last: str) -> None:
    with open("/proc/sys/kernel/ns_last_pid", "w", encoding="ascii") as file:  # noqa: PTH123
        file.write(last)


def _close_others() -> None:
    os.closerange(3, max(map(int, os.listdir("/proc/self/fd"))) + 1)  # noqa: PTH208


def _say(text: str) -> None:
    # On stderr, which is the supervisor's own log; a full disk must not end the job's life line.
    try:
        os.write(2, f"supervisor: {text}\n".encode())
    except OSError:
        return


if __name__ == "__main__":
    sys.path.insert(0, os.path.abspath(os.path.join(__file__, "..", "..", "..", "..")))  # noqa: PTH100, PTH118
    try:
        sys.exit(main(sys.argv[1:]))
    except Exception as error:
        Status(sys.argv[3]).write(f"failed the supervisor: {error!r}")
        raise
