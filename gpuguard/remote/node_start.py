"""What runs first on a node: find the agent, or take and keep it, then become it.

This text is sent to the node and runs in whatever python3 is there, so it is written for
Python 3.6, imports the standard library alone, and imports little when the agent is there already.
Its arguments: the agent's hash. It answers with one JSON line {"boot": ...} where it needs
something or fails, and when it starts the agent.
"""

import os
import sys

OLDEST = (3, 9)
MARKER = ".complete"
DAY = 86400  # seconds


def main(code: str, sha256: str) -> None:
    """Become the agent `sha256`; `code` is this text, for a newer Python to run."""
    if sys.version_info < OLDEST:
        _use_newer_python(code, sha256)
    folder = _agent_folder()
    home = os.path.join(folder, sha256)
    if not os.path.exists(os.path.join(home, MARKER)):
        _receive(folder, home, sha256)
    _check_owner(home)
    _touch(os.path.join(home, MARKER))
    _start(home)


def _start(home: str) -> None:
    _say({"boot": {"starting": os.path.basename(home)}})
    sys.path.insert(0, home)
    from gpuguard.agent import main as agent

    sys.exit(agent.main(["serve"]))


def _agent_folder() -> str:
    return os.path.join(os.environ.get("GPUGUARD_NODE_ROOT") or "/var/lib/gpuguard", "agent")


def _touch(marker: str) -> None:
    try:
        os.utime(marker, None)
    except OSError:
        # A file system that turned read-only still lets the agent look around.
        return


def _use_newer_python(code: str, sha256: str) -> None:
    for minor in range(19, OLDEST[1] - 1, -1):
        for folder in os.get_exec_path():
            path = os.path.join(folder, f"python3.{minor}")
            if os.access(path, os.X_OK):
                os.execv(path, [path, "-I", "-c", "c = ''\n" + code, sha256])
    _fail("old-python", sys.executable, ".".join(str(part) for part in sys.version_info[:3]))


def _check_owner(home: str) -> None:
    folder = os.path.dirname(home)
    for path in (home, folder, os.path.dirname(folder)):
        found = os.lstat(path)
        if found.st_uid != os.geteuid() or found.st_mode & 0o22:
            _fail("unsafe", path, "others than its user may write there")


def _fail(reason: str, path: str, text: str) -> None:
    _say({"boot": {"error": reason, "path": path, "text": text}})
    sys.exit(3)


def _say(message: object) -> None:
    import json

    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def _receive(folder: str, home: str, sha256: str) -> None:
    import errno

    reasons = {
        errno.ENOSPC: "disk-full",
        errno.EDQUOT: "disk-full",
        errno.EROFS: "read-only",
        errno.EACCES: "permission",
        errno.EPERM: "permission",
    }
    try:
        _make_folders(folder)
        _probe(folder)
        tar = _ask_for(sha256)
        _install(folder, home, tar)
    except OSError as error:
        reason = reasons.get(error.errno or 0, "cannot-store")
        _fail(reason, folder, error.strerror or str(error))
    _remove_old(folder, home)


def _make_folders(folder: str) -> None:
    before = os.umask(0o077)
    try:
        os.makedirs(folder, exist_ok=True)
    finally:
        os.umask(before)  # the agent's jobs inherit it


def _probe(folder: str) -> None:
    """Find out before anything is sent whether anything can be written."""
    path = os.path.join(folder, f".probe-{os.urandom(8).hex()}")
    try:
        with open(path, "wb") as stream:
            stream.write(b"0" * 4096)
    finally:
        if os.path.exists(path):
            os.unlink(path)


def _ask_for(sha256: str) -> bytes:
    import gzip
    import hashlib

    _say({"boot": {"need": sha256}})
    stream = sys.stdin.buffer
    size = int(stream.readline())
    packed = stream.read(size)
    if len(packed) != size:
        sys.exit(4)
    try:
        tar = gzip.decompress(packed)
    except (OSError, EOFError, ValueError) as error:
        _fail("damaged", sha256, str(error))
    if hashlib.sha256(tar).hexdigest() != sha256:
        _fail("damaged", sha256, "the archive does not have the announced hash")
    return tar


def _install(folder: str, home: str, tar: bytes) -> None:
    """Unpack beside the place, sync, and rename; a place that is there but not whole goes."""
    import compileall
    import shutil

    # Containers that share the folder may share our pid, so the name is random.
    new = os.path.join(folder, f".new-{os.urandom(8).hex()}")
    try:
        _unpack(tar, new)
        compileall.compile_dir(new, quiet=2)
        with open(os.path.join(new, MARKER), "w") as stream:
            stream.write(f"{len(tar)}\n")
        _sync_tree(new)
        _put_in_place(new, home)
        _sync(folder)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _unpack(tar: bytes, new: str) -> None:
    import io
    import tarfile

    os.mkdir(new, 0o700)
    with tarfile.open(fileobj=io.BytesIO(tar)) as archive:
        for entry in archive:
            path = os.path.normpath(os.path.join(new, entry.name))
            if not entry.isreg() or not path.startswith(new + os.sep):
                _fail("damaged", entry.name, "no plain file below the folder")
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            with open(path, "wb") as stream:
                stream.write(archive.extractfile(entry).read())  # type: ignore[union-attr]


def _put_in_place(new: str, home: str) -> None:
    """Rename `new` to `home`, unless another start was faster; a broken one is moved aside."""
    import fcntl

    folder = os.open(os.path.dirname(home), os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)  # or two would move each other's whole one aside
        if os.path.exists(os.path.join(home, MARKER)):
            return
        if os.path.lexists(home):
            os.rename(home, f"{home}.broken-{os.urandom(8).hex()}")
        os.rename(new, home)
    finally:
        os.close(folder)


def _sync_tree(top: str) -> None:
    for folder, _, names in os.walk(top):
        for name in names:
            _sync(os.path.join(folder, name))
        _sync(folder)


def _sync(path: str) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _remove_old(folder: str, home: str) -> None:
    """Remove agents unused for a day; none while a procedure is open or a process runs from it."""
    import shutil
    import time

    if _procedure_open(os.path.dirname(folder)):
        return
    running = _command_lines()
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        if path == home or not _is_agent(name):
            continue
        unused = time.time() - _last_used(path)
        if unused > DAY and name[:64].encode() not in running:
            shutil.rmtree(path, ignore_errors=True)


def _is_agent(name: str) -> bool:
    plain = name.split(".")[0]
    return name.startswith(".new-") or (len(plain) == 64 and not plain.strip("0123456789abcdef"))


def _last_used(path: str) -> float:
    for place in (os.path.join(path, MARKER), path):
        try:
            return os.lstat(place).st_mtime
        except FileNotFoundError:
            continue
    return float("inf")  # gone meanwhile: somebody else's start has put it in its place


def _procedure_open(root: str) -> bool:
    procedures = os.path.join(root, "procedures")
    if not os.path.isdir(procedures):
        return False
    return any(
        not os.path.exists(os.path.join(procedures, name, "result.json"))
        for name in os.listdir(procedures)
    )


def _command_lines() -> bytes:
    """Return the command lines of all processes; the agent's own ones hold its hash."""
    found = []
    for pid in os.listdir("/proc"):
        if not pid.isdigit():
            continue
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as stream:
                found.append(stream.read())
        except OSError:
            continue  # it ended meanwhile
    return b"\0".join(found)
