"""Change files on the host a job comes back to, each change written down before it is made.

A change is a plain dictionary, because it goes into the journal: whoever takes it back may be
another process after a crash, in the middle of any change.
"""

import os
import shutil
import stat
from pathlib import Path
from typing import Any, Optional

from gpuguard.agent.store.hashing import sync_path
from gpuguard.checkpoint.file_decisions import FileAction, FileDecision, Present, aside_path
from gpuguard.model.manifests import OpenFile

Change = dict[str, Any]
_COMPARE_BYTES = 1024 * 1024
_FOLDER_MODE = 0o755


def look_at(wanted: OpenFile, captured: Optional[Path]) -> Optional[Present]:
    """Return what lies at the file's path now, compared with the captured copy if there is one.

    Raises:
        OSError: it is there but cannot be read.
    """
    try:
        status = Path(wanted.path).stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    same = None
    if captured is not None and stat.S_ISREG(status.st_mode) and wanted.writable:
        size = min(status.st_size, wanted.size)
        same = _equal_start(Path(wanted.path), captured, size)
    return Present(status.st_size, status.st_mode, same)


def plan_change(wanted: OpenFile, decision: FileDecision, checkpoint: str) -> Optional[Change]:
    """Return the change that `decision` means, with all that is needed to take it back."""
    path = Path(wanted.path)
    if decision.action is FileAction.LEAVE:
        return _mode_change(wanted, path)
    change: Change = {
        "path": wanted.path,
        "action": decision.action.value,
        "size": wanted.size,
        "mode": stat.S_IMODE(wanted.mode),
        "uid": wanted.uid,
        "gid": wanted.gid,
        "captured": wanted.captured,
    }
    if decision.action in (FileAction.CUT, FileAction.REPLACE):
        change["aside"] = _free_name(aside_path(wanted.path, checkpoint))
        change["mode_before"] = stat.S_IMODE(path.stat().st_mode)
    return change


def plan_folders(paths: list[str]) -> list[Change]:
    """Return a change for each folder that is missing, outer ones first."""
    missing: dict[str, None] = {}
    for path in paths:
        folder = Path(path)
        for parent in [*reversed(folder.parents), folder]:
            if not parent.exists():
                missing[str(parent)] = None
    action = FileAction.MAKE_FOLDER.value
    return [{"path": path, "action": action, "mode": _FOLDER_MODE} for path in missing]


def apply_change(change: Change, checkpoint_folder: Path) -> None:
    """Make one change.

    Raises:
        OSError: the file system refuses.
    """
    path, action = Path(change["path"]), change["action"]
    if action == "mode":
        path.chmod(change["mode"])
    elif action == FileAction.MAKE_FOLDER.value:
        path.mkdir(mode=change["mode"])
        path.chmod(change["mode"])
    elif action == FileAction.CUT.value:
        _cut(path, Path(change["aside"]), change["size"])
        path.chmod(change["mode"])
    else:
        _make(change, path, checkpoint_folder)


def undo_change(change: Change) -> None:
    """Take one change back, whether it was made, half made or not made at all.

    Raises:
        OSError: the file system refuses.
    """
    path, action = Path(change["path"]), change["action"]
    if action == "mode":
        path.chmod(change["mode_before"])
    elif action == FileAction.MAKE_FOLDER.value:
        if path.is_dir() and not any(path.iterdir()):
            path.rmdir()
    elif action == FileAction.CUT.value:
        _uncut(path, Path(change["aside"]), change)
    elif action == FileAction.REPLACE.value:
        if os.path.lexists(change["aside"]):
            Path(change["aside"]).replace(path)
    else:
        path.unlink(missing_ok=True)


def _make(change: Change, path: Path, checkpoint_folder: Path) -> None:
    if change["action"] == FileAction.REPLACE.value:
        path.rename(change["aside"])
    if change["action"] == FileAction.MAKE_FIFO.value:
        os.mkfifo(path)
    elif change["captured"]:
        shutil.copyfile(checkpoint_folder / change["captured"], path)
    else:
        path.touch(exist_ok=False)
    os.chown(path, change["uid"], change["gid"])
    path.chmod(change["mode"])
    if change["action"] != FileAction.MAKE_FIFO.value:
        sync_path(path)


def _cut(path: Path, aside: Path, size: int) -> None:
    """Keep the tail beyond `size` bytes aside, complete and synced, before it is cut off."""
    fresh = aside.with_name(aside.name + ".new")
    with path.open("rb") as source, fresh.open("wb") as target:
        source.seek(size)
        shutil.copyfileobj(source, target)
        target.flush()
        os.fsync(target.fileno())
    fresh.rename(aside)
    sync_path(aside.parent)
    os.truncate(path, size)


def _uncut(path: Path, aside: Path, change: Change) -> None:
    aside.with_name(aside.name + ".new").unlink(missing_ok=True)
    if aside.exists():
        with aside.open("rb") as source, path.open("r+b") as target:
            target.seek(change["size"])
            shutil.copyfileobj(source, target)
            target.flush()
            os.fsync(target.fileno())
        aside.unlink()
    path.chmod(change["mode_before"])


def _mode_change(wanted: OpenFile, path: Path) -> Optional[Change]:
    if wanted.deleted or (wanted.mapped and not wanted.writable):
        return None  # lives in the images; or a library: not ours to change
    now = stat.S_IMODE(path.stat().st_mode)
    if now == stat.S_IMODE(wanted.mode):
        return None
    mode = stat.S_IMODE(wanted.mode)
    return {"path": wanted.path, "action": "mode", "mode": mode, "mode_before": now}


def _equal_start(one: Path, two: Path, size: int) -> bool:
    with one.open("rb") as left, two.open("rb") as right:
        while size > 0:
            step = min(size, _COMPARE_BYTES)
            if left.read(step) != right.read(step):
                return False
            size -= step
    return True


def _free_name(path: str) -> str:
    number, candidate = 1, path
    while os.path.lexists(candidate):
        number += 1
        candidate = f"{path}.{number}"
    return candidate
