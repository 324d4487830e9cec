"""Decide what a restore does with each file the job had open; pure, so that a plan can show it."""

import stat
from dataclasses import dataclass
from enum import Enum
from typing import Optional

from gpuguard.model.manifests import OpenFile


class FileAction(str, Enum):
    """What happens to one file on the host the job comes back to."""

    LEAVE = "leave"
    CREATE = "create"  # nothing there: write the captured copy
    CREATE_EMPTY = "create_empty"  # an appended file too large to capture: starts anew
    MAKE_FOLDER = "make_folder"
    MAKE_FIFO = "make_fifo"
    CUT = "cut"  # grew since: keep the tail aside, cut to the recorded size
    REPLACE = "replace"  # another file in its place: keep it aside, write the captured copy
    REFUSE = "refuse"


@dataclass(frozen=True)
class Present:
    """What lies at the path now."""

    size: int
    mode: int  # st_mode with the file type
    same_start: Optional[bool] = None  # its first bytes equal the captured copy; None: not compared


@dataclass(frozen=True)
class FileDecision:
    """The action for one file, and the sentence that explains a refusal or a note."""

    path: str
    action: FileAction
    text: str = ""


def decide_file(wanted: OpenFile, present: Optional[Present]) -> FileDecision:
    """Decide what a restore does for `wanted`, given what is at its path."""
    if wanted.deleted:
        return FileDecision(wanted.path, FileAction.LEAVE)  # lives in CRIU's images
    if not stat.S_ISREG(wanted.mode):
        return _decide_special(wanted, present)
    if present is None:
        return _decide_missing(wanted)
    if not stat.S_ISREG(present.mode):
        return _refuse(wanted, f"{wanted.path} is no regular file here")
    if wanted.writable:
        return _decide_written(wanted, present)
    return _decide_read(wanted, present)


def aside_path(path: str, checkpoint: str) -> str:
    """Return where a restore keeps what it took away from `path`."""
    return f"{path}.gpuguard-{checkpoint}"


def _decide_missing(wanted: OpenFile) -> FileDecision:
    if wanted.captured is not None:
        return FileDecision(wanted.path, FileAction.CREATE)
    if wanted.append:
        text = f"{wanted.path} is missing and was too large to save: it goes on from empty"
        return FileDecision(wanted.path, FileAction.CREATE_EMPTY, text)
    return _refuse(wanted, f"{wanted.path} is missing")


def _decide_written(wanted: OpenFile, present: Present) -> FileDecision:
    if present.same_start is False or (wanted.captured and present.size < wanted.size):
        return FileDecision(wanted.path, FileAction.REPLACE)
    if present.size > wanted.size:
        return FileDecision(wanted.path, FileAction.CUT)
    if present.size < wanted.size and not wanted.append:
        return _refuse(wanted, f"{wanted.path} has {present.size} bytes, recorded {wanted.size}")
    return FileDecision(wanted.path, FileAction.LEAVE)


def _decide_read(wanted: OpenFile, present: Present) -> FileDecision:
    if present.size == wanted.size:
        return FileDecision(wanted.path, FileAction.LEAVE)
    return _refuse(wanted, f"{wanted.path} has {present.size} bytes, recorded {wanted.size}")


def _decide_special(wanted: OpenFile, present: Optional[Present]) -> FileDecision:
    if present is not None:
        if stat.S_IFMT(present.mode) == stat.S_IFMT(wanted.mode):
            return FileDecision(wanted.path, FileAction.LEAVE)
        return _refuse(wanted, f"{wanted.path} is another kind of file here")
    if stat.S_ISDIR(wanted.mode):
        return FileDecision(wanted.path, FileAction.MAKE_FOLDER)
    if stat.S_ISFIFO(wanted.mode):
        return FileDecision(wanted.path, FileAction.MAKE_FIFO)
    return _refuse(wanted, f"{wanted.path} is missing")


def _refuse(wanted: OpenFile, text: str) -> FileDecision:
    return FileDecision(wanted.path, FileAction.REFUSE, text)
