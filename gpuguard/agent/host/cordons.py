"""The cordons of this node, in one file that every operator sees: `cordon.json`."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Optional

from gpuguard.agent.disk import read_json, write_json
from gpuguard.agent.locks import take_lock
from gpuguard.agent.paths import NodePaths
from gpuguard.model.cordons import UNKNOWN, Cordon, describe
from gpuguard.model.errors import BusyError, RefusedError

_WAIT_SECONDS = 5.0


def read_cordons(paths: NodePaths) -> list[Cordon]:
    """Return the cordons of this node; a file that cannot be read counts as one."""
    try:
        data = read_json(_file(paths)) or {}
        return [Cordon.from_dict(item) for item in data.get("cordons", [])]
    except (OSError, ValueError, AttributeError, TypeError) as error:
        reason = f"{_file(paths)} cannot be read: {error}"
        return [Cordon(id="", owner=UNKNOWN, reason=reason, at="")]


def set_cordon(paths: NodePaths, cordon: Cordon) -> list[Cordon]:
    """Add the cordon, in place of an earlier one of its owner; return all; raises OSError."""
    with _locked(paths):
        others = [item for item in read_cordons(paths) if item.owner != cordon.owner]
        return _write(paths, [*others, cordon])


def lift_cordon(paths: NodePaths, owner: str, cordon_id: Optional[str] = None) -> list[Cordon]:
    """Remove the cordon of `owner`, of this id if one is named; return what stays."""
    with _locked(paths):
        found = read_cordons(paths)
        stay = [
            item
            for item in found
            if item.owner != owner or (cordon_id is not None and item.id != cordon_id)
        ]
        return found if len(stay) == len(found) else _write(paths, stay)


def require_no_cordon(paths: NodePaths, host: str) -> None:
    """Refuse new work on a cordoned node; raises RefusedError with every owner and reason."""
    found = read_cordons(paths)
    if found:
        text = "it is " + "; ".join(map(describe, found))
        raise RefusedError(text, f"gpuguard uncordon {host}")


def _write(paths: NodePaths, cordons: list[Cordon]) -> list[Cordon]:
    # A file that could not be read is no owner's word: it is replaced by what is known.
    kept = [item for item in cordons if item.owner != UNKNOWN]
    write_json(_file(paths), {"cordons": [item.to_dict() for item in kept]})
    return kept


@contextlib.contextmanager
def _locked(paths: NodePaths) -> Iterator[None]:
    path = paths.root / "cordon.lock"
    lock = take_lock(path, {"kind": "cordon"}, _WAIT_SECONDS)
    if lock is None:
        raise BusyError(f"{path} is held by another agent", "try again in a moment")
    try:
        yield
    finally:
        lock.close()


def _file(paths: NodePaths) -> Path:
    return paths.root / "cordon.json"
