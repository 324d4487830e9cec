"""Whether a stage or a store really takes what a checkpoint does to it: tried, not guessed."""

import errno
import json
import os
import shutil
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Optional

from gpuguard.agent.bounded import run_bounded
from gpuguard.agent.host.checks import finding
from gpuguard.model.plans import Finding, Level

_SECONDS = 20.0
_LITTLE_ROOM = 1024**3  # bytes; hardly a job of this trade fits into less
_REMEDIES = {
    errno.ENOSPC: "free some space, or name another folder in the inventory",
    errno.EDQUOT: "raise the quota, or name another folder in the inventory",
    errno.EROFS: "mount it for writing; a file system with errors turns itself read-only",
    errno.EACCES: "give root the right to write there (an NFS export needs no_root_squash)",
    errno.EPERM: "use a file system with hard links, and an export without root_squash",
    errno.ENOTDIR: "name a folder in the inventory",
}
_CHILD = (
    "import sys; sys.path.insert(0, sys.argv[1]);"
    "from gpuguard.agent.store.folder_checks import main; main(sys.argv[2], sys.argv[3])"
)


def check_folder(role: str, path: Path, seconds: float = _SECONDS) -> list[Finding]:
    """Check a `stage` or `store` in a child, since a dead file server hangs whoever asks it."""
    home = str(Path(__file__).resolve().parents[3])
    done = run_bounded((sys.executable, "-I", "-c", _CHILD, home, role, str(path)), seconds)
    if done.code is None:
        text = f"the {role} {path} hangs: no answer within {seconds:.0f} s"
        return [finding(Level.ERROR, f"{role}-hangs", text, "look at its disk or file server")]
    if done.code != 0:
        return [finding(Level.ERROR, f"{role}-unknown", f"cannot check {path}: {done.text}")]
    return [Finding.from_dict(item) for item in json.loads(done.out)]


def main(role: str, path: str) -> None:
    """Print what `try_folder` finds as JSON: the child's side of `check_folder`."""
    try:
        found = try_folder(role, Path(path))
    except OSError as error:
        found = [_unfit(role, Path(path), "look into", error)]
    sys.stdout.write(json.dumps([item.to_dict() for item in found]))


def try_folder(role: str, path: Path) -> list[Finding]:
    """Write, sync, link and rename in the folder; a stage that is not there yet may be made."""
    place = _existing(path) if role == "stage" else path
    if not place.exists():
        remedy = f"mount it on this host, or make it: mkdir -m 0700 {path}"
        return [finding(Level.ERROR, f"{role}-missing", f"the {role} {path} is missing", remedy)]
    trial = place / f".gpuguard-doctor-{os.getpid()}-{os.urandom(4).hex()}"
    problem = _try(role, path, trial)
    if problem:
        return [problem]
    return [*_openness(role, path), *_room(role, path, place)]


def _existing(path: Path) -> Path:
    return next(place for place in (path, *path.parents) if place.exists())


def _try(role: str, path: Path, trial: Path) -> Optional[Finding]:
    doing = "make a folder in"
    try:
        trial.mkdir(mode=0o700)
        for name, step in _STEPS.items():
            doing = name
            step(trial)
        doing = "remove what was tried in"
        shutil.rmtree(trial)
    except OSError as error:
        shutil.rmtree(trial, ignore_errors=True)
        return _unfit(role, path, doing, error)
    return None


def _unfit(role: str, path: Path, doing: str, error: OSError) -> Finding:
    text = f"cannot {doing} the {role} {path}: {error.strerror}"
    remedy = _REMEDIES.get(error.errno or 0, "look at `dmesg` on the host")
    return finding(Level.ERROR, f"{role}-unfit", text, remedy)


def _write(trial: Path) -> None:
    with (trial / "one").open("wb") as file:
        file.write(os.urandom(64 * 1024))
        file.flush()
        os.fsync(file.fileno())


def _sync(trial: Path) -> None:
    folder = os.open(trial, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _link(trial: Path) -> None:
    os.link(trial / "one", trial / "two")
    try:
        os.link(trial / "one", trial / "two")
    except FileExistsError:
        return
    raise OSError(errno.EPERM, "a second link to one name was not refused")


def _rename(trial: Path) -> None:
    (trial / "two").rename(trial / "three")


_STEPS: dict[str, Callable[[Path], None]] = {
    "write a file in": _write,
    "sync": _sync,
    "make a hard link in": _link,
    "rename a file in": _rename,
}


def _openness(role: str, path: Path) -> list[Finding]:
    if not path.exists():
        return []
    mode = stat.S_IMODE(path.stat().st_mode)
    if not mode & 0o022 or mode & stat.S_ISVTX:
        return []
    text = f"others may write into the {role} {path} (mode {mode:04o})"
    remedy = f"chmod go-w {path}"
    return [finding(Level.WARNING, f"{role}-open", text, remedy)]


def _room(role: str, path: Path, place: Path) -> list[Finding]:
    free = shutil.disk_usage(place).free
    text = f"{free / 1024**3:.1f} GiB free in the {role} {path}"
    if free < _LITTLE_ROOM:
        return [finding(Level.WARNING, f"{role}-room", f"only {text}", _REMEDIES[errno.ENOSPC])]
    return [finding(Level.OK, role, text)]
