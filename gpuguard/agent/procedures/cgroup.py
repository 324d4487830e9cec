"""Leave the login's cgroup where no systemd gives a unit: what ends with the login spares us."""

import os
from pathlib import Path
from typing import Optional

_NAME = "gpuguard"


def leave_login() -> Optional[Path]:
    """Move this process into a cgroup of gpuguard's own; return it.

    None where there is nothing to leave: no cgroup v2, none that can be written, or the root
    already.
    """
    top = _mount()
    if top is None or _own() in (None, "/"):
        return None
    folder = top / _NAME
    try:
        folder.mkdir(exist_ok=True)
        (folder / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")
    except OSError:
        return None
    return folder


def _mount() -> Optional[Path]:
    for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines():
        _, place, kind, *_ = line.split(" ")
        if kind == "cgroup2":
            return Path(place)
    return None


def _own() -> Optional[str]:
    for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
        if line.startswith("0::"):
            return line[3:]
    return None
