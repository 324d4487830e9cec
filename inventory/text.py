"""Read a file as text, with an error that says what is wrong with it."""

import os
import stat
from pathlib import Path

from gpuguard.inventory.problems import Problem, refuse
from gpuguard.model.errors import UsageError

MAX_BYTES = 64 * 1024 * 1024  # 100,000 hosts written out in full need about 20 MB


def read_text(path: Path, hint: str | None = None) -> str:
    """Return the text of `path`, a byte-order mark left out.

    Raises:
        UsageError: the file is missing, no file, unreadable, too large or not UTF-8.
    """
    data = _read_bytes(path, hint)
    if len(data) > MAX_BYTES:
        raise UsageError(f"{path}: larger than {MAX_BYTES // 2**20} MiB, which is no such file")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return _refuse_encoding(path, data, error)


def _read_bytes(path: Path, hint: str | None) -> bytes:
    try:
        if stat.S_ISDIR(path.stat().st_mode):
            raise UsageError(f"{path}: is a directory, not a file", hint)
        with path.open("rb") as stream:
            return stream.read(MAX_BYTES + 1)
    except FileNotFoundError as error:
        raise UsageError(f"{path}: no such file", hint) from error
    except PermissionError as error:
        user = f"user id {os.geteuid()}"
        raise UsageError(f"{path}: not readable by {user}", f"ls -l {path}") from error
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: cannot be read: {error}", hint) from error


def _refuse_encoding(path: Path, data: bytes, error: UnicodeDecodeError) -> str:
    before = data[: error.start]
    line = before.count(b"\n") + 1
    column = error.start - (before.rfind(b"\n") + 1) + 1
    byte = data[error.start]
    problem = Problem(line, column, "", f"byte 0x{byte:02x} is not UTF-8")
    refuse(str(path), [problem], f"iconv -f latin1 -t utf-8 {path}")
