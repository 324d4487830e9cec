"""Where gpuguard keeps its files on the operator's machine (XDG; system folders for root)."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

NAME = "gpuguard"


@dataclass(frozen=True)
class Paths:
    """The four folders; none of them needs to exist."""

    config: Path
    state: Path
    cache: Path
    runtime: Path

    @property
    def operations(self) -> Path:
        """Return the file of the operator's journal."""
        return self.state / "operations.sqlite3"


def find_paths(environ: Mapping[str, str], uid: int | None = None) -> Paths:
    """Return the folders for the user `uid` (the process's own by default)."""
    root = (os.geteuid() if uid is None else uid) == 0
    home = Path(environ.get("HOME") or "~").expanduser()
    state = _folder(environ, "XDG_STATE_HOME", "/var/lib" if root else home / ".local/state")
    return Paths(
        config=_folder(environ, "XDG_CONFIG_HOME", "/etc" if root else home / ".config"),
        state=state,
        cache=_folder(environ, "XDG_CACHE_HOME", "/var/cache" if root else home / ".cache"),
        runtime=_folder(environ, "XDG_RUNTIME_DIR", "/run" if root else state),
    )


def _folder(environ: Mapping[str, str], variable: str, default: Path | str) -> Path:
    """Return the gpuguard folder under `variable`; the standard says to ignore relative paths."""
    value = environ.get(variable, "")
    base = Path(value) if value.startswith("/") else Path(default)
    return base / NAME


def private_folder(path: Path) -> Path:
    """Make `path` a folder that only its owner can read, and return it; raise OSError."""
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    return path
